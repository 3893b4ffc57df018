// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/diagnostics.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/image_file.hpp"
#include "tessera/physics/noise.hpp"

namespace tessera {
namespace {

constexpr int kLags = 5;                        // whiteness: samples, in both axes
constexpr std::int64_t kSide = 32;              // of a tile, samples; doubled for large parts
constexpr std::int64_t kMostTiles = 256 * 256;  // every rank holds a number for each
constexpr std::int64_t kPicture = 4096 * 4096;  // samples: a larger PNG takes minutes
constexpr double kShown = 4;                    // noise levels from gray to white
constexpr double kChange = 0.01;                // largest value of a change that probes a denoiser
constexpr std::uint32_t kProbePart = 0xFFFF;    // its random numbers: no part of a measurement has this index

// Sums over ranks of plain arithmetic, in one pass over this rank's samples.
struct Sums {
  double samples = 0, mean = 0, squares = 0;
  std::vector<double> tile_squares, tile_samples;
};

void add_samples(const at::Tensor& residual, const at::Tensor& counted, const Box& block,
                 const ResidualStatistics& s, Sums& sums) {
  const std::int64_t channels = residual.size(0), height = block.extent(1), width = block.extent(2);
  for (std::int64_t c = 0; c < channels; ++c) {
    const at::Tensor r = residual[c].to(at::kCPU, at::kDouble).contiguous();
    const at::Tensor n = counted.defined() ? counted[c].to(at::kCPU, at::kDouble).contiguous() : at::Tensor();
    const double* value = r.const_data_ptr<double>();
    const double* counts = n.defined() ? n.const_data_ptr<double>() : nullptr;
    for (std::int64_t h = 0; h < height; ++h)
      for (std::int64_t w = 0; w < width; ++w, ++value) {
        if (counts && *counts++ == 0) continue;
        const auto tile =
            static_cast<std::size_t>((block.lo()[1] + h) / s.side * s.columns + (block.lo()[2] + w) / s.side);
        const double square = *value * *value;
        sums.samples += 1;
        sums.mean += *value;
        sums.squares += square;
        sums.tile_samples[tile] += 1;
        sums.tile_squares[tile] += square;
      }
  }
}

// Extremes of the data and how many samples stand there; those of clipped data are many.
void count_extremes(const at::Tensor& y, const at::Tensor& counted, const Communicator& comm,
                    ResidualStatistics& s) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const at::Tensor seen = counted.defined() ? y.masked_select(counted.ne(0)) : y;
  double low = seen.numel() > 0 ? seen.min().item().toDouble() : inf;
  double high = seen.numel() > 0 ? seen.max().item().toDouble() : -inf;
  comm.all_reduce({&low, 1}, Reduce::min);
  comm.all_reduce({&high, 1}, Reduce::max);
  std::array<std::int64_t, 2> at{seen.eq(low).sum().item().toLong(), seen.eq(high).sum().item().toLong()};
  comm.all_reduce(at, Reduce::sum);
  s.smallest = low;
  s.largest = high;
  s.at_smallest = static_cast<double>(at[0]) / static_cast<double>(s.samples);
  s.at_largest = static_cast<double>(at[1]) / static_cast<double>(s.samples);
}

// Sums over pairs of samples (p, p + lag) for the lags of a half plane, and the numbers of pairs that count;
// of a volume within its slices.
class Autocorrelation {
 public:
  Autocorrelation(const MeasurementLayout& layout, std::size_t part,
                  const std::shared_ptr<Transport>& transport, const Communicator& comm)
      : all_(layout.part(part).box), block_(layout.block(part, comm.rank())), comm_(comm) {
    const Layout own = layout.layout(part);
    const Layout need = own.grow({{0, 0, kLags}, {0, kLags, kLags}});
    need_ = need.box(comm.rank());
    plan_ = ExchangePlan(own, need, all_, Border::zero, comm.rank());
    transport_ = transport;
    for (int dy = 0; dy <= kLags; ++dy)
      for (int dx = dy == 0 ? 1 : -kLags; dx <= kLags; ++dx) lags_.push_back({dy, dx});
  }

