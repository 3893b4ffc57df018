// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/noise_estimate.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "near_samples.hpp"
#include "noise_line.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/order_statistics.hpp"
#include "tessera/samples/repeats.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kTile = NearSamples::kTile;
constexpr std::int64_t kFewest = 1000;      // stencils that a median needs
constexpr std::int64_t kFewestTiles = 100;  // that a 20th needs
constexpr int kSignalBins = 12;
constexpr double kFine = 50;        // steps of the samples in a deviation
constexpr double kRounding = 0.45;  // of a step: 1.5 times the deviation of rounding to it
constexpr double kHidden = 3;       // times the finest level
constexpr double kDithers = 0.5;    // of a step of rounding: noise of that size survives it

struct Stencil {
  std::vector<double> rows, columns;
  // Neighboring stencils share samples: variance of a mean square, and standard deviation of the median,
  // times the number of stencils, both for white noise of variance 1 (measured on 200 images of 256 x 256).
  double overlap, median_spread;
  std::int64_t stride = 1;  // samples from one to the next, in both axes
};

const std::array<Stencil, 5>& stencils() {
  static const std::array<Stencil, 5> all = {{{{1, -4, 6, -4, 1}, {1, -4, 6, -4, 1}, 6.2, 2.3},
                                              {{1, -2, 1}, {1, -2, 1}, 3.6, 1.8},
                                              {{1, -1}, {1, -1}, 2.2, 1.5},
                                              {{1}, {1, -1}, 1.5, 1.3},
                                              {{1, -1}, {1}, 1.5, 1.3}}};
  return all;
}

// Fourth differences of the means of 2 x 2 samples, as those of single ones above.
const Stencil& coarse_stencil() {
  static const Stencil stencil{
      {1, 1, -4, -4, 6, 6, -4, -4, 1, 1}, {1, 1, -4, -4, 6, 6, -4, -4, 1, 1}, 6.2, 2.3, 2};
  return stencil;
}

const Stencil& coarser_stencil() {
  static const Stencil stencil = [] {
    Stencil s{{}, {}, 6.2, 2.3, 4};
    for (const double tap : {1, -4, 6, -4, 1}) s.rows.insert(s.rows.end(), 4, tap);
    s.columns = s.rows;
    return s;
  }();
  return stencil;
}

// What the stencils of one channel say on this rank.
struct Details {
  std::vector<float> sizes;             // absolute values, noise of variance 1 has mean square 1
  std::vector<float> low, mid, levels;  // per tile: root mean square over its 5 % and its 50 % point for
                                        // white noise of variance 1; mean of the samples
};

// This rank's tiles of a part: those whose first sample it owns, with the samples that stencils reach beyond.
struct Tiles {
  Box own, seen;
};

Tiles tiles_of(const Box& block, const Box& all, const Stencil& stencil) {
  const auto up = [](std::int64_t v) { return (v + kTile - 1) / kTile * kTile; };
  const Index3 lo{block.lo()[0], up(block.lo()[1]), up(block.lo()[2])};
  Index3 hi{block.hi()[0], std::min(up(block.hi()[1]), all.hi()[1]),
            std::min(up(block.hi()[2]), all.hi()[2])};
  for (std::size_t d = 0; d < 3; ++d)
    if (hi[d] <= lo[d]) return {};
  Tiles t;
  t.own = Box(lo, hi);
  hi[1] = std::min(hi[1] + static_cast<std::int64_t>(stencil.rows.size()) - 1, all.hi()[1]);
  hi[2] = std::min(hi[2] + static_cast<std::int64_t>(stencil.columns.size()) - 1, all.hi()[2]);
  t.seen = Box(lo, hi);
  return t;
}

double norm(const std::vector<double>& taps) {
  double sum = 0;
  for (const double t : taps) sum += t * t;
  return std::sqrt(sum);
}

