// SPDX-License-Identifier: BSD-3-Clause
// Line integrals that stand far off their neighbors: zingers, dead and hot pixels that another program has taken the
// logarithm of.
#include "scan_specks.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

constexpr std::int64_t kBeside = 3;

// The median of up to kBeside finite neighbors on each side, and from where to where they go, of five and more without the
// outermost two; of fewer than three none.
struct Beside {
  double middle = 0, low = 0, high = 0;
  bool known = false;
};
Beside beside(std::span<const double> y, std::int64_t i) {
  std::vector<double> near;
  for (std::int64_t k = std::max<std::int64_t>(0, i - kBeside); k <= std::min(std::ssize(y) - 1, i + kBeside);
       ++k)
    if (const double v = y[static_cast<std::size_t>(k)]; k != i && std::isfinite(v)) near.push_back(v);
  const std::size_t n = near.size();
  if (n < 3) return {};
  std::sort(near.begin(), near.end());
  const std::size_t cut = n < 5 ? 0 : 1;
  return {(near[n / 2] + near[(n - 1) / 2]) / 2, near[cut], near[n - 1 - cut], true};
}

}  // namespace

std::vector<std::int64_t> specks_in(std::span<const double> y, double noise, double peak) {
  constexpr double kNoise = 12, kRanges = 2, kPart = 0.05;
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < std::ssize(y); ++i) {
    const double v = y[static_cast<std::size_t>(i)];
    if (!std::isfinite(v)) continue;
    const Beside b = beside(y, i);
    const double beyond = std::max(v - b.high, b.low - v);
    if (b.known && beyond > std::max({kNoise * noise, kRanges * (b.high - b.low), kPart * peak}))
      out.push_back(i);
  }
  return out;
}

bool shows_specks(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kFarthest = 6, kFew = 4, kTimes = 3;  // by chance some have one beside them
  const std::int64_t views = look.y.size(1), columns = look.y.size(2);
  if (views < 24 || columns < 16 || scan.climbs) return false;
  const std::vector<double>& angles = scan.file.angles;
  std::vector<double> steps;
  for (std::size_t k = 1; k < angles.size(); ++k) steps.push_back(std::abs(angles[k] - angles[k - 1]));
  std::nth_element(steps.begin(), steps.begin() + std::ssize(steps) / 2, steps.end());
  const double step = steps[steps.size() / 2] * std::numbers::pi / 180;
  const auto reach = static_cast<std::int64_t>(std::ceil(0.5 * step * static_cast<double>(columns))) + 1;
  if (reach > kFarthest) return false;
  const double peak = scan.peak = look.y.amax(2).median().item<double>();
  const auto row = [&](std::int64_t r, std::int64_t v) {
    return std::span<const double>(look.y.const_data_ptr<double>() + (r * views + v) * columns,
                                   static_cast<std::size_t>(columns));
  };
  // Whether a view has something like it: as far off its own neighbors, half as much at least, and the same way.
  const auto again = [&](std::int64_t r, std::int64_t v, std::int64_t i, double off) {
    if (v < 0 || v >= views) return false;
    for (std::int64_t k = std::max<std::int64_t>(0, i - reach); k <= std::min(columns - 1, i + reach); ++k) {
      const Beside b = beside(row(r, v), k);
      const double there = row(r, v)[static_cast<std::size_t>(k)] - b.middle;
      if (b.known && there * off > 0 && std::abs(there) > std::abs(off) / 2) return true;
    }
    return false;
  };
  std::int64_t alone = 0, lasting = 0;
  for (std::int64_t r = 0; r < look.y.size(0); ++r)
    for (std::int64_t v = 0; v < views; ++v)
      for (const std::int64_t i : specks_in(row(r, v), scan.noise, peak)) {
        const double off = row(r, v)[static_cast<std::size_t>(i)] - beside(row(r, v), i).middle;
        ++(again(r, v - 1, i, off) || again(r, v + 1, i, off) ? lasting : alone);
      }
  return alone >= kFew && kTimes * lasting <= alone;
}

}  // namespace tessera
