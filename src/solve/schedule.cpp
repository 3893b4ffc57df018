// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/schedule.hpp"

#include <cmath>

#include "tessera/core/error.hpp"

namespace tessera {

Schedule Schedule::log_space(double first, double last, int n) {
  TESSERA_EXPECT(first > 0 && last > 0 && n > 0, "a logarithmic schedule from ", first, " to ", last,
                 " (both ends are positive)");
  std::vector<double> values;
  for (int i = 0; i < n; ++i)
    values.push_back(n == 1 ? last
                            : std::exp(std::log(first) + i * (std::log(last) - std::log(first)) / (n - 1)));
  return values;
}

Schedule Schedule::linear(double first, double last, int n) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(n == 1 ? last : first + i * (last - first) / (n - 1));
  return values;
}

DpirSchedule dpir_schedule(double noise, int iterations, double first) {
  constexpr double kLambda = 0.23, kFloor = 0.255 / 255;  // as in the paper's own scripts
  DpirSchedule s;
  s.sigma = Schedule::log_space(first, noise, iterations);
  std::vector<double> gamma;
  const double level = std::max(kFloor, noise);
  for (const double sigma : s.sigma.values()) gamma.push_back((sigma / level) * (sigma / level) / kLambda);
  s.gamma = std::move(gamma);
  return s;
}

}  // namespace tessera
