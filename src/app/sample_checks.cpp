// SPDX-License-Identifier: BSD-3-Clause
#include "sample_checks.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "tessera/core/error.hpp"
#include "tessera/domain/noise_estimate.hpp"

namespace tessera {
namespace {

constexpr double kDim = 0.125;     // of the range: what brighter data should fill
constexpr double kBeyond = 0.5;    // of the range, below 0 or above 1: more than noise and edges take
constexpr double kNear = 0.01;     // of the data's range, beside an end
constexpr std::int64_t kPile = 5;  // samples at an end that are no chance

// Calls visit(value) for each sample that counts.
template <class Visit>
void each_counted(const Measurement& parts, const Measurement& marks, Visit visit) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto *v = parts[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
    for (std::int64_t k = 0, n = parts[i].numel(); k < n; ++k)
      if (m[k] != 0) visit(static_cast<double>(v[k]));
  }
}

}  // namespace

std::array<double, 2> range_of(const Measurement& parts, const Measurement& marks, const Communicator& comm) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::array<double, 2> ends{kNone, kNone};
  each_counted(parts, marks, [&](double v) {
    ends[0] = std::max(ends[0], -v);
    ends[1] = std::max(ends[1], v);
  });
  comm.all_reduce(ends, Reduce::max);
  return {-ends[0], ends[1]};
}

void warn_of_values(const Geometry& g, const Measurement& y, const Measurement& marks,
                    std::vector<std::string>& warnings, const Communicator& comm) {
  const auto [least, most] = range_of(y, marks, comm);
  const bool whole = g.data.type.find("int") != std::string::npos;
  const double near = std::max(kNear * (most - least), whole ? 2.5 / g.factor : 0);
  std::array<std::int64_t, 7> n{};
  // clang before 16 captures no structured bindings by reference.
  each_counted(y, marks, [&n, near, least = least, most = most](double v) {
    auto& [all, bright, beyond, at_least, near_least, at_most, near_most] = n;
    ++all;
    bright += v > kDim;
    beyond += v < -kBeyond || v > 1 + kBeyond;
    at_least += v == least;
    near_least += v != least && v < least + near;
    at_most += v == most;
    near_most += v != most && v > most - near;
  });
  comm.all_reduce(n, Reduce::sum);
  const auto& [all, bright, beyond, at_least, near_least, at_most, near_most] = n;
  const auto file = [&](double v) { return fmt::format("{:.6g}", v * g.factor + g.offset); };
  const auto warn = [&](const std::string& text) { warnings.push_back("the measurement " + text); };
  if (bright * 10'000 < all)
    warn(
        fmt::format("fills little of the range: all but one sample in 10,000 stay below {}, an eighth of it "
                    "(largest {}); networks are trained on all of it: write 'factor: data' in problem.scale",
                    file(kDim), file(most)));
  if (beyond * 1000 > all)
    warn(fmt::format(
        "leaves the range: {:.3g} % of the samples are far outside of {} to {}, which are 0 and 1 "
        "inside (they reach {} to {}): say problem.scale",
        100.0 * static_cast<double>(beyond) / static_cast<double>(all), file(0), file(1), file(least),
        file(most)));
  if (!(least < most)) return;
  if (at_most >= kPile && at_most > near_most)
    warn(
        fmt::format("has {} samples at its largest value, {}, and {} near it (they look saturated, and count "
                    "as data): write 'saturation: {:.5g}' in problem, or give them weight 0",
                    at_most, file(most), near_most, most - near / 2));
  if (at_least >= kPile && at_least > near_least)
    warn(fmt::format(
        "has {} samples at its smallest value, {}, and {} near it (they look dead or clipped, and "
        "count as data): give dead ones weight 0 by problem.weights",
        at_least, file(least), near_least));
}

bool weights_are_mask(const Geometry& g, const Measurement& weights, const Measurement& y,
                      const Measurement& marks, Problem& problem, const Communicator& comm) {
  const auto [least, most] = range_of(weights, marks, comm);
  if (least != most) return false;  // of those above 0
  const bool mask = most == 1 || most == 255 || most == 65535;
  double zeros = 0;
  for (const at::Tensor& w : weights) zeros += static_cast<double>(w.eq(0).sum().item().toLong());
  comm.all_reduce({&zeros, 1}, Reduce::sum);
  if (mask && most != 1)
    problem.notices.push_back(
        fmt::format("the weights are 0 and {} only: they are taken for a mask that says which samples count, "
                    "not for inverse variances",
                    most));
  if (mask || zeros == 0 || g.job.problem.noise.gaussian > 0) return mask;
  try {
    constexpr double kApart = 3;
    const NoiseEstimate shown = estimate_noise(y, marks, problem.A->layout(), comm);
    const double said = 1 / std::sqrt(most), found = shown.sigma * g.factor;
    if (shown.gain == 0 && (said > kApart * found || found > kApart * said))
      problem.warnings.push_back(fmt::format(
          "the weights are 0 and {:.6g} only, which as inverse variances say a noise of {:.3g} in "
          "file units; the data show about {:.3g}: if they are a mask, write 0 and 1",
          most, said, found));
  } catch (const InputError&) {
    // Too few samples for an estimate.
  }
  return false;
}

}  // namespace tessera
