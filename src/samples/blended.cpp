// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "sharp_areas.hpp"
#include "unblurred.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRim = 2;  // samples beside a missing one that resampling mixes with it

bool any_near(const NearPlane& plane, std::int64_t row, std::int64_t column, std::int64_t reach,
              const auto& what) {
  for (std::int64_t r = row - reach; r <= row + reach; ++r)
    for (std::int64_t c = column - reach; c <= column + reach; ++c)
      if (r >= plane.frame.lo()[1] && r < plane.frame.hi()[1] && c >= plane.frame.lo()[2] &&
          c < plane.frame.hi()[2] && what(plane.at(r, c)))
        return true;
  return false;
}

// Smallest and largest of the samples that are not beside missing ones.
std::array<double, 2> ends_elsewhere(const std::vector<NearPlane>& planes, const Communicator& comm) {
  std::array<double, 2> ends{-INFINITY, -INFINITY};
  for (const NearPlane& plane : planes)
    for (std::int64_t r = plane.block.lo()[1]; r < plane.block.hi()[1]; ++r)
      for (std::int64_t c = plane.block.lo()[2]; c < plane.block.hi()[2]; ++c) {
        if (any_near(plane, r, c, kRim, [&](std::size_t k) { return plane.counted[k] == 0; })) continue;
        const auto v = static_cast<double>(plane.values[plane.at(r, c)]);
        ends = {std::max(ends[0], -v), std::max(ends[1], v)};
      }
  comm.all_reduce(ends, Reduce::max);
  return {-ends[0], ends[1]};
}

}  // namespace

void leave_out_blended(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                       const Communicator& comm) {
  constexpr double kBelow = 0.5;  // of the range of all others
  if (!survey.problem.weights.empty() || survey.scan || !survey.in_image_range()) return;
  const ProductSpace& layout = seen.A->range();
  const Measurement observed = seen.A->observed();
  std::array<std::int64_t, 2> left_out{};
  for (std::size_t part = 0; part < stored.size(); ++part) {
    if (layout.part(part).box().extent(0) > 1 || observed[part].defined()) continue;
    std::int64_t missing = marks[part].eq(0).sum().item().toLong();
    comm.all_reduce({&missing, 1}, Reduce::sum);
    if (missing == 0) continue;
    const std::vector<NearPlane> planes = planes_of(stored[part], marks[part], layout, part, comm);
    const auto [least, most] = ends_elsewhere(planes, comm);
    if (!(least < most)) continue;
    const double low = least - kBelow * (most - least);
    for (std::size_t k = 0; k < planes.size(); ++k) {
      const NearPlane& plane = planes[k];
      const auto far = [&](std::size_t at) {
        return plane.counted[at] != 0 && static_cast<double>(plane.values[at]) < low;
      };
      at::Tensor channel = marks[part].select(0, static_cast<std::int64_t>(k));
      for (std::int64_t r = plane.block.lo()[1]; r < plane.block.hi()[1]; ++r)
        for (std::int64_t c = plane.block.lo()[2]; c < plane.block.hi()[2]; ++c) {
          const std::size_t at = plane.at(r, c);
          if (plane.counted[at] == 0 || !any_near(plane, r, c, 1, far)) continue;
          left_out[0] += far(at) ? 1 : 0;
          ++left_out[1];
          channel.select(-2, r - plane.block.lo()[1]).select(-1, c - plane.block.lo()[2]).zero_();
        }
    }
  }
  comm.all_reduce(std::span<std::int64_t>(left_out), Reduce::sum);
  if (left_out[1] == 0) return;
  seen.notices.push_back(fmt::format(
      "{} samples beside missing ones lie far below all others (the number that marked those was mixed into "
      "them, as a picture is turned or resampled): with those that touch them {} count 0; resample without "
      "the mark, or give weights",
      left_out[0], left_out[1]));
}

}  // namespace tessera
