// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/domain/tensor.hpp"
#include "tessera/samples/residual_statistics.hpp"

namespace tessera {
namespace {

constexpr int kLags = 5;                        // whiteness: samples, in both axes
constexpr std::int64_t kTileSide = 32;          // of a tile, samples; doubled for large parts
constexpr std::int64_t kMostTiles = 256 * 256;  // every rank holds a number for each
constexpr std::int64_t kBand = 1 << 20;         // samples that are compared with all their neighbors at once

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
  const at::Tensor above = seen.masked_select(seen.gt(low)), under = seen.masked_select(seen.lt(high));
  double next = above.numel() > 0 ? above.min().item().toDouble() : inf;
  double last = under.numel() > 0 ? under.max().item().toDouble() : -inf;
  comm.all_reduce({&next, 1}, Reduce::min);
  comm.all_reduce({&last, 1}, Reduce::max);
  const auto equal = [&](double value) { return seen.eq(value).sum().item().toLong(); };
  std::array<std::int64_t, 4> at{equal(low), equal(high), equal(next), equal(last)};
  comm.all_reduce(at, Reduce::sum);
  const auto share = [&](std::int64_t n) { return static_cast<double>(n) / static_cast<double>(s.samples); };
  s.smallest = low;
  s.largest = high;
  s.at_smallest = share(at[0]);
  s.at_largest = share(at[1]);
  s.beside_smallest = share(at[2]);
  s.beside_largest = share(at[3]);
}

// Sums over pairs of samples (p, p + lag) for the lags of a half plane, and the numbers of pairs that count;
// of a volume within its slices.
class Autocorrelation {
 public:
  Autocorrelation(const ProductSpace& layout, std::size_t part, const std::shared_ptr<Transport>& transport,
                  const Communicator& comm)
      : all_(layout.part(part).box()), block_(layout.block(part, comm.rank())), comm_(comm) {
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
    const std::vector<double> products = shifted_sums(centered, centered);
    std::vector<double> pairs, here, there;
    if (masked) {
      const at::Tensor counts = mask.to(residual.options()), squares = centered * centered;
      pairs = shifted_sums(counts, counts);
      here = shifted_sums(squares, counts);
      there = shifted_sums(counts, squares);
    } else {
      for (const auto& [dy, dx] : lags_)
        pairs.push_back(static_cast<double>(residual.size(0) * all_.extent(0)) *
                        static_cast<double>(std::max<std::int64_t>(0, all_.extent(1) - dy)) *
                        static_cast<double>(std::max<std::int64_t>(0, all_.extent(2) - std::abs(dx))));
    }
    const double variance = s.chi2 - s.mean * s.mean;
    for (std::size_t i = 0; i < lags_.size() && variance > 0; ++i) {
      if (pairs[i] < 1) continue;
      // Where samples are missing, those that have neighbors may have another variance than all of them.
      const double energy = masked ? std::sqrt(here[i] * there[i]) : pairs[i] * variance;
      if (!(energy > 0)) continue;
      const double correlation = products[i] / energy;
      if (std::abs(correlation) <= std::abs(s.correlation)) continue;
      s.correlation = correlation;
      s.lag = lags_[i];
      s.white = 1 / std::sqrt(pairs[i]);
    }
  }

 private:
  // Per lag, sum over p of s(p) t(p + lag); channel by channel, which bounds the memory.
  std::vector<double> shifted_sums(const at::Tensor& s, const at::Tensor& t) {
    std::vector<double> sums(lags_.size(), 0.0);
    Exchange exchange(plan_, transport_, 1, element_type(t.scalar_type()));
    at::Tensor padded = empty_block(1, need_, t.options(), t.dim() == 4 ? Axes::volume : Axes::picture);
    for (std::int64_t c = 0; c < t.size(0); ++c) {
      const at::Tensor own = t.narrow(0, c, 1).contiguous(), first = s.narrow(0, c, 1).contiguous();
      exchange.begin(view(own, block_), view(padded, need_)).wait();
      if (block_.empty()) continue;
      // Band by band: what is shifted is copied, and a copy of the whole costs its pages anew for every lag.
      const std::int64_t rows = own.size(-2), band = std::max<std::int64_t>(1, kBand * rows / own.numel());
      for (std::int64_t row = 0; row < rows; row += band) {
        const std::int64_t count = std::min(band, rows - row);
        const at::Tensor here = first.narrow(-2, row, count);
        for (std::size_t i = 0; i < lags_.size(); ++i) {
          const at::Tensor other =
              padded.narrow(-2, row + lags_[i][0], count).narrow(-1, kLags + lags_[i][1], own.size(-1));
          sums[i] += local_dot(here, other).item().toDouble();
        }
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
}  // namespace

ResidualStatistics residual_statistics(const Fit& fit, std::size_t part, const ProductSpace& layout,
                                       const std::shared_ptr<Transport>& transport,
                                       const Communicator& comm) {
  ResidualStatistics s;
  const Box &all = layout.part(part).box(), block = layout.block(part, comm.rank());
  const auto tiles = [&](std::int64_t extent) { return (extent + s.side - 1) / s.side; };
  s.side = kTileSide;
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

}  // namespace tessera