// One tile of one plane; y and counted are rows of `width` over `seen`.
void take_tile(const Stencil& stencil, const float* y, const float* counted, const Box& seen, const Box& tile,
               Details& out) {
  const std::int64_t width = seen.extent(2);
  const auto rows = static_cast<std::int64_t>(stencil.rows.size()),
             columns = static_cast<std::int64_t>(stencil.columns.size());
  const double scale = 1 / (norm(stencil.rows) * norm(stencil.columns));
  double squares = 0, level = 0;
  std::int64_t n = 0;
  for (std::int64_t r = tile.lo()[1]; r < std::min(tile.hi()[1], seen.hi()[1] - rows + 1);
       r += stencil.stride)
    for (std::int64_t c = tile.lo()[2]; c < std::min(tile.hi()[2], seen.hi()[2] - columns + 1);
         c += stencil.stride) {
      const std::int64_t at = (r - seen.lo()[1]) * width + c - seen.lo()[2];
      double sum = 0;
      bool whole = true;
      for (std::int64_t i = 0; i < rows && whole; ++i) {
        double line = 0;
        for (std::int64_t j = 0; j < columns; ++j) {
          whole = whole && counted[at + i * width + j] != 0;
          line += stencil.columns[static_cast<std::size_t>(j)] * static_cast<double>(y[at + i * width + j]);
        }
        sum += stencil.rows[static_cast<std::size_t>(i)] * line;
      }
      if (!whole) continue;
      sum *= scale;
      out.sizes.push_back(static_cast<float>(std::abs(sum)));
      squares += sum * sum;
      level += static_cast<double>(y[at]);
      ++n;
    }
  if (n < kTile * kTile / (4 * stencil.stride * stencil.stride)) return;
  const double spread = std::sqrt(stencil.overlap / (2 * static_cast<double>(n)));
  const double rms = std::sqrt(squares / static_cast<double>(n));
  out.low.push_back(static_cast<float>(rms / (1 - 1.6 * spread)));
  out.mid.push_back(static_cast<float>(rms / (1 - spread * spread)));
  out.levels.push_back(static_cast<float>(level / static_cast<double>(n)));
}

// Per channel of a part.
std::vector<Details> details(const at::Tensor& y, const at::Tensor& counted, const Stencil& stencil,
                             const ProductSpace& layout, std::size_t part, const Communicator& comm) {
  const Box& all = layout.part(part).box();
  std::vector<Details> out(static_cast<std::size_t>(layout.part(part).space.channels));
  const Box mine = layout.block(part, comm.rank());
  for (Details& d : out)
    d.sizes.reserve(static_cast<std::size_t>(mine.pixels() / (stencil.stride * stencil.stride)));
  const auto seen = [&](const Box& block) { return tiles_of(block, all, stencil).seen; };
  for (NearSamples near({y, counted}, layout, part, comm, seen, Border::none); near.next();) {
    const Tiles tiles = tiles_of(near.own(), all, stencil);
    if (tiles.own.empty()) continue;
    const std::int64_t plane = tiles.seen.extent(1) * tiles.seen.extent(2), depth = tiles.seen.extent(0);
    for (std::int64_t c = 0; c < near.channels(); ++c) {
      // Bands of tiles, so that threads share the work and the order stays.
      const std::int64_t bands = (tiles.own.extent(1) + kTile - 1) / kTile;
      std::vector<Details> parts(static_cast<std::size_t>(bands * depth));
      at::parallel_for(0, bands * depth, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
          const std::int64_t z = k / bands, row = tiles.own.lo()[1] + k % bands * kTile;
          for (std::int64_t column = tiles.own.lo()[2]; column < tiles.own.hi()[2]; column += kTile)
            take_tile(stencil, near.at(0, c) + z * plane, near.at(1, c) + z * plane, tiles.seen,
                      Box({0, row, column}, {1, std::min(row + kTile, tiles.own.hi()[1]),
                                             std::min(column + kTile, tiles.own.hi()[2])}),
                      parts[static_cast<std::size_t>(k)]);
        }
      });
      Details& sum = out[static_cast<std::size_t>(c)];
      for (const Details& d : parts)
        for (const auto list : {&Details::sizes, &Details::low, &Details::mid, &Details::levels})
          (sum.*list).insert((sum.*list).end(), (d.*list).begin(), (d.*list).end());
    }
  }
  return out;
}

struct Level {
  double sigma = 0, error = 0;
  std::int64_t stencils = 0;
};

// Lowest 20th of the tiles' deviations; where there are few tiles, their lower quartile.
float quiet(std::span<const float> low, std::int64_t n, const Communicator& comm) {
  return order_statistic(low, n >= kFewestTiles ? n / 20 : n / 4, comm);
}