  // `residual` is 0 where a sample does not count. Writes correlation, lag and white.
  void measure(const at::Tensor& residual, const at::Tensor& counted, ResidualStatistics& s) {
    std::int64_t masked = counted.defined();
    comm_.all_reduce(std::span<std::int64_t>(&masked, 1), Reduce::max);
    at::Tensor mask = counted;
    if (masked && !mask.defined()) mask = at::ones_like(residual);
    at::Tensor centered = residual - s.mean;
    if (masked) centered.mul_(mask);
    const std::vector<double> products = shifted_sums(centered);
    std::vector<double> pairs;
    if (masked)
      pairs = shifted_sums(mask.to(residual.options()));
    else
      for (const auto& [dy, dx] : lags_)
        pairs.push_back(static_cast<double>(residual.size(0) * all_.extent(0)) *
                        static_cast<double>(std::max<std::int64_t>(0, all_.extent(1) - dy)) *
                        static_cast<double>(std::max<std::int64_t>(0, all_.extent(2) - std::abs(dx))));
    const double variance = s.chi2 - s.mean * s.mean;
    for (std::size_t i = 0; i < lags_.size() && variance > 0; ++i) {
      if (pairs[i] < 1) continue;
      const double correlation = products[i] / pairs[i] / variance;
      if (std::abs(correlation) <= std::abs(s.correlation)) continue;
      s.correlation = correlation;
      s.lag = lags_[i];
      s.white = 1 / std::sqrt(pairs[i]);
    }
  }

 private:
  // Per lag, sum over p of t(p) t(p + lag); channel by channel, which bounds the memory.
  std::vector<double> shifted_sums(const at::Tensor& t) {
    std::vector<double> sums(lags_.size(), 0.0);
    Exchange exchange(plan_, transport_, 1, element_type(t.scalar_type()));
    at::Tensor padded = empty_block(1, need_, t.options(), t.dim() == 4 ? Axes::volume : Axes::picture);
    for (std::int64_t c = 0; c < t.size(0); ++c) {
      const at::Tensor own = t.narrow(0, c, 1).contiguous();
      exchange.begin(view(own, block_), view(padded, need_)).wait();
      if (block_.empty()) continue;
      for (std::size_t i = 0; i < lags_.size(); ++i) {
        const at::Tensor other =
            padded.narrow(-2, lags_[i][0], own.size(-2)).narrow(-1, kLags + lags_[i][1], own.size(-1));
        sums[i] += local_dot(own, other).item().toDouble();
      }
    }
    comm_.all_reduce(sums, Reduce::sum);
    return sums;
  }

  Box all_, block_, need_;
  Communicator comm_;
  ExchangePlan plan_;
  std::shared_ptr<Transport> transport_;
  std::vector<std::array<int, 2>> lags_;
};

// Blue at 0, white at 1, red from 3 on; gray where nothing is known.
std::array<float, 3> chi2_color(double chi2) {
  constexpr std::array<std::array<double, 3>, 3> stops{{{33 / 255., 102 / 255., 172 / 255.},
                                                        {247 / 255., 247 / 255., 247 / 255.},
                                                        {178 / 255., 24 / 255., 43 / 255.}}};
  if (std::isnan(chi2)) return {0.5F, 0.5F, 0.5F};
  const std::size_t from = chi2 < 1 ? 0 : 1;
  const double t = from == 0 ? std::max(0.0, chi2) : std::min(1.0, (chi2 - 1) / 2);
  std::array<float, 3> color{};
  for (std::size_t c = 0; c < 3; ++c)
    color[c] = static_cast<float>(stops[from][c] + t * (stops[from + 1][c] - stops[from][c]));
  return color;
}

// A tile is a square of as many pixels as make the picture's longer side some 512 to 1024.
void write_chi2(const std::string& path, const ResidualStatistics& s) {
  const std::int64_t zoom = std::max<std::int64_t>(1, 1024 / std::max(s.rows, s.columns));
  const std::int64_t width = s.columns * zoom;
  ImageWriter writer(path, s.rows * zoom, width, 3, 8);
  std::vector<float> band(static_cast<std::size_t>(3 * width));
  for (std::int64_t row = 0; row < s.rows; ++row) {
    for (std::int64_t x = 0; x < width; ++x) {
      const auto color = chi2_color(s.tiles[static_cast<std::size_t>(row * s.columns + x / zoom)]);
      for (std::size_t c = 0; c < 3; ++c)
        band[c * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)] = color[c];
    }
    for (std::int64_t y = 0; y < zoom; ++y) writer.write_rows(row * zoom + y, 1, band.data());
  }
  writer.finish();
}

