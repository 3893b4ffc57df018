// SPDX-License-Identifier: BSD-3-Clause
// The axis of fans by rays that are seen from both sides.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/physics/alignment.hpp"

namespace tessera {
namespace {

constexpr double kRound = 2 * std::numbers::pi;
constexpr std::int64_t kStep = 2;    // columns on both sides, of the difference
constexpr std::size_t kGroups = 16;  // of views, for the error

// Differences of smoothed rows, (rows, views, columns), 0 at the rim.
std::vector<double> differences(const at::Tensor& rows, double blur) {
  const std::int64_t lines = rows.size(0) * rows.size(1), n = rows.size(2);
  const auto reach = static_cast<std::int64_t>(std::ceil(3 * blur));
  std::vector<double> taps;
  double sum = 0;
  for (std::int64_t k = -reach; k <= reach; ++k) {
    taps.push_back(std::exp(-0.5 * static_cast<double>(k * k) / (blur * blur)));
    sum += taps.back();
  }
  std::vector<double> smooth(static_cast<std::size_t>(n)), out(static_cast<std::size_t>(lines * n));
  for (std::int64_t line = 0; line < lines; ++line) {
    const double* from = rows.const_data_ptr<double>() + line * n;
    double* to = out.data() + line * n;
    for (std::int64_t i = 0; i < n; ++i) {
      double value = 0;
      for (std::int64_t k = -reach; k <= reach; ++k)
        value += taps[static_cast<std::size_t>(k + reach)] * from[std::clamp<std::int64_t>(i + k, 0, n - 1)];
      smooth[static_cast<std::size_t>(i)] = value / sum;
    }
    for (std::int64_t i = kStep; i < n - kStep; ++i)
      to[i] = smooth[static_cast<std::size_t>(i + kStep)] - smooth[static_cast<std::size_t>(i - kStep)];
  }
  return out;
}

class Opposites {
 public:
  Opposites(const at::Tensor& rows, const CircularScan& scan)
      : scan_(scan),
        rows_(rows.size(0)),
        views_(rows.size(1)),
        columns_(rows.size(2)),
        values_(differences(rows, 1.5)) {
    for (std::size_t k = 0; k < scan.angles.size(); ++k) order_.emplace_back(turn(scan.angles[k]), k);
    std::sort(order_.begin(), order_.end());
    std::vector<double> ways;
    for (std::size_t k = 0; k < order_.size(); ++k) ways.push_back(way_after(k));
    std::nth_element(ways.begin(), ways.begin() + std::ssize(ways) / 2, ways.end());
    gap_ = std::max(4 * ways[ways.size() / 2], 1e-6);
  }

  // By groups of views: squares of differences of what should be alike, and of both.
  struct Energy {
    std::array<double, kGroups> apart{}, all{};
    double share() const {
      double a = 0, b = 0;
      for (std::size_t g = 0; g < kGroups; ++g) {
        a += apart[g];
        b += all[g];
      }
      return b > 0 ? a / b : 2;
    }
  };
  Energy at(double axis, std::int64_t every) const {
    const double middle = 0.5 * static_cast<double>(columns_ - 1), far = scan_.source_detector,
                 aside = -axis * scan_.column_pitch / far, d = std::atan(aside);
    Energy out;
    for (std::int64_t k = 0; k < views_; k += every) {
      const auto group = static_cast<std::size_t>(k) * kGroups / static_cast<std::size_t>(views_);
      for (std::int64_t i = kStep; i<columns_ - kStep; i += every> 1 ? 2 : 1) {
        const double g =
            std::atan((static_cast<double>(i) - middle + scan_.detector_shift[0]) * scan_.column_pitch / far);
        const double column =
            std::tan(-g - 2 * d) * far / scan_.column_pitch - scan_.detector_shift[0] + middle;
        if (!(column >= kStep + 1) || !(column < static_cast<double>(columns_ - kStep - 2))) continue;
        const double t = turn(scan_.angles[static_cast<std::size_t>(k)] - 2 * g - 2 * d + kRound / 2);
        const auto next = std::upper_bound(order_.begin(), order_.end(), std::pair(t, order_.size()));
        const std::size_t n = order_.size(), high = static_cast<std::size_t>(next - order_.begin()) % n,
                          low = (high + n - 1) % n;
        const double way = way_after(low);
        if (way > gap_) continue;
        const double part = way > 0 ? std::clamp(turn(t - order_[low].first) / way, 0.0, 1.0) : 0;
        for (std::int64_t row = 0; row < rows_; ++row) {
          const double here = values_[static_cast<std::size_t>((row * views_ + k) * columns_ + i)];
          // Mirrored: what rises here falls there.
          const double there = -(1 - part) * between(row, order_[low].second, column) -
                               part * between(row, order_[high].second, column);
          out.apart[group] += (here - there) * (here - there);
          out.all[group] += here * here + there * there;
        }
      }
    }
    return out;
  }

