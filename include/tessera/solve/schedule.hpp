// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera {

/// A number per iteration: one value, or a list whose last value holds on.
class Schedule {
 public:
  Schedule() = default;
  Schedule(double value) : values_{value} {}  // NOLINT: a number is a schedule
  Schedule(std::vector<double> values) : values_(std::move(values)) {}

  bool set() const { return !values_.empty(); }
  double at(int k) const { return values_[std::min(static_cast<std::size_t>(k), values_.size() - 1)]; }
  const std::vector<double>& values() const { return values_; }

  /// n values from first to last, equal ratios.
  static Schedule log_space(double first, double last, int n);
  static Schedule linear(double first, double last, int n);

 private:
  std::vector<double> values_;
};

/// The DPIR schedules (arXiv 2008.13751): sigma_k = logspace(49/255, noise, n),
/// gamma_k = (sigma_k / max(0.255 / 255, noise))^2 / 0.23, for a data term without noise scaling.
struct DpirSchedule {
  Schedule sigma, gamma;
};
DpirSchedule dpir_schedule(double noise, int iterations = 8, double first = 49.0 / 255.0);

}  // namespace tessera