// r of the first part as gray 0.5 + r / 8. `level`: what counts as one noise level.
void write_residual(const OutputFolder& folder, const MeasurementLayout& layout, const at::Tensor& residual,
                    double level, const Communicator& comm) {
  const MeasurementLayout::Part& part = layout.part(0);
  const Box shown = middle_slice(part.box);
  if ((part.channels != 1 && part.channels != 3) || shown.pixels() > kPicture) return;
  write_preview(folder.file("residual.png"), residual * (0.5 / kShown / level) + 0.5,
                layout.block(0, comm.rank()), layout.layout(0), shown, {}, comm);
}

// The value below which this share of the sorted values lies.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

struct Range {
  double smallest = 0, largest = 0;
  double below = 0, above = 0;  // shares of values < 0 and > 1
  double far = 0;               // outside of [-0.1, 1.1]
};
Range range_of(const at::Tensor& image, double values, const Communicator& comm) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const bool mine = image.numel() > 0;
  Range r;
  r.smallest = mine ? image.min().item().toDouble() : inf;
  r.largest = mine ? image.max().item().toDouble() : -inf;
  comm.all_reduce({&r.smallest, 1}, Reduce::min);
  comm.all_reduce({&r.largest, 1}, Reduce::max);
  std::array<std::int64_t, 3> counts{image.lt(0).sum().item().toLong(), image.gt(1).sum().item().toLong(),
                                     (image - 0.5).abs_().gt(0.6).sum().item().toLong()};
  comm.all_reduce(counts, Reduce::sum);
  r.below = static_cast<double>(counts[0]) / values;
  r.above = static_cast<double>(counts[1]) / values;
  r.far = static_cast<double>(counts[2]) / values;
  return r;
}

nlohmann::ordered_json number(double v) {
  return std::isfinite(v) ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr);
}

}  // namespace

ResidualStatistics residual_statistics(const Fit& fit, std::size_t part, const MeasurementLayout& layout,
                                       const std::shared_ptr<Transport>& transport,
                                       const Communicator& comm) {
  ResidualStatistics s;
  const Box &all = layout.part(part).box, block = layout.block(part, comm.rank());
  const auto tiles = [&](std::int64_t extent) { return (extent + s.side - 1) / s.side; };
  s.side = kSide;
  while (tiles(all.extent(1)) * tiles(all.extent(2)) > kMostTiles) s.side *= 2;
  s.rows = tiles(all.extent(1));
  s.columns = tiles(all.extent(2));

  const at::Tensor &residual = fit.residual[part], &counted = fit.counted[part];
  Sums sums;
  sums.tile_squares.assign(static_cast<std::size_t>(s.rows * s.columns), 0.0);
  sums.tile_samples = sums.tile_squares;
  if (!block.empty()) {
    // A volume's slices are added up like channels.
    const auto planes = [&](const at::Tensor& t) { return t.dim() == 4 ? t.flatten(0, 1) : t; };
    add_samples(planes(residual), counted.defined() ? planes(counted) : counted, block, s, sums);
  }
  std::array<double, 3> totals{sums.samples, sums.mean, sums.squares};
  comm.all_reduce(totals, Reduce::sum);
  comm.all_reduce(sums.tile_squares, Reduce::sum);
  comm.all_reduce(sums.tile_samples, Reduce::sum);
  s.samples = static_cast<std::int64_t>(totals[0]);
  const double most = *std::max_element(sums.tile_samples.begin(), sums.tile_samples.end());
  for (std::size_t i = 0; i < sums.tile_squares.size(); ++i)
    s.tiles.push_back(4 * sums.tile_samples[i] >= most && most > 0
                          ? sums.tile_squares[i] / sums.tile_samples[i]
                          : std::numeric_limits<double>::quiet_NaN());
  if (s.samples == 0) return s;
  s.mean = totals[1] / totals[0];
  s.chi2 = totals[2] / totals[0];
  count_extremes(fit.data[part], counted, comm, s);
  Autocorrelation(layout, part, transport, comm).measure(residual, counted, s);
  return s;
}

double Expansion::largest() const {
  return gains.empty() ? 0 : *std::max_element(gains.begin(), gains.end());
}