 private:
  static double turn(double angle) {
    const double at = std::fmod(angle, kRound);
    return at < 0 ? at + kRound : at;
  }
  double way_after(std::size_t k) const {
    return k + 1 < order_.size() ? order_[k + 1].first - order_[k].first
                                 : order_[0].first + kRound - order_[k].first;
  }
  // Cubic, between columns.
  double between(std::int64_t row, std::size_t view, double column) const {
    const auto cell = static_cast<std::int64_t>(column);
    const double t = column - static_cast<double>(cell);
    const double* p = values_.data() + (row * views_ + static_cast<std::int64_t>(view)) * columns_ + cell;
    return p[0] + 0.5 * t *
                      (p[1] - p[-1] +
                       t * (2 * p[-1] - 5 * p[0] + 4 * p[1] - p[2] + t * (3 * (p[0] - p[1]) + p[2] - p[-1])));
  }

  const CircularScan& scan_;
  std::int64_t rows_, views_, columns_;
  std::vector<double> values_;
  std::vector<std::pair<double, std::size_t>> order_;
  double gap_ = 0;
};

}  // namespace

Aligned find_fan_axis(const at::Tensor& rows, const CircularScan& scan) {
  TESSERA_EXPECT(rows.dim() == 3 && rows.size(1) == std::ssize(scan.angles), "sinograms of ", rows.size(1),
                 " views, ", scan.angles.size(), " angles");
  constexpr double kAlike = 0.7;  // of what chance gives
  Aligned out;
  const std::int64_t columns = rows.size(2), views = rows.size(1);
  if (columns < 32 || views < 16) {
    out.problem = columns < 32 ? "there are fewer than 32 columns" : "there are fewer than 16 views";
    return out;
  }
  const Opposites pairs(rows.contiguous(), scan);
  const std::int64_t every = std::max<std::int64_t>(1, views / 90),
                     most = static_cast<std::int64_t>(0.4 * static_cast<double>(columns));
  std::vector<double> shares;
  for (std::int64_t a = -most; a <= most; ++a)
    shares.push_back(pairs.at(static_cast<double>(a), every).share());
  const auto best = std::min_element(shares.begin(), shares.end()) - shares.begin();
  std::vector<double> sorted = shares;
  std::nth_element(sorted.begin(), sorted.begin() + std::ssize(sorted) / 2, sorted.end());
  const double usual = sorted[sorted.size() / 2];
  if (!(shares[static_cast<std::size_t>(best)] < kAlike * usual) || best == 0 || best == 2 * most) {
    out.problem = "the views from opposite sides do not resemble each other for any";
    return out;
  }
  const std::int64_t finer = std::max<std::int64_t>(1, views / 360);
  double at = static_cast<double>(best - most);
  for (double h = 0.5; h > 0.01; h *= 0.5) {  // parabolas, ever narrower
    const double before = pairs.at(at - h, finer).share(), here = pairs.at(at, finer).share(),
                 after = pairs.at(at + h, finer).share(), bend = before - 2 * here + after;
    if (bend > 0) at += std::clamp(0.5 * h * (before - after) / bend, -h, h);
  }
  constexpr double kApart = 0.5;
  const Opposites::Energy before = pairs.at(at - kApart, finer), here = pairs.at(at, finer),
                          after = pairs.at(at + kApart, finer);
  double slopes = 0, bend = 0;
  for (std::size_t g = 0; g < kGroups; ++g) {
    const double slope = (after.apart[g] - before.apart[g]) / (2 * kApart);
    slopes += slope * slope;
    bend += (after.apart[g] - 2 * here.apart[g] + before.apart[g]) / (kApart * kApart);
  }
  out.value = at;
  out.error = bend > 0 ? std::sqrt(2 * slopes) / bend : 1e300;  // 2: each pair is there twice
  if (!(out.error < 2)) out.problem = "the views from opposite sides do not tell it to 2 columns";
  return out;
}

}  // namespace tessera
