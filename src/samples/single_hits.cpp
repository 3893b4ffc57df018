// SPDX-License-Identifier: BSD-3-Clause
#include "single_hits.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::array<std::array<std::int64_t, 2>, 4> kDirections{{{0, 1}, {1, 0}, {1, 1}, {1, -1}}};
constexpr double kMargin =
    2.5;  // textures that a kernel lets through stand out more than single points, in few places
constexpr double kTells = 0.7;      // of its height: what a hit stands above its neighbors
constexpr double kDeviations = 8;   // of noise
constexpr std::int64_t kNear7 = 3;  // 7 x 7 samples around one
constexpr double kLocal = 8;        // times what those around scatter
constexpr int kCutOff =
    4;  // of them may have the smallest value of all: more is noise that was cut off there

// The 7 x 7 around a place: the darkest of them, which a point would stand out of; how much they scatter, as most of them
// stay below, along rows or columns, whichever is less; and how many have the smallest value of all.
struct NearHit {
  double floor = INFINITY, scatter = 0;
  int cut = 0;
};
NearHit around_hit(const NearPlane& plane, std::int64_t row, std::int64_t column, double darkest,
                   std::vector<double>& room) {
  constexpr double kMostBelow = 0.6;
  NearHit out;
  room.clear();
  for (std::int64_t r = row - kNear7; r <= row + kNear7; ++r)
    for (std::int64_t c = column - kNear7; c <= column + kNear7; ++c) {
      const std::size_t here = plane.at(r, c);
      if (plane.counted[here] == 0) continue;
      const auto v = static_cast<double>(plane.values[here]);
      out.floor = std::min(out.floor, v);
      out.cut += v == darkest;
      double off = INFINITY;
      for (const auto& [a, b] : {std::pair(plane.at(r, c - 1), plane.at(r, c + 1)),
                                 std::pair(plane.at(r - 1, c), plane.at(r + 1, c))})
        if (plane.counted[a] != 0 && plane.counted[b] != 0)
          off = std::min(off, std::abs(v - (static_cast<double>(plane.values[a]) +
                                            static_cast<double>(plane.values[b])) /
                                               2));
      if (std::isfinite(off)) room.push_back(off);
    }
  if (room.empty()) return out;
  const auto place =
      room.begin() + static_cast<std::ptrdiff_t>(kMostBelow * static_cast<double>(room.size()));
  std::nth_element(room.begin(), place, room.end());
  out.scatter = *place;
  return out;
}

}  // namespace

bool HitKernel::tells() const {
  return std::any_of(most.begin(), most.end(), [](double v) { return v > 0; });
}

HitKernel hit_kernel(const at::Tensor& taps) {
  constexpr double kCore = 0.8;  // of the largest tap: where a point that stands out has its middle
  const at::Tensor t = taps.to(at::kCPU, at::kDouble).mean(at::IntArrayRef{0, 1}).contiguous();
  const std::int64_t rows = t.size(0), columns = t.size(1);
  const double* const v = t.const_data_ptr<double>();
  const auto at = [&](std::int64_t r, std::int64_t c) {
    return r < 0 || c < 0 || r >= rows || c >= columns ? 0.0 : v[r * columns + c];
  };
  double largest = 0;
  for (std::int64_t k = 0; k < rows * columns; ++k) largest = std::max(largest, v[k]);
  HitKernel out;
  if (!(largest > 0)) return out;
  for (std::size_t d = 0; d < kDirections.size(); ++d) {
    const auto [dr, dc] = kDirections[d];
    double stands = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const double here = at(r, c);
        if (here < kCore * largest) continue;
        const double beside = (at(r + dr, c + dc) + at(r - dr, c - dc)) / 2;
        stands = std::max(stands, 1 - std::max(0.0, beside) / here);
      }
    const double most = kMargin * stands;
    out.most[d] = most < kTells ? std::max(most, 0.25) : 0;
  }
  return out;
}

