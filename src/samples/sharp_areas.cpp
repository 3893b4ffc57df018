// SPDX-License-Identifier: BSD-3-Clause
#include "sharp_areas.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace tessera {
namespace {

constexpr std::int64_t kMostRuns = 2'000'000;  // a picture of more has no areas
constexpr double kUnit = 0x1p24;               // sums are of whole numbers

// By measurement, of 640 photographs and night scenes under ten kernels and of 110 with bars, marks, corners, round fields.
constexpr double kFalls = 0.25, kFallsNarrow = 0.12, kNarrow = 0.35;  // the second step over the first
constexpr double kFallsTwice = 0.2, kMostTwice = 0.62;
constexpr double kLeastStep = 0.03, kOverNoise = 6, kNoise = 3;
constexpr double kCut = 0.003;  // a lamp that is so far beyond white shows the kernel's rim

bool within(const Box& frame, std::int64_t row, std::int64_t column) {
  return row >= frame.lo()[1] && row < frame.hi()[1] && column >= frame.lo()[2] && column < frame.hi()[2];
}

// What the edge of an area says, as whole numbers.
struct Edges {
  enum : std::size_t { all, sharp, blurred, sharp2, blurred2, steps, goes_on, steps2, goes_on2, kinds };
  std::array<std::int64_t, kinds> n{};
  double of(std::size_t kind) const { return static_cast<double>(n[kind]); }
};

// A step of an edge, from inside to the next samples outside.
struct Step {
  double inside = 0;
  std::array<double, 3> outside{};
  std::array<bool, 3> counts{};
};

void take_step(const Step& s, const Candidate& what, double fall, bool twice, Edges& out) {
  const double least = std::max(kOverNoise * what.noise, kLeastStep * what.range),
               noise = kNoise * what.noise;
  const auto whole = [&](double v) {
    return static_cast<std::int64_t>(std::llround(std::clamp(v / what.range, -8.0, 8.0) * kUnit));
  };
  const double step = s.outside[0] - s.inside, next = s.outside[1] - s.outside[0];
  ++out.n[Edges::all];
  if (std::abs(step) >= least) {
    ++out.n[std::abs(next) < std::max(fall * std::abs(step), noise) ? Edges::sharp : Edges::blurred];
    out.n[Edges::steps] += whole(std::abs(step));
    out.n[Edges::goes_on] += whole(step > 0 ? next : -next);
  }
  // One sample in between may have some of both, where an edge was smoothed.
  const double step2 = s.outside[1] - s.inside, next2 = s.outside[2] - s.outside[1];
  if (!twice || !s.counts[2] || std::abs(step2) < least) return;
  const double sign = step2 > 0 ? 1 : -1, room = std::max(kFallsTwice * std::abs(step2), noise);
  const bool between = step * sign > -noise && next * sign > -room;
  ++out.n[between && std::abs(next2) < room ? Edges::sharp2 : Edges::blurred2];
  out.n[Edges::steps2] += whole(std::abs(step2));
  out.n[Edges::goes_on2] += whole(sign * next2);
}

constexpr std::array<std::array<std::int64_t, 2>, 4> kWays{{{0, 1}, {0, -1}, {1, 0}, {-1, 0}}};

// What this rank's samples of each area say. `label`: of the plane's samples, -1: none.
std::vector<Edges> edges_of(const NearPlane& plane, const std::vector<std::int32_t>& label,
                            std::int32_t areas, const Candidate& what, const EdgeKernel& kernel) {
  std::vector<Edges> out(static_cast<std::size_t>(areas));
  for (std::int64_t r = plane.block.lo()[1]; r < plane.block.hi()[1]; ++r)
    for (std::int64_t c = plane.block.lo()[2]; c < plane.block.hi()[2]; ++c) {
      const std::size_t here = plane.at(r, c);
      if (label[here] < 0) continue;
      for (const auto& way : kWays) {
        const std::size_t axis = way[0] != 0 ? 0 : 1;
        if (!kernel.tells[axis]) continue;
        Step s{.inside = static_cast<double>(plane.values[here])};
        for (std::size_t k = 0; k < 3; ++k) {
          const auto far = static_cast<std::int64_t>(k) + 1;
          const std::size_t there = plane.at(r + far * way[0], c + far * way[1]);
          s.outside[k] = static_cast<double>(plane.values[there]);
          s.counts[k] = plane.counted[there] != 0 && label[there] < 0;
        }
        if (!s.counts[0] || !s.counts[1]) continue;
        take_step(s, what, kernel.bound[axis] > kNarrow ? kFallsNarrow : kFalls,
                  kernel.twice[axis] <= kMostTwice, out[static_cast<std::size_t>(label[here])]);
      }
    }
  return out;
}

std::vector<Run> runs_of(const NearPlane& plane, const Candidate& what) {
  const bool near = what.corner.has_value();
  const auto is = [&](std::size_t k) {
    const auto v = static_cast<double>(plane.values[k]);
    return plane.counted[k] != 0 && (near ? std::abs(v - what.value) <= what.within : v == what.value);
  };
  const auto taken = [&](std::int64_t r, std::int64_t c) {
    if (!near) return is(plane.at(r, c));
    int all = 0, here = 0;  // noise leaves holes
    for (std::int64_t i = r - 1; i <= r + 1; ++i)
      for (std::int64_t j = c - 1; j <= c + 1; ++j) {
        if (!within(plane.frame, i, j)) continue;
        ++all;
        here += is(plane.at(i, j));
      }
    return 10 * here > 6 * all && plane.counted[plane.at(r, c)] != 0;
  };
  std::vector<Run> out;
  for (std::int64_t r = plane.block.lo()[1]; r < plane.block.hi()[1]; ++r)
    for (std::int64_t c = plane.block.lo()[2]; c < plane.block.hi()[2]; ++c) {
      if (!taken(r, c)) continue;
      if (!out.empty() && out.back().row == r && out.back().end == c)
        ++out.back().end;
      else
        out.push_back({r, c, c + 1});
    }
  return out;
}

// An area alone, as rows of 0 and 1 within its box.
struct Shape {
  std::int64_t row = 0, column = 0, height = 0, width = 0, size = 0;
  bool at_frame = false;
  Box frame;
  std::vector<std::uint8_t> in{};

