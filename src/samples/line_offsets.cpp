// SPDX-License-Identifier: BSD-3-Clause
// Rows or columns with an offset of their own each, as sensors that read line by line leave them.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "sample_checks.hpp"

namespace tessera {
namespace {

constexpr std::size_t kPieces = 8;        // of a line, each of which shows its offset
constexpr std::int64_t kLeastAlong = 64;  // samples along it

// Means of the pieces of all lines along the other axis, [line][piece]; NaN where a piece has none that count.
std::vector<double> piece_means(const at::Tensor& y, const at::Tensor& marks, const Box& all,
                                const Box& block, std::size_t axis, const Communicator& comm) {
  const std::size_t other = 3 - axis, half = static_cast<std::size_t>(all.extent(axis)) * kPieces;
  std::vector<double> sums(2 * half);
  const auto *value = y.const_data_ptr<float>(), *mark = marks.const_data_ptr<float>();
  if (!block.empty())
    for (std::int64_t c = 0; c < y.size(0); ++c)
      for (std::int64_t row = block.lo()[1]; row < block.hi()[1]; ++row)
        for (std::int64_t column = block.lo()[2]; column < block.hi()[2]; ++column, ++value, ++mark) {
          if (*mark == 0) continue;
          const std::int64_t line = axis == 1 ? row : column, along = axis == 1 ? column : row;
          const std::size_t at =
              static_cast<std::size_t>(line) * kPieces +
              static_cast<std::size_t>(along * static_cast<std::int64_t>(kPieces) / all.extent(other));
          sums[at] += static_cast<double>(*value);
          sums[half + at] += 1;
        }
  comm.all_reduce(sums, Reduce::sum);
  for (std::size_t k = 0; k < half; ++k) sums[k] = sums[half + k] > 0 ? sums[k] / sums[half + k] : NAN;
  sums.resize(half);
  return sums;
}

// Whether lines repeat as those of lattices, fringes and fabrics do. The offsets of a sensor do not, but for its amplifiers,
// of which there are 4, 8 or 16.
bool regular(const std::vector<double>& fourths) {
  constexpr double kAlike = 0.6, kFirst = 0.9;
  const std::size_t n = fourths.size();
  double power = 0;
  for (const double d : fourths) power += d * d;
  std::vector<double> alike;  // from lag 3 on: nearer ones share samples
  for (std::size_t lag = 3; lag <= n / 3; ++lag) {
    double sum = 0;
    for (std::size_t k = 0; k + lag < n; ++k) sum += fourths[k] * fourths[k + lag];
    alike.push_back(sum / power * static_cast<double>(n) / static_cast<double>(n - lag));
  }
  if (alike.empty()) return false;
  const double most = *std::ranges::max_element(alike);
  const std::size_t period =
      3 + static_cast<std::size_t>(std::ranges::find_if(alike, [&](double v) { return v >= kFirst * most; }) -
                                   alike.begin());
  return most > kAlike && !std::has_single_bit(period);
}

// How far lines lie apart that differ from those beside them in the same sense in all their pieces, where that is so of many;
// else 0. By fourth differences across the lines, of which a blur leaves next to nothing.
double offsets(const std::vector<double>& means) {
  constexpr double kMany = 0.4, kSquares = 70, kMedian = 0.6745;
  const std::size_t lines = means.size() / kPieces;
  std::vector<double> sizes, fourths;
  double alike = 0;
  for (std::size_t k = 2; k + 2 < lines; ++k) {
    double sum = 0;
    std::size_t above = 0, n = 0;
    for (std::size_t p = 0; p < kPieces; ++p) {
      const auto at = [&](std::size_t line) { return means[line * kPieces + p]; };
      const double d = at(k - 2) - 4 * at(k - 1) + 6 * at(k) - 4 * at(k + 1) + at(k + 2);
      if (!std::isfinite(d)) continue;
      sum += d;
      above += d > 0;
      ++n;
    }
    if (n < kPieces) continue;
    alike += above == 0 || above == n;
    fourths.push_back(sum / static_cast<double>(n));
    sizes.push_back(std::abs(fourths.back()));
  }
  if (sizes.size() < 16 || alike < kMany * static_cast<double>(sizes.size()) || regular(fourths)) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return *middle / kMedian / std::sqrt(kSquares);
}

// Between two lines, all along and without a slope: where a blur would have left one. By third differences, which are
// h, -2 h and h around a step of h.
struct LineStep {
  std::size_t line = 0;  // the first beyond it
  double by = 0;
};
LineStep step_of(const std::vector<double>& means) {
  constexpr double kFar = 8, kLeast = -0.75,
                   kMost = -0.3;   // of the usual; neighbors' share of the middle one, -0.5
  constexpr std::size_t kRim = 6;  // lines at both ends, where pictures are framed
  const std::size_t lines = means.size() / kPieces;
  if (lines < 4 * kRim) return {};
  std::vector<double> all(lines, NAN), sizes;
  std::vector<bool> alike(lines);
  for (std::size_t k = 1; k + 2 < lines; ++k) {
    double sum = 0;
    std::size_t above = 0, n = 0;
    for (std::size_t p = 0; p < kPieces; ++p) {
      const auto at = [&](std::size_t line) { return means[line * kPieces + p]; };
      const double d = 3 * (at(k) - at(k + 1)) - at(k - 1) + at(k + 2);
      if (!std::isfinite(d)) continue;
      sum += d;
      above += d > 0;
      ++n;
    }
    if (n < kPieces) continue;
    all[k] = sum / static_cast<double>(n);
    alike[k] = above == 0 || above == n;
    sizes.push_back(std::abs(all[k]));
  }
  if (sizes.size() < 12) return {};
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  LineStep most;
  for (std::size_t k = kRim; k + kRim < lines; ++k) {
    const double beside = (all[k - 1] + all[k + 1]) / 2 / all[k];
    if (alike[k] && std::abs(all[k]) > std::max(kFar * *middle, 2 * std::abs(most.by)) && beside > kLeast &&
        beside < kMost)
      most = {k + 1, -all[k] / 2};
  }
  return most;
}

}  // namespace

void warn_of_line_offsets(const Survey& survey, const Measurement& y, const Measurement& marks,
                          Surveyed& seen, const Communicator& comm) {
  constexpr double kShows = 0.5;  // of the noise
  if (!survey.in_image_range() || seen.mosaic || survey.scan) return;
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t part = 0; part < y.size(); ++part) {
    const Box& all = layout.part(part).box();
    const Convolution* const kernel = picture_kernel(traits, layout, part);
    if (!kernel) continue;
    const Box block = layout.block(part, comm.rank());
    std::array<double, 2> by{};
    for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
      if (all.extent(3 - axis) < kLeastAlong) continue;
      const std::vector<double> means = piece_means(y[part], marks[part], all, block, axis, comm);
      by[axis - 1] = offsets(means);
      constexpr double kWide =
          0.12;  // the largest tap: narrower kernels leave edges of a picture that look so
      if (kernel->taps.abs().max().item().toDouble() > kWide * kernel->taps.sum().item().toDouble()) continue;
      const LineStep step = step_of(means);
      if (by[axis - 1] > kShows * seen.noise_sigma || !(std::abs(step.by) > kShows * seen.noise_sigma))
        continue;
      seen.warnings.push_back(fmt::format(
          "{}s from {} on lie {:.3g}{} {} those before, all along and from one to the next, which no blur "
          "made (two "
          "amplifiers, or detectors side by side): bring both parts to one level, by problem.dark or "
          "problem.flat, or restore each by itself",
          axis == 1 ? "row" : "column", step.line, std::abs(step.by) * survey.factor,
          survey.factor == 1 ? "" : " in file units", step.by > 0 ? "above" : "below"));
    }
    const std::size_t axis = by[0] > by[1] ? 1 : 2;
    if (!(by[axis - 1] > kShows * seen.noise_sigma)) continue;
    const std::string line = axis == 1 ? "row" : "column";
    seen.warnings.push_back(
        fmt::format("{0}s of the measurement{1} have an offset of their own each, of about {2:.3g}{3}, "
                    "{4:.2g} times the noise, which no "
                    "blur made (a sensor's readout): subtract it, by dark columns or the median of each {0} "
                    "less a smooth "
                    "line through them",
                    line, y.size() > 1 ? fmt::format(", part {},", part) : "", by[axis - 1] * survey.factor,
                    survey.factor == 1 ? "" : " in file units", by[axis - 1] / seen.noise_sigma));
  }
}

}  // namespace tessera
