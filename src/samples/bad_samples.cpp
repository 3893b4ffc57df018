// SPDX-License-Identifier: BSD-3-Clause
#include "bad_samples.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "tessera/core/error.hpp"
#include "tessera/samples/repeats.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPasses = 4;  // what lies beside a bright sample shows once that is gone
constexpr std::int64_t kRayPasses = 2;
constexpr std::int64_t kTileSide = 8;  // of a missing tile, at least
constexpr double kTileFull = 0.98;     // of its rectangle
constexpr std::int64_t kMostTileRuns = 2'000'000;

// What was found of a part, for one line.
struct FoundBad {
  std::int64_t hot = 0, dead = 0, rays = 0, tiles = 0;
  std::set<std::string> columns, rows;
};

void leave_out(const std::vector<BadPlace>& places, const Box& block, at::Tensor& marks) {
  if (places.empty()) return;
  float* const m = marks.data_ptr<float>();
  for (const BadPlace& p : places)
    m[((p.channel * block.extent(0) + p.slice) * block.extent(1) + p.row - block.lo()[1]) * block.extent(2) +
      p.column - block.lo()[2]] = 0;
}

std::int64_t over_ranks(std::size_t mine, const Communicator& comm) {
  auto n = static_cast<std::int64_t>(mine);
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return n;
}

void look_for_lines(const BadConfig& bad, const at::Tensor& y, const ProductSpace& layout, std::size_t part,
                    at::Tensor& marks, FoundBad& found, const Communicator& comm) {
  const Box frame = layout.part(part).box(), block = layout.layout(part).box(comm.rank());
  const NearPlanes near(y, marks, layout, part, comm, kBadBeyond);
  for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
    if (!(axis == 1 ? bad.rows : bad.columns)) continue;
    const std::size_t other = 3 - axis;
    for (const OddLine& odd : bad_lines(near, frame, axis, comm)) {
      const bool whole = odd.begin == 0 && odd.end == frame.extent(other);
      (axis == 1 ? found.rows : found.columns)
          .insert(fmt::format("{}{}{}", axis == 1 ? "row " : "column ", odd.line,
                              whole ? ""
                                    : fmt::format(" from {} {} to {}", axis == 1 ? "column" : "row",
                                                  odd.begin, odd.end - 1)));
      const std::int64_t at = odd.line + frame.lo()[axis] - block.lo()[axis],
                         begin = std::max(odd.begin + frame.lo()[other], block.lo()[other]),
                         end = std::min(odd.end + frame.lo()[other], block.hi()[other]);
      if (block.empty() || at < 0 || at >= block.extent(axis) || begin >= end) continue;
      marks.select(0, odd.channel)
          .select(axis == 1 ? -2 : -1, at)
          .narrow(-1, begin - block.lo()[other], end - begin)
          .zero_();
    }
  }
}

// Runs of a plane's samples of one value, each at least as long as a tile is wide.
std::vector<Run> runs_of_value(const NearPlane& p, float value) {
  std::vector<Run> out;
  for (std::int64_t r = p.block.lo()[1]; r < p.block.hi()[1]; ++r)
    for (std::int64_t c = p.block.lo()[2]; c < p.block.hi()[2]; ++c) {
      const std::size_t k = p.at(r, c);
      if (p.counted[k] == 0 || p.values[k] != value) continue;
      if (!out.empty() && out.back().row == r && out.back().end == c)
        ++out.back().end;
      else
        out.push_back({r, c, c + 1});
    }
  return out;
}

// Areas of one value that are rectangles. Without stretches that are too short: an edge of one may have that value by chance.
std::vector<std::vector<Run>> rectangles(const std::vector<Run>& all) {
  std::vector<Run> runs;
  std::copy_if(all.begin(), all.end(), std::back_inserter(runs),
               [](const Run& r) { return r.size() >= kTileSide; });
  const Areas areas = connect(runs, Corners::part);
  std::vector<std::vector<Run>> apart(static_cast<std::size_t>(areas.count));
  for (std::size_t k = 0; k < areas.runs.size(); ++k)
    apart[static_cast<std::size_t>(areas.area[k])].push_back(areas.runs[k]);
  std::erase_if(apart, [](const std::vector<Run>& area) {
    std::int64_t size = 0, top = area.front().row, bottom = top, left = area.front().begin,
                 right = area.front().end;
    for (const Run& r : area) {
      size += r.size();
      top = std::min(top, r.row);
      bottom = std::max(bottom, r.row);
      left = std::min(left, r.begin);
      right = std::max(right, r.end);
    }
    const std::int64_t height = bottom - top + 1, width = right - left;
    return height < kTileSide || width < kTileSide ||
           static_cast<double>(size) < kTileFull * static_cast<double>(height * width);
  });
  return apart;
}

void look_for_tiles(const Measurement& stored, const Measurement& counted, const ProductSpace& layout,
                    std::size_t part, at::Tensor& marks, FoundBad& found, const Communicator& comm) {
  const Repeats repeats = find_repeats(stored, counted, layout, comm);
  if (repeats.areas.empty()) return;
  const Box frame = layout.part(part).box(), block = layout.layout(part).box(comm.rank());
  const NearPlanes near(stored[part], marks, layout, part, comm, kBadBeyond);
  for (std::int64_t ch = 0; ch < near.channels(); ++ch)
    for (std::int64_t z = frame.lo()[0]; z < frame.hi()[0]; ++z) {
      const bool mine = !block.empty() && z >= block.lo()[0] && z < block.hi()[0];
      const NearPlane p = mine ? near.plane(ch, z - block.lo()[0]) : NearPlane{};
      for (const Repeats::Area& area : repeats.areas) {
        const std::vector<Run> own = mine ? runs_of_value(p, area.value) : std::vector<Run>();
        for (const std::vector<Run>& tile : rectangles(gather_runs(own, kMostTileRuns, comm))) {
          ++found.tiles;
          if (!mine) continue;
          std::vector<BadPlace> places;
          for (const Run& run : tile)
            for (std::int64_t c = std::max(run.begin, block.lo()[2]); c < std::min(run.end, block.hi()[2]);
                 ++c)
              if (run.row >= block.lo()[1] && run.row < block.hi()[1])
                places.push_back({ch, z - block.lo()[0], run.row, c});
          leave_out(places, block, marks);
        }
      }
    }
}