std::vector<std::array<std::int64_t, 2>> single_hits(const NearPlane& plane, double noise,
                                                     const HitKernel& kernel, const Communicator& comm) {
  constexpr std::int64_t kEvery = 7, kOneIn = 50, kMostHits = 5'000;
  constexpr double kTail = 0.9, kBeyond = 5;
  std::vector<std::array<std::int64_t, 2>> found;
  if (!(noise > 0) || !kernel.tells()) return found;
  const Box& block = plane.block;
  const auto value = [&](std::int64_t r, std::int64_t c) {
    return static_cast<double>(plane.values[plane.at(r, c)]);
  };
  const auto counts = [&](std::int64_t r, std::int64_t c) { return plane.counted[plane.at(r, c)] != 0; };
  // What samples stand above the mean of two beside them, and its usual tail: of noise with a long one hits are more.
  std::vector<float> sizes, levels;
  std::array<std::int64_t, 2> n{};
  for (std::int64_t r = block.lo()[1]; r < block.hi()[1]; ++r)
    for (std::int64_t c = block.lo()[2]; c < block.hi()[2]; ++c) {
      if (!counts(r, c)) continue;
      ++n[0];
      if ((r + 3 * c) % kEvery != 0 || !counts(r, c - 1) || !counts(r, c + 1)) continue;
      levels.push_back(plane.values[plane.at(r, c)]);
      sizes.push_back(static_cast<float>(std::abs(value(r, c) - (value(r, c - 1) + value(r, c + 1)) / 2)));
    }
  const std::int64_t asked = count_values(sizes, comm);
  if (asked < 100) return found;
  const auto place = static_cast<std::int64_t>(kTail * static_cast<double>(asked));
  const double middle = static_cast<double>(median(levels, comm)),
               least = std::max(kDeviations * noise,
                                kBeyond * static_cast<double>(order_statistic(sizes, place, comm)));
  double darkest = INFINITY;
  for (std::int64_t r = block.lo()[1]; r < block.hi()[1]; ++r)
    for (std::int64_t c = block.lo()[2]; c < block.hi()[2]; ++c)
      if (counts(r, c)) darkest = std::min(darkest, value(r, c));
  comm.all_reduce({&darkest, 1}, Reduce::min);
  std::vector<double> room;
  // Hits of a track make each other's surroundings scatter: one that is clear stands for all that touch it.
  std::vector<Run> standing, clear;
  for (std::int64_t r = block.lo()[1]; r < block.hi()[1]; ++r)
    for (std::int64_t c = block.lo()[2]; c < block.hi()[2]; ++c) {
      if (!counts(r, c)) continue;
      const double here = value(r, c);
      for (std::size_t d = 0; d < kDirections.size(); ++d) {
        const auto [dr, dc] = kDirections[d];
        if (kernel.most[d] == 0 || !counts(r + dr, c + dc) || !counts(r - dr, c - dc)) continue;
        const double beside = (value(r + dr, c + dc) + value(r - dr, c - dc)) / 2, out = here - beside,
                     bright = std::sqrt(std::max(1.0, beside / std::max(middle, noise)));
        if (out < least * bright) continue;
        const NearHit near = around_hit(plane, r, c, darkest, room);
        if (near.cut > kCutOff || out <= kLocal * near.scatter / 4 ||
            out <= kernel.most[d] * (here - near.floor))
          continue;
        if (standing.empty() || standing.back().row != r || standing.back().begin != c)
          standing.push_back({r, c, c + 1});
        if (out > kLocal * near.scatter) {
          clear.push_back({r, c, c + 1});
          break;
        }
      }
    }
  const Areas areas = connect(gather_runs(standing, kMostHits, comm), Corners::join);
  std::vector<char> taken(static_cast<std::size_t>(areas.count), 0);
  const std::vector<Run> sure = gather_runs(clear, kMostHits, comm);
  for (const Run& run : sure)
    for (std::size_t k = 0; k < areas.runs.size(); ++k)
      if (areas.runs[k].row == run.row && areas.runs[k].begin <= run.begin && run.begin < areas.runs[k].end)
        taken[static_cast<std::size_t>(areas.area[k])] = 1;
  for (std::size_t k = 0; k < areas.runs.size(); ++k) {
    const Run& run = areas.runs[k];
    if (taken[static_cast<std::size_t>(areas.area[k])] == 0 || run.row < block.lo()[1] ||
        run.row >= block.hi()[1])
      continue;
    for (std::int64_t c = std::max(run.begin, block.lo()[2]); c < std::min(run.end, block.hi()[2]); ++c)
      found.push_back({run.row, c});
  }
  n[1] = std::ssize(found);
  comm.all_reduce(std::span<std::int64_t>(n), Reduce::sum);
  if (n[1] * kOneIn > n[0]) found.clear();
  return found;
}

}  // namespace tessera
