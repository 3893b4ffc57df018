// SPDX-License-Identifier: BSD-3-Clause
// Rows and columns of a detector that are dead, hot, or of another gain.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "bad_samples.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostPieces = 32, kLeastPiece = 32, kMostCounted = 1 << 18;  // of a line
constexpr double kAllAlong = 0.9;  // of its samples stand out in one sense
constexpr double kPart = 0.34;     // of the frame: the least of a line that is bad in part
constexpr std::int64_t kLeastPart = 96;
constexpr double kOneIn = 8;  // lines at most are odd: more are a pattern

// Lines to both sides that a line is held against: so many steps before it and after it. The last two have one side only,
// for those at the frame's ends.
constexpr std::array<std::array<std::int64_t, 2>, 8> kSides{
    {{-1, 1}, {-1, 2}, {-2, 1}, {-1, 3}, {-2, 2}, {-3, 1}, {1, 2}, {-1, -2}}};
constexpr std::size_t kBoth = 6, kCounters = 3 * kSides.size();

// How many samples of each piece of each line count against each pair of sides, lie above both, and below both.
struct LineCounts {
  std::int64_t lines = 0, along = 0, pieces = 0, piece = 0;
  std::vector<std::int64_t> n;
  LineCounts(std::int64_t lines_in, std::int64_t along_in)
      : lines(lines_in),
        along(along_in),
        pieces(std::clamp<std::int64_t>(along_in / kLeastPiece, 1,
                                        std::clamp<std::int64_t>(kMostCounted / lines_in, 1, kMostPieces))),
        piece((along_in + pieces - 1) / pieces),
        n(static_cast<std::size_t>(lines_in * pieces) * kCounters) {}
  std::size_t at(std::int64_t line, std::int64_t k) const {
    return static_cast<std::size_t>(line * pieces + k) * kCounters;
  }
};

void count_plane(const NearPlane& p, std::size_t axis, LineCounts& out) {
  if (p.block.empty()) return;
  const std::size_t other = 3 - axis;
  const std::int64_t first = p.frame.lo()[axis], begin = p.frame.lo()[other];
  for (std::int64_t r = p.block.lo()[1]; r < p.block.hi()[1]; ++r)
    for (std::int64_t c = p.block.lo()[2]; c < p.block.hi()[2]; ++c) {
      const std::size_t here = p.at(r, c);
      if (p.counted[here] == 0) continue;
      const std::int64_t line = (axis == 1 ? r : c) - first, k = ((axis == 1 ? c : r) - begin) / out.piece;
      const float v = p.values[here];
      for (std::size_t s = 0; s < kSides.size(); ++s) {
        if (s == kBoth && line != 0) continue;
        if (s == kBoth + 1 && line + 1 != out.lines) continue;
        std::array<float, 2> beside{};
        bool counts = true;
        for (std::size_t e = 0; e < 2; ++e) {
          const std::size_t there = axis == 1 ? p.at(r + kSides[s][e], c) : p.at(r, c + kSides[s][e]);
          counts = counts && p.counted[there] != 0;
          beside[e] = p.values[there];
        }
        if (!counts) continue;
        const std::size_t to = out.at(line, k) + 3 * s;
        float low = std::min(beside[0], beside[1]), high = std::max(beside[0], beside[1]);
        if (s >= kBoth) {  // a slope goes on: it must lie far beyond
          const float room = 5 * (high - low);
          low -= room;
          high += room;
        }
        ++out.n[to];
        out.n[to + 1] += v > high;
        out.n[to + 2] += v < low;
      }
    }
}

// Whether nearly all samples of pieces [from, to) of a line stand out in one sense against a pair of sides.
bool stands_out(const LineCounts& counts, std::int64_t line, std::int64_t from, std::int64_t to,
                std::size_t side) {
  std::array<std::int64_t, 3> n{};
  for (std::int64_t k = from; k < to; ++k)
    for (std::size_t i = 0; i < 3; ++i) n[i] += counts.n[counts.at(line, k) + 3 * side + i];
  const auto all = static_cast<double>(n[0]);
  return n[0] >= (to - from) * counts.piece / 4 && n[0] > 7 &&
         static_cast<double>(std::max(n[1], n[2])) >= kAllAlong * all;
}

// All lines between the sides stand out together: of a group, each against the same two outer ones.
bool group_stands_out(const LineCounts& counts, std::int64_t line, std::int64_t from, std::int64_t to) {
  for (std::size_t s = 0; s < kSides.size(); ++s) {
    const auto [before, after] = kSides[s];
    if (s >= kBoth) {
      if (stands_out(counts, line, from, to, s)) return true;
      continue;
    }
    bool all = true;
    for (std::int64_t other = line + before + 1; other < line + after && all; ++other) {
      const auto same =
          std::ranges::find(kSides, std::array<std::int64_t, 2>{line + before - other, line + after - other});
      all = other >= 0 && other < counts.lines && same != kSides.end() &&
            stands_out(counts, other, from, to, static_cast<std::size_t>(same - kSides.begin()));
    }
    if (all) return true;
  }
  return false;
}

}  // namespace

std::vector<OddLine> bad_lines(const NearPlanes& near, const Box& frame, std::size_t axis,
                               const Communicator& comm) {
  std::vector<OddLine> out;
  const std::int64_t lines = frame.extent(axis), along = frame.extent(3 - axis);
  if (lines < 8 || along < 16) return out;
  for (std::int64_t ch = 0; ch < near.channels(); ++ch) {
    LineCounts counts(lines, along);
    for (std::int64_t z = 0; z < near.slices(); ++z) count_plane(near.plane(ch, z), axis, counts);
    comm.all_reduce(std::span<std::int64_t>(counts.n), Reduce::sum);
    std::vector<OddLine> found;
    for (std::int64_t line = 0; line < lines; ++line) {
      if (group_stands_out(counts, line, 0, counts.pieces)) {
        found.push_back({ch, line, 0, along});
        continue;
      }
      std::int64_t low = 0, high = counts.pieces;  // from one end of the frame on
      while (low < counts.pieces && group_stands_out(counts, line, low, low + 1)) ++low;
      while (high > 0 && group_stands_out(counts, line, high - 1, high)) --high;
      const std::int64_t first = std::min(along, low * counts.piece),
                         last = along - std::min(along, high * counts.piece);
      const double least = std::max(static_cast<double>(kLeastPart), kPart * static_cast<double>(along));
      if (static_cast<double>(std::max(first, last)) < least) continue;
      if (first >= last)
        found.push_back({ch, line, 0, first});
      else
        found.push_back({ch, line, along - last, along});
    }
    if (static_cast<double>(found.size()) * kOneIn <= static_cast<double>(lines))
      out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

}  // namespace tessera