Expansion expansion(Denoiser& denoiser, const at::Tensor& x, double sigma, int passes, std::uint64_t start,
                    const Decomposition& decomposition, const Space& space) {
  const Communicator& comm = space.comm();
  std::vector<std::pair<std::int64_t*, std::int64_t>> counts;  // where a cycle over flips stands
  for (const StateField& field : denoiser.state())
    if (field.count) counts.emplace_back(field.count, *field.count);
  const auto apply = [&](const at::Tensor& in, at::Tensor& out) {
    denoiser.apply(in, sigma, out);
    for (const auto& [place, value] : counts) *place = value;
  };

  at::Tensor base = at::empty_like(x), out = at::empty_like(x);
  apply(x, base);
  at::Tensor change = base - x;
  if (start > 0) {
    const at::Tensor noise = at::zeros(x.sizes(), at::kDouble);
    add_noise(noise, {.gaussian = 1}, start, kProbePart, decomposition.image(),
              decomposition.block(comm.rank()));
    change = noise.to(x.options());
  }
  Expansion found;
  for (int k = 0; k < passes; ++k) {
    double largest = change.numel() > 0 ? at::abs(change).max().item().toDouble() : 0;
    comm.all_reduce({&largest, 1}, Reduce::max);
    if (!(largest > 0) || !std::isfinite(largest)) break;
    const at::Tensor moved = x + change * (kChange / largest);
    const double before = space.norm(moved - x);  // as rounded
    apply(moved, out);
    change = out - base;
    found.gains.push_back(space.norm(change) / before);
  }
  return found;
}