  bool has(std::int64_t r, std::int64_t c) const {  // outside of the frame it goes on
    if (!within(frame, r, c)) return at_frame;
    r -= row;
    c -= column;
    return r >= 0 && c >= 0 && r < height && c < width && in[static_cast<std::size_t>(r * width + c)] != 0;
  }
  std::int64_t longer() const { return std::max(height, width); }
  bool bar() const { return 100 * size > 97 * height * width; }
  bool whole_bar() const { return bar() && (width == frame.extent(2) || height == frame.extent(1)); }
};

Shape shape_of(const std::vector<Run>& runs, const Box& frame) {
  Shape s{.frame = frame};
  Index3 lo = frame.hi(), hi = frame.lo();
  for (const Run& run : runs) {
    lo = {0, std::min(lo[1], run.row), std::min(lo[2], run.begin)};
    hi = {1, std::max(hi[1], run.row + 1), std::max(hi[2], run.end)};
    s.size += run.size();
  }
  s.row = lo[1];
  s.column = lo[2];
  s.height = hi[1] - lo[1];
  s.width = hi[2] - lo[2];
  for (const std::size_t d : {1U, 2U}) s.at_frame |= lo[d] == frame.lo()[d] || hi[d] == frame.hi()[d];
  s.in.assign(static_cast<std::size_t>(s.height * s.width), 0);
  for (const Run& run : runs)
    std::fill_n(s.in.begin() + (run.row - lo[1]) * s.width + run.begin - lo[2], run.size(), 1);
  return s;
}

// Share of the area that copies of these taps cover which lie in it, as those of a bright point would.
double covered(const Shape& s, const EdgeKernel::Taps& taps) {
  constexpr std::int64_t kMostWork = 200'000'000;  // what is larger is no point
  std::int64_t reach = 0;
  for (const auto& t : taps) reach = std::max({reach, std::abs(t[0]), std::abs(t[1])});
  if ((s.height + 2 * reach) * (s.width + 2 * reach) * std::ssize(taps) > kMostWork) return 0;
  std::vector<std::uint8_t> hit(s.in.size(), 0);
  for (std::int64_t r = s.row - reach; r < s.row + s.height + reach; ++r)
    for (std::int64_t c = s.column - reach; c < s.column + s.width + reach; ++c) {
      if (!std::all_of(taps.begin(), taps.end(), [&](const auto& t) { return s.has(r + t[0], c + t[1]); }))
        continue;
      for (const auto& t : taps) {
        const std::int64_t i = r + t[0] - s.row, j = c + t[1] - s.column;
        if (i >= 0 && j >= 0 && i < s.height && j < s.width)
          hit[static_cast<std::size_t>(i * s.width + j)] = 1;
      }
    }
  std::int64_t n = 0;
  for (std::size_t k = 0; k < hit.size(); ++k) n += hit[k] & s.in[k];
  return static_cast<double>(n) / static_cast<double>(s.size);
}

// Samples of the area with some of the rest on both sides, along rows or columns: few where the rest is convex.
std::int64_t between_rest(const Shape& s) {
  std::int64_t out = 0;
  const auto along = [&](std::int64_t lines, std::int64_t length, std::int64_t step, std::int64_t next,
                         bool from_edge, bool to_edge) {
    for (std::int64_t k = 0; k < lines; ++k) {
      const std::uint8_t* const v = s.in.data() + k * next;
      std::int64_t first = 0, last = length;
      if (from_edge)
        while (first < length && v[first * step] != 0) ++first;
      if (to_edge)
        while (last > first && v[(last - 1) * step] != 0) --last;
      for (std::int64_t j = first; j < last; ++j) out += v[j * step];
    }
  };
  along(s.height, s.width, 1, s.width, s.column == s.frame.lo()[2], s.column + s.width == s.frame.hi()[2]);
  along(s.width, s.height, s.width, 1, s.row == s.frame.lo()[1], s.row + s.height == s.frame.hi()[1]);
  return out;
}

struct Verdict {
  bool once = false, twice = false;  // sharp from a sample to the next, or with one in between
  bool any() const { return once || twice; }
};

Verdict judge(const Edges& e, const Shape& s, const Candidate& what, const EdgeKernel& kernel) {
  constexpr double kShare = 0.2, kHalo = 0.1, kHaloBright = 0.04, kHaloTwice = 0.12, kThin = 0.3, kLamp = 0.6;
  const auto ratio = [&](std::size_t a, std::size_t b) { return e.of(a) / std::max(1.0, e.of(b)); };
  Verdict v;
  v.once = e.of(Edges::sharp) >= 4 * e.of(Edges::blurred) &&
           e.of(Edges::sharp) >= kShare * e.of(Edges::all) && ratio(Edges::goes_on, Edges::steps) < kHalo;
  const bool large = s.at_frame && s.longer() >= 3 * kernel.reach;
  // Of very bright lamps light falls that fast, too.
  const double times = !what.bright || large ? 2 : 4;
  v.twice = e.of(Edges::sharp2) >= times * e.of(Edges::blurred2) &&
            e.of(Edges::sharp2) >= kShare * e.of(Edges::all) &&
            ratio(Edges::goes_on2, Edges::steps2) < (what.bright ? kHaloBright : kHaloTwice) &&
            (!what.bright || large || covered(s, kernel.half) < kThin);
  if (!v.any()) return v;
  if (kernel.bars_only && !s.whole_bar()) return {};
  if (what.bright && kernel.cut > kCut && s.longer() < 3 * kernel.reach && covered(s, kernel.all) > kLamp)
    return {};
  if (!kernel.sharp) return v;
  const bool side = s.at_frame && 10 * between_rest(s) < s.size && s.longer() >= 3 * kernel.core,
             bar = s.bar() && s.longer() >= 6 * kernel.core,
             small = !s.at_frame && covered(s, kernel.tenth) < kLamp;
  return side || bar || small ? v : Verdict{};
}

// The areas of a candidate: their samples, and what their edges say on all ranks.
struct Found {
  std::vector<std::vector<Run>> runs;
  std::vector<Edges> edges;
};

Found find_areas(const NearPlane& plane, const Candidate& what, const EdgeKernel& kernel,
                 const Communicator& comm) {
  Found out;
  const std::vector<Run> found = gather_runs(runs_of(plane, what), kMostRuns, comm);
  if (found.empty()) return out;
  const Areas areas = connect(without_holes(found, plane.frame), Corners::join);
  std::vector<std::int32_t> label(plane.values.size(), -1);
  out.runs.resize(static_cast<std::size_t>(areas.count));
  for (std::size_t k = 0; k < areas.runs.size(); ++k) {
    const Run& run = areas.runs[k];
    out.runs[static_cast<std::size_t>(areas.area[k])].push_back(run);
    if (run.row < plane.around.lo()[1] || run.row >= plane.around.hi()[1]) continue;
    for (std::int64_t c = std::max(run.begin, plane.around.lo()[2]);
         c < std::min(run.end, plane.around.hi()[2]); ++c)
      label[plane.at(run.row, c)] = areas.area[k];
  }
  out.edges = edges_of(plane, label, areas.count, what, kernel);
  static_assert(sizeof(Edges) == Edges::kinds * sizeof(std::int64_t));
  comm.all_reduce(std::span<std::int64_t>(out.edges.front().n.data(), out.edges.size() * Edges::kinds),
                  Reduce::sum);
  return out;
}

bool at_corner(const std::vector<Run>& runs, const std::array<std::int64_t, 2>& corner) {
  return std::any_of(runs.begin(), runs.end(), [&](const Run& run) {
    return std::abs(run.row - corner[0]) <= 2 && run.begin <= corner[1] + 2 && run.end > corner[1] - 2;
  });
}

// All of a box and two samples around it.
std::vector<Run> filled(const Box& box, const Box& frame) {
  constexpr std::int64_t kRim = 2;
  const auto inside = [&](std::size_t d, std::int64_t v) {
    return std::clamp(v, frame.lo()[d], frame.hi()[d]);
  };
  std::vector<Run> out;
  for (std::int64_t row = inside(1, box.lo()[1] - kRim); row < inside(1, box.hi()[1] + kRim); ++row)
    out.push_back({row, inside(2, box.lo()[2] - kRim), inside(2, box.hi()[2] + kRim)});
  return out;
}

// `soft`: its edge was smoothed. Of text that is, not all of a letter has its value.
SharpArea area_of(const std::vector<Run>& runs, const Shape& shape, const Box& frame, double value,
                  bool soft) {
  constexpr std::int64_t kLetter = 64;
  const Box box({0, shape.row, shape.column}, {1, shape.row + shape.height, shape.column + shape.width});
  const bool letter = soft && !shape.at_frame && shape.longer() <= kLetter;
  std::vector<Run> all = runs;
  if (letter)
    all = filled(box, frame);
  else if (soft || !shape.at_frame)
    all = grown(runs, frame);
  return {.runs = std::move(all), .value = value, .box = box, .at_frame = shape.at_frame, .letter = letter};
}

// More of the same value beside such marks, as other letters of a text: there less is asked of their edges.
void add_beside(const Found& found, const NearPlane& plane, double value, std::vector<char> taken,
                std::vector<SharpArea>& out) {
  constexpr std::int64_t kGap = 24;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k].at_frame) continue;
    const Box near = out[k].box;
    const std::int64_t gap = kGap + std::min(near.extent(1), near.extent(2));
    for (std::size_t a = 0; a < found.edges.size(); ++a) {
      const Edges& e = found.edges[a];
      if (taken[a] != 0 || e.n[Edges::sharp2] < 3 || e.n[Edges::sharp2] <= e.n[Edges::blurred2]) continue;
      const Shape shape = shape_of(found.runs[a], plane.frame);
      if (shape.at_frame || shape.row > near.hi()[1] + gap || shape.row + shape.height < near.lo()[1] - gap ||
          shape.column > near.hi()[2] + gap || shape.column + shape.width < near.lo()[2] - gap)
        continue;
      taken[a] = 1;
      out.push_back(area_of(found.runs[a], shape, plane.frame, value, true));
    }
  }
}