Level level_of(const Details& d, const Stencil& stencil, const Communicator& comm) {
  Level out;
  out.stencils = count_values(d.sizes, comm);
  if (out.stencils == 0) return out;
  out.sigma = median(d.sizes, comm) / 0.6745;
  const std::int64_t tiles = count_values(d.low, comm);
  if (tiles >= kFewestTiles) out.sigma = std::min<double>(out.sigma, quiet(d.low, tiles, comm));
  out.error = stencil.median_spread * out.sigma / std::sqrt(static_cast<double>(out.stencils));
  return out;
}

// Tiles by their means.
std::vector<NoiseBin> bins_of(const Details& d, const Stencil& stencil, const Communicator& comm) {
  const std::int64_t n = count_values(d.levels, comm);
  if (n < 4 * kSignalBins) return {};
  std::vector<float> edges;
  for (int b = 1; b < kSignalBins; ++b) edges.push_back(order_statistic(d.levels, b * n / kSignalBins, comm));
  std::vector<NoiseBin> bins;
  for (int b = 0; b < kSignalBins; ++b) {
    std::vector<float> low, mid, levels;
    for (std::size_t i = 0; i < d.levels.size(); ++i) {
      const auto bin = std::upper_bound(edges.begin(), edges.end(), d.levels[i]) - edges.begin();
      if (bin != b) continue;
      low.push_back(d.low[i]);
      mid.push_back(d.mid[i]);
      levels.push_back(d.levels[i]);
    }
    const std::int64_t tiles = count_values(levels, comm);
    if (tiles < 4) continue;  // equal levels can empty a bin
    const auto middle = static_cast<double>(median(mid, comm)),
               flat = static_cast<double>(quiet(low, tiles, comm)), sigma = std::min(middle, flat);
    if (sigma <= 0) continue;
    const double samples = static_cast<double>(tiles * kTile * kTile / (stencil.stride * stencil.stride));
    // 1.6: the 20th spreads more than the mean; 2 %: what texture may leave.
    bins.push_back({median(levels, comm), sigma * sigma,
                    1.6 * std::sqrt(2 * stencil.overlap / samples) + 0.02, middle / flat});
  }
  return bins;
}

// Counted samples that do not stand at the smallest or largest value, where a thousandth or more do.
at::Tensor unclipped(const at::Tensor& y, const at::Tensor& counted, const Communicator& comm) {
  std::array<double, 2> ends{-std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()};  // -smallest, largest
  const at::Tensor flat = y.contiguous(), marks = counted.contiguous();
  const float* values = flat.const_data_ptr<float>();
  const float* mark = marks.const_data_ptr<float>();
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    if (mark[i] != 0) {
      ends[0] = std::max(ends[0], -static_cast<double>(values[i]));
      ends[1] = std::max(ends[1], static_cast<double>(values[i]));
    }
  comm.all_reduce(ends, Reduce::max);
  std::array<std::int64_t, 3> at_ends{};
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    if (mark[i] != 0) {
      ++at_ends[2];
      at_ends[0] += static_cast<double>(values[i]) == -ends[0];
      at_ends[1] += static_cast<double>(values[i]) == ends[1];
    }
  comm.all_reduce(at_ends, Reduce::sum);
  at::Tensor out = marks;
  if (at_ends[0] * 1000 >= at_ends[2]) out = out.masked_fill(flat.eq(-ends[0]), 0);
  if (at_ends[1] * 1000 >= at_ends[2]) out = out.masked_fill(flat.eq(ends[1]), 0);
  return out;
}

struct Found {
  NoiseEstimate noise;
  double level = 0;           // of all samples together, whatever their means
  std::int64_t stencils = 0;  // too few: nothing else is known
};