nlohmann::ordered_json diagnose(const Geometry& g, DataTerm& data, const at::Tensor& image,
                                Denoiser& denoiser, double sigma, int iterations, const OutputFolder& folder,
                                const Space& space, std::vector<std::string>& warnings) {
  const PhaseScope phase(Phase::metrics);
  const Communicator& comm = space.comm();
  const MeasurementLayout& layout = data.op().layout();
  const Fit fit = data.fit(image);
  if (fit.residual.empty()) return {};
  const bool known = fit.noise_sigma > 0;
  const std::size_t first_own = warnings.size();
  const auto warn = [&](std::string line) { warnings.push_back(std::move(line)); };

  std::vector<ResidualStatistics> parts;
  double samples = 0, squares = 0;
  std::vector<double> tiles;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < fit.residual.size(); ++i) {
    parts.push_back(residual_statistics(fit, i, layout, data.op().transport(), comm));
    const ResidualStatistics& s = parts.back();
    samples += static_cast<double>(s.samples);
    squares += s.chi2 * static_cast<double>(s.samples);
    for (const double t : s.tiles)
      if (!std::isnan(t)) tiles.push_back(t);
    list.push_back({{"name", layout.part(i).name},
                    {"samples", s.samples},
                    {"chi2", s.chi2},
                    {"mean", s.mean},
                    {"deviation", std::sqrt(std::max(0.0, s.chi2 - s.mean * s.mean))},
                    {"correlation", s.correlation},
                    {"correlation_lag", s.lag},
                    {"correlation_white", s.white},
                    {"at_smallest", s.at_smallest},
                    {"at_largest", s.at_largest}});
  }
  std::sort(tiles.begin(), tiles.end());
  const double chi2 = samples > 0 ? squares / samples : 0;
  const double low = quantile(tiles, 0.05), high = quantile(tiles, 0.95);
  const double level = known || !(chi2 > 0) ? 1 : std::sqrt(chi2);  // of the pictures

  write_residual(folder, layout, fit.residual[0], level, comm);
  comm.together([&] {
    if (comm.rank() != 0) return;
    ResidualStatistics shown = parts[0];
    for (double& t : shown.tiles) t /= level * level;
    write_chi2(folder.file("chi2.png"), shown);
  });
  const Range range = range_of(image, static_cast<double>(g.image.pixels() * g.channels), comm);

  nlohmann::ordered_json j;
  j["noise_sigma"] = known ? number(fit.noise_sigma) : number(NAN);
  j["chi2"] = number(chi2);
  j["chi2_tiles"] = {{"side", parts[0].side}, {"low", number(low)}, {"high", number(high)}};
  j["parts"] = std::move(list);
  j["image"] = {{"smallest", number(range.smallest)},
                {"largest", number(range.largest)},
                {"below_0", range.below},
                {"above_1", range.above}};

  if (known && chi2 < 0.5)
    warn(
        fmt::format("chi2 is {:.2g} per sample (the noise is overstated, or the prior does little: the image "
                    "fits the noise too) check problem.noise, or raise solver.sigma",
                    chi2));
  if (known && chi2 > 1.5)
    warn(
        fmt::format("chi2 is {:.3g} per sample (the noise is understated, the operator is not the true one, "
                    "the prior is too strong, or the run ended early) look at residual.png",
                    chi2));
  else if (known && high > 2 && high > 2 * chi2)
    warn(fmt::format(
        "chi2 is {:.2g} per sample, but above {:.2g} in 5 % of the tiles (the noise differs over the "
        "image, or the operator is wrong there) look at chi2.png; problem.weights says where noise is "
        "larger",
        chi2, high));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ResidualStatistics& s = parts[i];
    const std::string of = parts.size() > 1 ? fmt::format(" of part {}", i) : "";
    const double deviation = std::sqrt(std::max(0.0, s.chi2 - s.mean * s.mean));
    if (std::abs(s.correlation) > std::max(0.15, 5 * s.white))
      warn(fmt::format(
          "the residual{} is not white: correlation {:.2f} at lag ({}, {}) (the kernel or the boundary "
          "is not the true one, or the prior is too strong) look at residual.png",
          of, s.correlation, s.lag[0], s.lag[1]));
    if (std::abs(s.mean) > 0.1 * deviation &&
        std::abs(s.mean) * std::sqrt(static_cast<double>(s.samples)) > 5)
      warn(fmt::format(
          "the residual{} has the mean {:.2g}, its deviation is {:.2g} (the data have an offset that "
          "the model does not) subtract the background",
          of, s.mean, deviation));
    // A value that a flat, noisy picture takes anyway is rarer.
    if (s.at_largest > 0.005 && s.smallest < s.largest)
      warn(fmt::format(
          "{:.1f} % of the samples{} have the largest value, {:.3g} (they look clipped: the true ones "
          "may be larger) set problem.saturation for measurements",
          100 * s.at_largest, of, s.largest));
    if (s.at_smallest > 0.05 && s.smallest < s.largest)
      warn(fmt::format(
          "{:.1f} % of the samples{} have the smallest value, {:.3g} (they look clipped: noise below "
          "it is lost, and dark regions come out too bright) keep the camera's offset in the data",
          100 * s.at_smallest, of, s.smallest));
  }
  // Deconvolved stars are far brighter than their data; nothing is far darker.
  double least = parts[0].smallest, most = parts[0].largest;
  for (const ResidualStatistics& s : parts) {
    least = std::min(least, s.smallest);
    most = std::max(most, s.largest);
  }
  const double span = most - least;
  if (range.smallest < least - span || range.largest > most + 10 * span)
    warn(fmt::format(
        "the result reaches {:.6g} to {:.6g}, the data {:.6g} to {:.6g}, in file units (dead or hot samples "
        "that count, an operator that is not the true one, or too little noise assumed) look at residual.png "
        "and give bad samples weight 0 by problem.weights",
        range.smallest * g.factor + g.offset, range.largest * g.factor + g.offset,
        least * g.factor + g.offset, most * g.factor + g.offset));
  if (range.far > 0.01)
    warn(fmt::format(
        "{:.1f} % of the image lies outside of [-0.1, 1.1], its values are {:.3g} to {:.3g} (networks "
        "are trained on [0, 1]) check problem.scale",
        100 * range.far, range.smallest, range.largest));
  // Total variation and no prior never expand; arithmetic below float32 rounds more than the changes are.
  if (g.network && g.job.denoiser.precision == "float32" && sigma > 0) {
    const int passes = std::clamp(iterations / 2, 2, 10);
    const Expansion e = expansion(denoiser, image, sigma, passes, 0, g.decomposition, space);
    j["denoiser"] = {{"sigma", sigma},
                     {"passes", e.gains.size()},
                     {"largest_gain", number(e.largest())},
                     {"last_gain", number(e.last())}};
    if (e.last() > 1.02)
      warn(fmt::format(
          "the denoiser expands perturbations by {:.3f} at this image and sigma {:.3g} (long iterations "
          "may not settle) use denoiser.averaging, a smaller step or a larger solver.sigma",
          e.last(), sigma));
  }
  j["warnings"] =
      std::vector<std::string>(warnings.begin() + static_cast<std::ptrdiff_t>(first_own), warnings.end());
  return j;
}

}  // namespace tessera