// What lies between letters of a line belongs to them: thin strokes of smoothed text hardly reach its value.
void join_letters(const Box& frame, std::vector<SharpArea>& out) {
  constexpr std::int64_t kGap = 20, kSmall = 16;  // of larger ones the strokes are thick enough
  constexpr std::size_t kMost = 500;
  std::vector<Box> letters;
  double value = 0;
  for (const SharpArea& area : out) {
    if (!area.letter) continue;
    letters.push_back(area.box);
    value = area.value;
  }
  if (letters.size() > kMost) return;
  std::vector<Run> between;
  for (std::size_t i = 0; i < letters.size(); ++i)
    for (std::size_t j = 0; j < letters.size(); ++j) {
      const Box &a = letters[i], &b = letters[j];
      const bool one_line = a.lo()[1] < b.hi()[1] && b.lo()[1] < a.hi()[1],
                 next = b.lo()[2] >= a.lo()[2] && b.lo()[2] <= a.hi()[2] + kGap;
      if (i == j || !one_line || !next) continue;
      const Box all({0, std::min(a.lo()[1], b.lo()[1]), a.lo()[2]},
                    {1, std::max(a.hi()[1], b.hi()[1]), std::max(a.hi()[2], b.hi()[2])});
      if (all.extent(1) <= kSmall) between = both(std::move(between), filled(all, frame));
    }
  if (between.empty()) return;
  out.push_back({.runs = std::move(between), .value = value, .box = letters.front(), .letter = true});
}

}  // namespace

