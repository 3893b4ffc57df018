// SPDX-License-Identifier: BSD-3-Clause
// Whether a flat field is a sensitivity, by which samples are divided, or a gain, with which they are multiplied.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "sample_checks.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kTiles = 32, kLeastTiles = 6, kSmallest = 4;  // along an axis, and samples of one

// Logarithms of the means of samples that count and of the flat field, in tiles; NaN where few count.
struct TileLevels {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> samples, flat;
};
TileLevels tile_levels(const at::Tensor& y, const at::Tensor& flat, const at::Tensor& marks, const Box& all,
                       const Box& block, const Communicator& comm) {
  TileLevels out{
      std::min(kTiles, all.extent(1) / kSmallest), std::min(kTiles, all.extent(2) / kSmallest), {}, {}};
  if (out.rows < kLeastTiles || out.columns < kLeastTiles) return {};
  const auto tiles = static_cast<std::size_t>(out.rows * out.columns);
  std::vector<double> sums(3 * tiles);
  if (!block.empty()) {
    const at::Tensor counts = marks.ne(0).to(at::kFloat);
    const at::Tensor value = (y * counts).contiguous(), gain = (flat * counts).contiguous();
    const float *v = value.const_data_ptr<float>(), *f = gain.const_data_ptr<float>(),
                *n = counts.const_data_ptr<float>();
    const std::int64_t lines = value.numel() / block.extent(2);
    for (std::int64_t k = 0; k < lines; ++k) {
      const std::int64_t row = (block.lo()[1] + k % block.extent(1)) * out.rows / all.extent(1);
      for (std::int64_t c = 0; c < block.extent(2); ++c, ++v, ++f, ++n) {
        const auto t =
            static_cast<std::size_t>(row * out.columns + (block.lo()[2] + c) * out.columns / all.extent(2));
        if (*n == 0) continue;
        sums[t] += static_cast<double>(*v);
        sums[tiles + t] += static_cast<double>(*f);
        sums[2 * tiles + t] += 1;
      }
    }
  }
  comm.all_reduce(std::span<double>(sums), Reduce::sum);
  const double most = *std::max_element(sums.begin() + static_cast<std::ptrdiff_t>(2 * tiles), sums.end());
  for (std::size_t t = 0; t < tiles; ++t) {
    const double n = sums[2 * tiles + t];
    const bool good = 2 * n >= most && sums[t] > 0 && sums[tiles + t] > 0;
    out.samples.push_back(good ? std::log(sums[t] / n) : NAN);
    out.flat.push_back(good ? std::log(sums[tiles + t] / n) : NAN);
  }
  return out;
}

double middle_step(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// With which power of the flat field the samples grow, by steps from tile to tile, of which a picture's are about
// white: 1 of a right one, -1 of its inverse. Huber's weights, for edges are large steps.
struct Power {
  double power = 0, error = 1e30;
};
Power power_of_flat(const TileLevels& tiles) {
  constexpr int kPasses = 20;
  constexpr std::size_t kFewest = 60;
  std::vector<double> dy, df;
  const auto add = [&](std::int64_t a, std::int64_t b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    const double y = tiles.samples[j] - tiles.samples[i];
    if (!std::isfinite(y)) return;
    dy.push_back(y);
    df.push_back(tiles.flat[j] - tiles.flat[i]);
  };
  for (std::int64_t r = 0; r < tiles.rows; ++r)
    for (std::int64_t c = 0; c < tiles.columns; ++c) {
      if (c + 1 < tiles.columns) add(r * tiles.columns + c, r * tiles.columns + c + 1);
      if (r + 1 < tiles.rows) add(r * tiles.columns + c, (r + 1) * tiles.columns + c);
    }
  if (dy.size() < kFewest) return {};
  Power out{0, 1e30};
  std::vector<double> size(dy.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t k = 0; k < dy.size(); ++k) size[k] = std::abs(dy[k] - out.power * df[k]);
    const double wide = 1.345 * 1.483 * middle_step(size) + 1e-12;
    double both = 0, own = 0, scatter = 0;
    for (std::size_t k = 0; k < dy.size(); ++k) {
      const double w = std::min(1.0, wide / (size[k] + 1e-300));
      both += w * df[k] * dy[k];
      own += w * df[k] * df[k];
      scatter += w * w * df[k] * df[k] * size[k] * size[k];
    }
    if (!(own > 0)) return {};
    out = {both / own, std::sqrt(scatter) / own};
  }
  return out;
}

}  // namespace

void warn_of_inverse_flat(const Measurement& y, const Measurement& flat, const Measurement& marks,
                          Surveyed& seen, const Communicator& comm) {
  constexpr double kClear = 4, kApart = 0.5, kSome = 1.05;
  const ProductSpace& layout = seen.A->range();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const TileLevels tiles = tile_levels(y[i], flat[i].expand_as(y[i]), marks[i], layout.part(i).box(),
                                         layout.block(i, comm.rank()), comm);
    std::vector<double> levels;
    for (const double level : tiles.flat)
      if (std::isfinite(level)) levels.push_back(level);
    if (levels.empty()) continue;
    std::sort(levels.begin(), levels.end());
    const double times = std::exp(levels[levels.size() * 9 / 10] - levels[levels.size() / 10]);
    const Power found = power_of_flat(tiles);
    if (times < kSome || found.power > -kClear * found.error ||
        std::abs(found.power + 1) > kApart + found.error)
      continue;
    seen.warnings.push_back(fmt::format(
        "problem.flat looks like a gain, the inverse of a flat field (where it is {:.3g} times as large the "
        "measurement is {:.2g} times as bright, and divided by it {:.2g} times) give 1 / it",
        times, std::pow(times, found.power), std::pow(times, found.power - 1)));
    return;
  }
}

}  // namespace tessera
