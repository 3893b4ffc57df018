// SPDX-License-Identifier: BSD-3-Clause
#include "noise_line.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr double kSignificant = 5;  // standard errors

NoiseLine fit(const std::vector<NoiseBin>& bins, bool through_zero) {
  std::vector<double> weight(bins.size());
  for (std::size_t i = 0; i < bins.size(); ++i) weight[i] = 1 / std::pow(bins[i].variance * bins[i].error, 2);
  NoiseLine line;
  for (int pass = 0; pass < 5; ++pass) {
    double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const double w = weight[i], x = bins[i].level, v = bins[i].variance;
      s += w, sx += w * x, sxx += w * x * x, sy += w * v, sxy += w * x * v;
    }
    const double determinant = s * sxx - sx * sx;
    if (through_zero ? sxx <= 0 : determinant <= 0) return {};
    line.gain = through_zero ? sxy / sxx : (s * sxy - sx * sy) / determinant;
    line.offset = through_zero ? 0 : (sxx * sy - sx * sxy) / determinant;
    double least = std::numeric_limits<double>::infinity(), misfit = 0;
    for (const NoiseBin& b : bins) least = std::min(least, b.variance);
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const double model = line.gain * bins[i].level + line.offset;
      const double error = bins[i].error * std::max(model, 0.5 * least);
      const double off = std::abs(bins[i].variance - model) / error;
      misfit += off * off;
      weight[i] = 1 / std::pow(error * std::max(1.0, off / 2), 2);
    }
    // Bins that do not lie on a line widen the error.
    line.error = std::sqrt((through_zero ? 1 / sxx : s / determinant) *
                           std::max(1.0, misfit / static_cast<double>(bins.size())));
  }
  return line;
}

}  // namespace

std::optional<NoiseLine> line_through(const std::vector<NoiseBin>& bins) {
  if (bins.size() < 4) return std::nullopt;
  NoiseLine line = fit(bins, false);
  if (line.gain <= kSignificant * line.error || line.error == 0) return std::nullopt;
  if (line.offset < 0) line = fit(bins, true);
  return line;
}

double proportional_noise(const std::vector<NoiseBin>& bins) {
  constexpr std::size_t kFewest = 6;
  constexpr double kRange = 2, kEven = 1.2, kFits = 4, kBetter = 3, kLeast = 0.02;
  if (bins.size() < kFewest) return 0;
  std::vector<double> shares, uneven;
  for (const NoiseBin& b : bins) {
    if (!(b.level > 0)) return 0;
    shares.push_back(std::sqrt(b.variance) / b.level);
    uneven.push_back(b.uneven);
  }
  const auto middle = [](std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
  };
  const double share = middle(shares), n = static_cast<double>(bins.size());
  const NoiseLine line = fit(bins, true);  // photons
  double of_line = 0, of_share = 0;
  for (const NoiseBin& b : bins) {
    const auto off = [&](double model) {
      return std::pow(std::log(std::max(model, 0.1 * b.variance) / b.variance) / b.error, 2);
    };
    of_line += off(line.gain * b.level + line.offset);
    of_share += off(share * share * b.level * b.level);
  }
  const bool wide = bins.back().level > kRange * bins.front().level;
  return wide && share > kLeast && middle(uneven) < kEven && of_share < kFits * n &&
                 of_line > kBetter * of_share
             ? share
             : 0;
}

}  // namespace tessera