std::vector<SharpArea> sharp_areas(const NearPlane& plane, const Candidate& what, const EdgeKernel& kernel,
                                   const Communicator& comm) {
  constexpr std::int64_t kFew = 8, kEnough = 30;  // samples of an edge: of an area, and of all
  constexpr double kHaloBright = 0.04;
  const Found found = find_areas(plane, what, kernel, comm);
  std::vector<char> taken(found.edges.size(), 0);
  std::vector<SharpArea> out;
  std::int64_t seen = 0;
  double goes_on = 0, steps = 0;
  for (std::size_t a = 0; a < found.edges.size(); ++a) {
    const Edges& e = found.edges[a];
    if (e.n[Edges::sharp] + e.n[Edges::sharp2] == 0) continue;
    if (what.corner && !at_corner(found.runs[a], *what.corner)) continue;
    const Shape shape = shape_of(found.runs[a], plane.frame);
    const Verdict v = judge(e, shape, what, kernel);
    if (!v.any()) continue;
    const std::int64_t sharp = std::max(v.once ? e.n[Edges::sharp] : 0, v.twice ? e.n[Edges::sharp2] : 0);
    if (sharp >= kFew) seen += sharp;
    const bool first = v.once && e.n[Edges::sharp] >= e.n[Edges::sharp2];
    steps += first ? 0 : e.of(Edges::steps2);
    goes_on += first ? 0 : e.of(Edges::goes_on2);
    const bool soft = !v.once || (v.twice && 10 * e.of(Edges::sharp2) > 11 * e.of(Edges::sharp));
    taken[a] = 1;
    out.push_back(area_of(found.runs[a], shape, plane.frame, what.value, soft));
  }
  if (seen < kEnough || (what.bright && goes_on > kHaloBright * steps)) return {};
  if (what.corner) return out;
  add_beside(found, plane, what.value, std::move(taken), out);
  join_letters(plane.frame, out);
  return out;
}