// `counted`: without what is clipped or empty. The first of the stencils that enough samples bear.
Found estimate_of(std::span<const Stencil> stencils, const Measurement& y, const Measurement& counted,
                  const ProductSpace& layout, const Communicator& comm) {
  std::vector<std::vector<Details>> all;
  const Stencil* chosen = nullptr;
  std::int64_t found = 0;
  for (const Stencil& stencil : stencils) {
    std::vector<std::vector<Details>> these;
    std::int64_t n = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      these.push_back(details(y[i], counted[i], stencil, layout, i, comm));
      for (const Details& d : these.back()) n += count_values(d.sizes, comm);
    }
    if (chosen && n <= found) continue;
    all = std::move(these);
    found = n;
    chosen = &stencil;
    if (found >= kFewest) break;
  }
  if (found < kFewest / 10) return {.noise = {}, .stencils = found};

  NoiseEstimate out;
  double squares = 0, weights = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  Details pooled;
  for (const std::vector<Details>& part : all) {
    out.each.emplace_back();
    for (const Details& d : part) {
      const Level level = level_of(d, *chosen, comm);
      out.each.back().push_back(level.sigma);
      for (const auto list : {&Details::low, &Details::mid, &Details::levels})
        (pooled.*list).insert((pooled.*list).end(), (d.*list).begin(), (d.*list).end());
      if (level.stencils < kFewest / 10) continue;
      squares += level.sigma * level.sigma * static_cast<double>(level.stencils);
      weights += static_cast<double>(level.stencils);
      least = std::min(least, level.sigma);
      most = std::max(most, level.sigma);
    }
  }
  out.sigma = weights > 0 ? std::sqrt(squares / weights) : 0.0;
  for (std::vector<double>& part : out.each)  // a channel without samples of its own takes the mean
    for (double& sigma : part)
      if (sigma == 0) sigma = out.sigma;
  out.sigma_error = weights > 0 ? chosen->median_spread * out.sigma / std::sqrt(weights) : 0.0;
  const double level = out.sigma;
  if (!(level > 0)) return {.noise = {}, .stencils = found};
  const std::vector<NoiseBin> bins = bins_of(pooled, *chosen, comm);
  if (const std::optional<NoiseLine> line = line_through(bins)) {
    out.proportional = proportional_noise(bins);
    out.gain = line->gain;
    out.gain_error = line->error;
    out.sigma = std::sqrt(std::max(0.0, line->offset));
    out.each.clear();
  } else if (most <= 1.2 * least) {
    out.each.clear();
  }
  return {out, level, found};
}

// Photons as a detector counts them, few per sample: whole multiples of `step` from 0 on, whose variance is their
// mean, in steps. Most samples may be 0, which looks like an empty part, or like clipping. 0: they are none.
double step_of_counts(const Measurement& y, const Measurement& counted, double step,
                      const ProductSpace& layout, const Communicator& comm) {
  constexpr double kFew = 50, kWhole = 0.01, kAlike = 0.3;
  if (!(step > 0)) return 0;
  double sum = 0, off = 0, n = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const at::Tensor flat = y[i].contiguous(), marks = counted[i].contiguous();
    const auto *v = flat.const_data_ptr<float>(), *m = marks.const_data_ptr<float>();
    for (std::int64_t k = 0; k < flat.numel(); ++k) {
      if (m[k] == 0) continue;
      const double steps = static_cast<double>(v[k]) / step;
      off += steps < -kWhole || std::abs(steps - std::round(steps)) > kWhole;
      sum += std::round(steps);  // whole numbers: the same on any ranks
      n += 1;
    }
  }
  std::array<double, 3> all{sum, off, n};
  comm.all_reduce(all, Reduce::sum);
  if (all[1] > 0 || !(all[0] > 0) || all[0] > kFew * all[2]) return 0;
  std::vector<float> squares, levels;
  double flat = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    for (const Details& d : details(y[i], counted[i], stencils()[0], layout, i, comm)) {
      for (std::size_t k = 0; k < d.mid.size(); ++k) {
        squares.push_back(d.mid[k] * d.mid[k]);
        flat += d.mid[k] == 0 && static_cast<double>(d.levels[k]) > 0.5 * step;
      }
      levels.insert(levels.end(), d.levels.begin(), d.levels.end());
    }
  // Photons never fill a tile with one number that is not 0; labels and drawings do.
  comm.all_reduce({&flat, 1}, Reduce::sum);
  if (flat > 0) return 0;
  const double level = ordered_sum(levels, comm);
  const double gain = level > 0 ? ordered_sum(squares, comm) / level : 0;
  return std::abs(gain - step) < kAlike * step ? step : 0;
}

std::int64_t count(const Measurement& marks, const Communicator& comm) {
  std::int64_t n = 0;
  for (const at::Tensor& m : marks) n += m.count_nonzero().item().toLong();
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return n;
}

}  // namespace

