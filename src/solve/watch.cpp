// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/watch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr int kPatience = 30;  // iterations without a better one
constexpr double kMemory = 8;  // iterations that the smoothing remembers
constexpr double kGrowth = 3;  // of the residual, that counts as growing
constexpr double kDoubt = 2;   // of the residual, at the end
constexpr double kStill = 2.0 * std::numeric_limits<float>::epsilon();
constexpr int kStands = 3;          // iterations in a row
constexpr double kRounding = 1e-5;  // residuals below it are float32's noise: nothing grows there

}  // namespace

Watch::Verdict Watch::see(int k, double residual, double chi2, bool settled) {
  const double now = std::log(std::max(residual, kRounding));
  if (!settled || count == 0) {
    *this = {.count = settled ? 1 : 0, .smoothed = now, .smallest = now, .best = k, .best_chi2 = chi2};
    still = settled && residual <= kStill ? 1 : 0;
    return Verdict::best;
  }
  still = residual <= kStill ? still + 1 : 0;
  ++count;
  smoothed += (now - smoothed) / std::min<double>(count, kMemory);
  if (smoothed <= smallest) {
    smallest = smoothed;
    best = k;
    best_chi2 = chi2;
    return Verdict::best;
  }
  const bool leaves = chi2 > 2 * best_chi2 && chi2 > 1.5;
  const bool grows = k - best >= kPatience && (smoothed > smallest + std::log(kGrowth) || leaves);
  return grows ? Verdict::growing : Verdict::settling;
}

bool Watch::stands() const { return still >= kStands; }

bool Watch::better_than(int last) const {
  return last - best >= kPatience && smoothed > smallest + std::log(kDoubt);
}

}  // namespace tessera