bool has_sharp_steps(const NearPlane& plane, std::array<double, 2> ends, double noise, double range,
                     const EdgeKernel& kernel, const Communicator& comm) {
  constexpr std::int64_t kFew = 8;
  const double least = std::max(kOverNoise * noise, kLeastStep * range);
  std::int64_t found = 0;
  for (std::int64_t r = plane.block.lo()[1]; r < plane.block.hi()[1]; ++r)
    for (std::int64_t c = plane.block.lo()[2]; c < plane.block.hi()[2]; ++c) {
      if (plane.counted[plane.at(r, c)] == 0) continue;
      const auto here = static_cast<double>(plane.values[plane.at(r, c)]);
      for (const auto& way : kWays) {
        if (!kernel.tells[way[0] != 0 ? 0 : 1]) continue;
        const auto value = [&](std::int64_t far) {
          return static_cast<double>(plane.values[plane.at(r + far * way[0], c + far * way[1])]);
        };
        const auto counts = [&](std::int64_t far) {
          return plane.counted[plane.at(r + far * way[0], c + far * way[1])] != 0;
        };
        const double second = value(2), step = std::abs(second - here),
                     room = std::max(kFalls * step, kNoise * noise);
        if (step < least || !counts(2)) continue;
        const bool inside =
            here == ends[0] || here == ends[1] || !counts(-1) || std::abs(value(-1) - here) < room;
        // Beyond a sharp step the next ones are alike; beyond a smoothed one those after them.
        const bool outside = (counts(1) && std::abs(value(1) - second) < room) ||
                             (counts(3) && std::abs(value(3) - second) < room);
        found += inside && outside;
      }
    }
  comm.all_reduce(std::span<std::int64_t>(&found, 1), Reduce::sum);
  return found >= kFew;
}

}  // namespace tessera