std::array<FlatLevel, 3> flat_levels(const Measurement& y, const Measurement& counted,
                                     const ProductSpace& layout, const Communicator& comm) {
  std::array<FlatLevel, 3> out{};
  const std::array<const Stencil*, 3> scales{&stencils()[0], &coarse_stencil(), &coarser_stencil()};
  for (std::size_t s = 0; s < scales.size(); ++s) {
    std::vector<float> levels;
    for (std::size_t i = 0; i < y.size(); ++i)
      for (const Details& d : details(y[i], counted[i], *scales[s], layout, i, comm))
        // Compression leaves tiles of one value, which say nothing.
        std::copy_if(d.mid.begin(), d.mid.end(), std::back_inserter(levels), [](float v) { return v > 0; });
    const std::int64_t n = count_values(levels, comm);
    if (n < kFewestTiles / 4) continue;
    out[s] = {order_statistic(levels, n / 20, comm), median(levels, comm)};
  }
  return out;
}

double gain_of_counts(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                      const Communicator& comm) {
  return step_of_counts(y, counted, find_repeats(y, counted, layout, comm).step, layout, comm);
}

NoiseEstimate estimate_noise(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                             const Communicator& comm, double step) {
  const std::string wanted =
      " say its standard deviation, for example 'noise: {gaussian: 0.01}' in problem (white is 1; 'unit: "
      "file' "
      "beside it: in file units)";
  const Repeats repeats = find_repeats(y, counted, layout, comm);
  TESSERA_VALIDATE(
      repeats.enlarged == (std::array{1, 1}), "the noise cannot be estimated (each sample is there ",
      repeats.enlarged[0], " x ", repeats.enlarged[1],
      " times: the measurement was enlarged by repeating its pixels) give it as it was measured, or", wanted);
  constexpr double kSome = 0.05;  // of lines, in both axes; twice that in one
  const auto [less, more] = std::minmax(repeats.repeated[0], repeats.repeated[1]);
  TESSERA_VALIDATE(more < kSome || (less < kSome && more < 2 * kSome), "the noise cannot be estimated (",
                   std::round(100 * repeats.repeated[0]), " % of the rows and ",
                   std::round(100 * repeats.repeated[1]),
                   " % of the columns repeat their neighbors: the measurement was enlarged by its nearest "
                   "pixels) give it as it was measured, or",
                   wanted);
  if (const double gain = step_of_counts(y, counted, repeats.step, layout, comm); gain > 0)
    return {.gain = gain};
  Measurement marks(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) marks[i] = unclipped(y[i], counted[i], comm);
  const auto estimate = [&](const Measurement& of) {
    Found found = estimate_of(stencils(), y, of, layout, comm);
    if (step == 0 && found.level < kRounding * repeats.step) {
      const double level = estimate_of({&coarse_stencil(), 1}, y, of, layout, comm).level;
      if (level > kHidden * found.level) found.noise.hidden = level;
    }
    if (step == 0 || found.level >= kDithers * step) return found;
    // The finest details were rounded away: those of twice the size say what there was.
    const Found coarse = estimate_of({&coarse_stencil(), 1}, y, of, layout, comm);
    if (coarse.level <= found.level) return found;
    found = coarse;
    found.noise.coarse = true;
    return found;
  };
  if (!repeats.areas.empty()) {
    const auto rest = [&](Where where) {
      return estimate(without_areas(y, marks, repeats, where, layout, comm));
    };
    Found found = rest(Where::neighborhoods);
    // Narrow gaps too, where hardly a sample has that value by chance.
    if (found.level > kFine * repeats.step) found = rest(Where::everywhere);
    if (empty_areas(repeats, found.level)) return found.noise;
  }
  const Found found = estimate(marks);
  if (found.level > 0) return found.noise;
  const std::int64_t samples = count(counted, comm);
  throw InputError(concat(
      "the noise cannot be estimated (",
      samples == 1        ? std::string("one sample counts")
      : repeats.step == 0 ? concat("all ", samples, " samples that count have one value, or no neighbors")
      : found.stencils < kFewest / 10
          ? concat(found.stencils, " of ", samples, " samples have neighbors that count and are not clipped")
          : std::string("the measurement is smooth to its last digit"),
      ")", wanted));
}

}  // namespace tessera
