// SPDX-License-Identifier: BSD-3-Clause
#include "unblurred.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "sharp_areas.hpp"
#include "single_hits.hpp"
#include "tessera/samples/local_noise.hpp"
#include "tessera/samples/order_statistics.hpp"
#include "tessera/samples/repeats.hpp"

namespace tessera {
namespace {

constexpr double kStep8 = 3 / 255.0;  // of the range: what compression leaves of one value
constexpr std::int64_t kCorner = 6;   // samples a side that show what a corner has

void paint(const std::vector<Run>& runs, NearPlane& plane) {
  const Box& all = plane.around;
  if (plane.block.empty()) return;
  for (const Run& run : runs)
    if (run.row >= all.lo()[1] && run.row < all.hi()[1])
      for (std::int64_t c = std::max(run.begin, all.lo()[2]); c < std::min(run.end, all.hi()[2]); ++c)
        plane.counted[plane.at(run.row, c)] = 0;
}

// Samples that count within a box.
std::vector<float> values_in(const NearPlane& plane, const Box& box) {
  const Box part = plane.block.intersect(box);
  std::vector<float> out;
  if (part.empty()) return out;
  for (std::int64_t r = part.lo()[1]; r < part.hi()[1]; ++r)
    for (std::int64_t c = part.lo()[2]; c < part.hi()[2]; ++c)
      if (const std::size_t k = plane.at(r, c); plane.counted[k] != 0) out.push_back(plane.values[k]);
  return out;
}

// Smallest, largest, middle and range but for a thousandth, of the samples that count.
struct Spread {
  double least = 0, most = 0, middle = 0, range = 0;
};

Spread spread_of(const NearPlane& plane, const Communicator& comm) {
  const std::vector<float> v = values_in(plane, plane.block);
  const std::int64_t n = count_values(v, comm);
  if (n == 0) return {};
  const auto place = [&](std::int64_t k) { return static_cast<double>(order_statistic(v, k, comm)); };
  return {place(0), place(n - 1), place(n / 2), place(n - 1 - n / 1000) - place(n / 1000)};
}

// What one corner of the frame has, and all that is like it from there on; nothing where it varies.
std::optional<Candidate> corner_of(const NearPlane& plane, std::size_t which, const Spread& spread,
                                   const Communicator& comm) {
  constexpr double kMost = 0.06;  // of the range
  Index3 lo = plane.frame.lo(), hi = plane.frame.hi();
  std::array<std::int64_t, 2> corner{};
  for (const std::size_t d : {1U, 2U}) {
    const bool last = ((d == 1 ? which / 2 : which) & 1) != 0;
    corner[d - 1] = last ? hi[d] - 1 : lo[d];
    (last ? lo : hi)[d] = last ? std::max(lo[d], hi[d] - kCorner) : std::min(hi[d], lo[d] + kCorner);
  }
  const Box box(lo, hi);
  std::vector<float> v = values_in(plane, box);
  const std::int64_t n = count_values(v, comm);
  if (2 * n <= box.pixels()) return std::nullopt;
  const double level = static_cast<double>(median(v, comm));
  for (float& one : v) one = static_cast<float>(std::abs(static_cast<double>(one) - level));
  const double apart = static_cast<double>(order_statistic(v, n * 9 / 10, comm));
  if (apart > kMost * spread.range) return std::nullopt;
  return Candidate{.value = level, .within = std::max(2 * apart, kStep8 * spread.range), .corner = corner};
}

// Whether many samples at an end of the range are scattered among others: noise that was cut off there, not an area. In
// stored values of light it is coarse beside that of the rest, and would pass for sharp edges.
bool cut_noise(const NearPlane& plane, double end, const Communicator& comm) {
  constexpr double kMany = 0.005,
                   kSolid = 0.3;    // of all samples; of those at the end, with four neighbors there too
  std::array<std::int64_t, 3> n{};  // all, at the end, within such an area
  const auto at_end = [&](std::size_t k) { return static_cast<double>(plane.values[k]) == end; };
  for (std::int64_t r = plane.block.lo()[1]; r < plane.block.hi()[1]; ++r)
    for (std::int64_t c = plane.block.lo()[2]; c < plane.block.hi()[2]; ++c) {
      if (plane.counted[plane.at(r, c)] == 0) continue;
      ++n[0];
      if (!at_end(plane.at(r, c))) continue;
      ++n[1];
      const std::array<std::size_t, 4> beside{plane.at(r, c - 1), plane.at(r, c + 1), plane.at(r - 1, c),
                                              plane.at(r + 1, c)};
      n[2] += std::all_of(beside.begin(), beside.end(),
                          [&](std::size_t k) { return plane.counted[k] == 0 || at_end(k); });
    }
  comm.all_reduce(std::span<std::int64_t>(n), Reduce::sum);
  const auto of = [&](std::size_t k) { return static_cast<double>(n[k]); };
  return of(1) > kMany * of(0) && of(2) < kSolid * of(1);
}

// Of one plane. What is found no longer counts in it.
std::vector<SharpArea> look_at_plane(NearPlane& plane, const std::vector<double>& values, double noise,
                                     const EdgeKernel& kernel, const Communicator& comm) {
  std::vector<SharpArea> out;
  Spread spread = spread_of(plane, comm);
  if (!(spread.range > 0) ||
      !has_sharp_steps(plane, {spread.least, spread.most}, noise, spread.range, kernel, comm))
    return out;
  const std::array<bool, 2> cut{cut_noise(plane, spread.least, comm), cut_noise(plane, spread.most, comm)};
  const std::array<double, 2> ends{spread.least, spread.most};
  const auto look = [&](Candidate what) {
    for (std::size_t e = 0; e < 2; ++e)
      if (cut[e] && std::abs(what.value - ends[e]) <= what.within) return;
    what.bright = what.value > spread.middle;
    what.noise = noise;
    what.range = spread.range;
    if (!(what.range > 0)) return;
    std::vector<SharpArea> found = sharp_areas(plane, what, kernel, comm);
    if (found.empty()) return;
    for (const SharpArea& area : found) paint(area.runs, plane);
    out.insert(out.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
    spread = spread_of(plane, comm);
  };
  std::vector<double> exact{spread.most, spread.least};
  for (const double v : values)
    if (std::find(exact.begin(), exact.end(), v) == exact.end()) exact.push_back(v);
  for (const double value : exact) look({.value = value});
  for (std::size_t which = 0; which < 4; ++which)
    if (const std::optional<Candidate> corner = corner_of(plane, which, spread, comm)) look(*corner);
  return out;
}

// "rows 0 to 15 at 0", "marks at 4095", "corners or an outside at 2"
std::string described(const std::vector<SharpArea>& areas, const Box& frame, const Survey& survey) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> out;
  const auto add = [&](const std::string& text) {
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
  };
  for (const SharpArea& area : areas) {
    const double value = area.value * survey.factor + survey.offset;
    std::int64_t size = 0;
    for (const Run& run : area.runs) size += run.size();
    const bool full = 10 * size > 9 * area.box.pixels();
    if (full && area.box.extent(2) == frame.extent(2))
      add(fmt::format("rows {} to {} at {:.6g}", area.box.lo()[1], area.box.hi()[1] - 1, value));
    else if (full && area.box.extent(1) == frame.extent(1))
      add(fmt::format("columns {} to {} at {:.6g}", area.box.lo()[2], area.box.hi()[2] - 1, value));
    else
      add(fmt::format("{} at {:.6g}", area.at_frame ? "corners or an outside" : "marks burnt in", value));
  }
  if (out.size() > kMost) out.resize(kMost);
  return fmt::format("{}", fmt::join(out, ", "));
}

// The first part that is a picture under a convolution on its own grid.
std::optional<std::size_t> blurred(const Surveyed& seen) {
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t i = 0; i < layout.parts() && i < traits.parts.size(); ++i) {
    const auto& kernel = traits.parts[i].convolution;
    if (kernel && !kernel->decimates() && kernel->taps.size(1) == 1 && layout.part(i).box().extent(0) == 1)
      return i;
  }
  return std::nullopt;
}

void leave_out_hits(std::size_t part, const std::vector<NearPlane>& planes, double noise, Measurement& marks,
                    Surveyed& seen, const Communicator& comm) {
  const HitKernel kernel = hit_kernel(seen.A->traits().parts[part].convolution->taps);
  std::int64_t hits = 0;
  for (std::size_t c = 0; c < planes.size(); ++c)
    for (const auto& [row, column] : single_hits(planes[c], noise, kernel, comm)) {
      const Box& block = planes[c].block;
      marks[part]
          .select(0, static_cast<std::int64_t>(c))
          .select(-2, row - block.lo()[1])
          .select(-1, column - block.lo()[2])
          .zero_();
      ++hits;
    }
  comm.all_reduce(std::span<std::int64_t>(&hits, 1), Reduce::sum);
  if (hits == 0) return;
  seen.notices.push_back(
      fmt::format("{} samples stand above their neighbors as no point does under this kernel (cosmic rays, "
                  "hot pixels; or the "
                  "kernel is too wide): they count 0; weights of 1 by problem.weights would count them",
                  hits));
}

// Whether there were some.
bool leave_out_areas(std::size_t part, const EdgeKernel& kernel, std::vector<NearPlane>& planes, double noise,
                     const Repeats& repeats, const Survey& survey, Measurement& marks, Surveyed& seen,
                     const Communicator& comm) {
  constexpr double kMost = 0.75;  // of the picture
  const ProductSpace& layout = seen.A->range();
  std::vector<double> values;
  values.reserve(repeats.areas.size());
  for (const Repeats::Area& area : repeats.areas) values.push_back(static_cast<double>(area.value));
  std::vector<SharpArea> found;
  for (NearPlane& plane : planes) {
    std::vector<SharpArea> areas = look_at_plane(plane, values, noise, kernel, comm);
    found.insert(found.end(), std::make_move_iterator(areas.begin()), std::make_move_iterator(areas.end()));
  }
  if (found.empty()) return false;
  std::vector<Run> out;
  for (const SharpArea& area : found) out = both(std::move(out), area.runs);
  const Box frame = layout.part(part).box();
  out = without_holes(out, frame);
  std::int64_t samples = 0;
  for (const Run& run : out) samples += run.size();
  if (static_cast<double>(samples) > kMost * static_cast<double>(frame.pixels())) return false;
  const Box block = layout.layout(part).box(comm.rank());
  if (!block.empty())
    for (const Run& run : out) {
      const std::int64_t row = run.row - block.lo()[1], begin = std::max(run.begin, block.lo()[2]),
                         end = std::min(run.end, block.hi()[2]);
      if (row < 0 || row >= block.extent(1) || begin >= end) continue;
      marks[part].select(-2, row).narrow(-1, begin - block.lo()[2], end - begin).zero_();
    }
  seen.notices.push_back(
      fmt::format("{} of {} samples are not of the blurred picture: {}. Their edges are sharper than the "
                  "kernel makes any, so they "
                  "count 0; weights of 1 by problem.weights would count them",
                  samples, frame.pixels(), described(found, frame, survey)));
  return true;
}

void leave_out_of_part(std::size_t part, const EdgeKernel& kernel, const Survey& survey,
                       const Measurement& stored, Measurement& marks, Surveyed& seen,
                       const Communicator& comm) {
  const ProductSpace& layout = seen.A->range();
  const Repeats repeats = find_repeats(stored, marks, layout, comm);
  const Measurement rest = without_areas(stored, marks, repeats, Where::neighborhoods, layout, comm);
  const double noise = alternation(stored, rest, layout, comm).neighbors;
  std::vector<NearPlane> planes = planes_of(stored[part], marks[part], layout, part, comm);
  if (leave_out_areas(part, kernel, planes, noise, repeats, survey, marks, seen, comm))
    planes = planes_of(stored[part], marks[part], layout, part, comm);
  if (survey.data.type != "uint8")  // noise of stored light is coarse in the dark
    leave_out_hits(part, planes, noise, marks, seen, comm);
}

}  // namespace

void leave_out_unblurred(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                         const Communicator& comm) {
  if (!survey.problem.weights.empty() || survey.scan || !survey.in_image_range()) return;
  const std::optional<std::size_t> part = blurred(seen);
  if (!part) return;
  if (const std::optional<EdgeKernel> kernel = edge_kernel(seen.A->traits().parts[*part].convolution->taps))
    leave_out_of_part(*part, *kernel, survey, stored, marks, seen, comm);
}

}  // namespace tessera