void look_for_points(const BadConfig& bad, const at::Tensor& y, const ProductSpace& layout, std::size_t part,
                     double contrast, at::Tensor& marks, FoundBad& found, const Communicator& comm) {
  const Box block = layout.layout(part).box(comm.rank());
  double level = -1;
  for (std::int64_t pass = 0; pass < kPasses; ++pass) {
    std::array<std::int64_t, 3> n{};
    const auto look = [&](bool wanted, std::size_t kind, const auto& find) {
      if (!wanted) return;
      const NearPlanes near(y, marks, layout, part, comm, kBadBeyond);
      if (level < 0) level = detail_level(near, comm);
      const std::vector<BadPlace> places = find(near);
      leave_out(places, block, marks);
      n[kind] += over_ranks(places.size(), comm);
    };
    look(bad.hot, 0, [&](const NearPlanes& near) { return bad_points(near, level).hot; });
    look(bad.dead, 1, [&](const NearPlanes& near) { return bad_points(near, level).dead; });
    look(bad.cosmic_rays && pass < kRayPasses, 2,
         [&](const NearPlanes& near) { return cosmic_rays(near, level, contrast); });
    found.hot += n[0];
    found.dead += n[1];
    found.rays += n[2];
    if (n[0] + n[1] + n[2] == 0) return;
  }
}

// "41 hot, 12 dead, column 311"
std::string listed(const BadConfig& bad, const FoundBad& found) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> out, none;
  const auto add = [&](bool asked, std::int64_t n, const char* what, const char* of_none) {
    if (n > 0)
      out.push_back(fmt::format("{} {}", n, what));
    else if (asked)
      none.emplace_back(of_none);
  };
  const auto add_lines = [&](bool asked, const std::set<std::string>& lines, const char* what) {
    if (lines.size() > kMost)
      out.push_back(fmt::format("{} {}, {} the first", lines.size(), what, *lines.begin()));
    else
      out.insert(out.end(), lines.begin(), lines.end());
    if (lines.empty() && asked) none.emplace_back(what);
  };
  add(bad.hot, found.hot, "hot", "hot");
  add(bad.dead, found.dead, "dead", "dead");
  add(bad.cosmic_rays, found.rays, "of cosmic rays", "cosmic rays");
  add_lines(bad.columns, found.columns, "columns");
  add_lines(bad.rows, found.rows, "rows");
  add(bad.missing_tiles, found.tiles, found.tiles == 1 ? "missing tile" : "missing tiles", "missing tiles");
  if (out.empty()) return fmt::format("none found of {}", fmt::join(none, ", "));
  return fmt::format("{}{}", fmt::join(out, ", "),
                     none.empty() ? "" : fmt::format("; no {}", fmt::join(none, ", no ")));
}

}  // namespace

void leave_out_bad(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                   const Communicator& comm) {
  const BadConfig& bad = survey.problem.bad;
  if (!bad.any()) return;
  TESSERA_VALIDATE(
      !survey.scan && survey.in_image_range(),
      "problem.bad looks at pictures and volumes (the measurements are views of an object, where zingers and "
      "dead columns are left out as they are read) leave it out");
  if (!bad.looked_for()) return;
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  FoundBad found;
  std::int64_t before = 0, after = 0;
  for (const at::Tensor& m : marks) before += m.ne(0).sum().item().toLong();
  for (std::size_t part = 0; part < stored.size(); ++part) {
    at::Tensor& m = marks[part];
    m = m.contiguous();
    if (bad.missing_tiles) look_for_tiles(stored, marks, layout, part, m, found, comm);
    if (bad.columns || bad.rows) look_for_lines(bad, stored[part], layout, part, m, found, comm);
    const bool picture = part < traits.parts.size() && traits.parts[part].convolution &&
                         !traits.parts[part].convolution->decimates() &&
                         traits.parts[part].convolution->taps.size(1) == 1;
    if (bad.hot || bad.dead || bad.cosmic_rays)
      look_for_points(bad, stored[part], layout, part,
                      picture ? hit_contrast(traits.parts[part].convolution->taps) : kStarContrast, m, found,
                      comm);
  }
  for (const at::Tensor& m : marks) after += m.ne(0).sum().item().toLong();
  std::array<std::int64_t, 2> n{before, after};
  comm.all_reduce(std::span<std::int64_t>(n), Reduce::sum);
  TESSERA_VALIDATE(n[1] > 0, "problem.bad leaves no sample (", listed(bad, found), ") ask for less");
  seen.notices.push_back(fmt::format("bad samples: {}{}", listed(bad, found),
                                     n[0] == n[1] ? "" : fmt::format("; {} samples count 0", n[0] - n[1])));
  if (10 * (n[0] - n[1]) > n[0])
    seen.warnings.push_back(
        fmt::format("{:.1f} % of the samples were found bad (so many are rather a part of the picture, or "
                    "its noise) look at "
                    "bad.png, and ask for less in problem.bad",
                    100.0 * static_cast<double>(n[0] - n[1]) / static_cast<double>(n[0])));
}

}  // namespace tessera
