// SPDX-License-Identifier: BSD-3-Clause
// Whether the views of a scan follow each other as their angles say, and are frames of an upright axis.
#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scan_sense.hpp"

namespace tessera {
namespace {

// How much two views differ: what a fifth of their parts differ by at least, squared. Bright specks have fewer of them.
double square_apart(const at::Tensor& parts, std::int64_t a, std::int64_t b) {
  const std::int64_t n = parts.size(1);
  const double *from = parts.const_data_ptr<double>() + a * n, *to = parts.const_data_ptr<double>() + b * n;
  std::vector<double> all(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = std::abs(from[i] - to[i]);
  const auto place = all.begin() + n * 4 / 5;
  std::nth_element(all.begin(), place, all.end());
  return *place * *place;
}

// The mean of steps without the longest, as beside a view that is spoiled.
double usual_step(std::vector<double> steps) {
  constexpr std::ptrdiff_t kKept = 9;  // of 10
  std::sort(steps.begin(), steps.end());
  const std::ptrdiff_t kept = std::ssize(steps) * kKept / 10;
  return std::accumulate(steps.begin(), steps.begin() + kept, 0.0) / static_cast<double>(kept);
}

// Of the steps between views in this order.
double square_step(const at::Tensor& parts, const std::vector<std::int64_t>& order) {
  std::vector<double> steps;
  for (std::size_t k = 1; k < order.size(); ++k) steps.push_back(square_apart(parts, order[k - 1], order[k]));
  return usual_step(std::move(steps));
}

// Of a way from the first view to the nearest that is left, and so on.
double least_step(const at::Tensor& parts) {
  const std::int64_t n = parts.size(0);
  std::vector<double> steps;
  std::vector<bool> seen(static_cast<std::size_t>(n));
  for (std::int64_t at = 0, next = 0; std::ssize(steps) < n - 1; at = next) {
    seen[static_cast<std::size_t>(at)] = true;
    double least = INFINITY;
    for (std::int64_t k = 0; k < n; ++k) {
      if (seen[static_cast<std::size_t>(k)]) continue;
      if (const double to = square_apart(parts, at, k); to < least) {
        least = to;
        next = k;
      }
    }
    if (!std::isfinite(least)) return 0;
    steps.push_back(least);
  }
  return usual_step(std::move(steps));
}

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Where view k stands among n whose names are the numbers from `first` on, sorted as words.
std::vector<std::int64_t> places_by_name(std::int64_t n, std::int64_t first) {
  std::vector<std::int64_t> by_name = counted(n), out(by_name);
  std::sort(by_name.begin(), by_name.end(), [&](std::int64_t a, std::int64_t b) {
    return std::to_string(a + first) < std::to_string(b + first);
  });
  for (std::int64_t k = 0; k < n; ++k)
    out[static_cast<std::size_t>(by_name[static_cast<std::size_t>(k)])] = k;
  return out;
}

// Deviation of white noise: what columns differ by from the mean of those beside them.
double noise_beside(const at::Tensor& y) {
  const std::int64_t n = y.size(-1) - 2;
  const at::Tensor fine = y.narrow(-1, 1, n) - (y.narrow(-1, 0, n) + y.narrow(-1, 2, n)) / 2;
  return fine.abs().median().item<double>() / 0.6745 / std::sqrt(1.5);
}

// Means over some columns, (views, parts), without the line between both ends of each view: its light is not asked here.
// `floor`: what square_apart() finds of noise alone.
at::Tensor parts_of(const ScanRows& look, double& floor) {
  constexpr std::int64_t kParts = 48;
  const std::int64_t views = look.y.size(1), columns = look.y.size(2);
  at::Tensor p = look.y.mean(0);
  const std::int64_t ends = std::min<std::int64_t>(9, columns / 8);
  const at::Tensor left = std::get<0>(p.narrow(1, 0, ends).median(1, true)),
                   right = std::get<0>(p.narrow(1, columns - ends, ends).median(1, true));
  p = p - left - (right - left) * at::linspace(0, 1, columns, at::kDouble);
  const std::int64_t wide = std::max<std::int64_t>(1, columns / kParts), count = columns / wide;
  const double noise = noise_beside(p);
  floor = 1.64 * 2 * noise * noise / static_cast<double>(wide);
  return p.narrow(1, 0, count * wide).reshape({views, count, wide}).mean(2).contiguous();
}

}  // namespace

void judge_order(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kViews = 24, kMost = 512;
  constexpr double kFar = 3, kNoise = 4;
  const std::int64_t views = look.y.size(1), columns = look.y.size(2);
  if (views < kViews || columns < 16) return;
  double floor = 0;
  const at::Tensor parts = parts_of(look, floor);
  std::vector<std::int64_t> by_angle = counted(views);
  const auto turned = [&](std::int64_t k) {
    const double angle = std::fmod(scan.file.angles[static_cast<std::size_t>(k)], 360);
    return angle < 0 ? angle + 360 : angle;
  };
  std::stable_sort(by_angle.begin(), by_angle.end(),
                   [&](std::int64_t a, std::int64_t b) { return turned(a) < turned(b); });
  const double here = std::min(square_step(parts, by_angle), square_step(parts, counted(views)));
  if (!(here > kNoise * floor)) return;
  const double least =
      std::max(least_step(parts.narrow(0, 0, std::min(views, kMost)).contiguous()), floor / 2);
  if (!(here > kFar * least)) return;
  bool names = false;
  for (const std::int64_t first : {0, 1})
    names = names || square_step(parts, places_by_name(views, first)) < here / kFar;
  scan.warnings.push_back(fmt::format(
      "the views are not in the order of their angles{} (those whose angles follow each other differ {:.1f} "
      "times as much as views that are alike) {}",
      names ? ", but as names with numbers are sorted: 1, 10, 100, 11" : "", std::sqrt(here / least),
      names ? "sort the files by their numbers before they become one"
            : "put them in that order, or list the angle of each in views.angles"));
}

void judge_returns(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kViews = 24, kMost = 5;
  constexpr double kJump = 16, kSame = 2;  // squares
  const std::int64_t views = look.y.size(1);
  if (views < kViews || look.y.size(2) < 16) return;
  double floor = 0;
  const at::Tensor parts = parts_of(look, floor);
  const double step = std::max(square_step(parts, counted(views)), floor);
  std::string which;
  std::int64_t n = 0;
  for (std::int64_t k = views - 1; k >= views - kMost; --k) {
    if (square_apart(parts, k, k - 1) < kJump * step) break;
    std::int64_t like = 0;
    for (std::int64_t j = 1; j < views - kMost; ++j)
      if (square_apart(parts, k, j) < square_apart(parts, k, like)) like = j;
    const auto angle = [&](std::int64_t v) { return scan.file.angles[static_cast<std::size_t>(v)]; };
    const double usual =
        std::abs(angle(views - kMost - 1) - angle(0)) / static_cast<double>(views - kMost - 1);
    if (square_apart(parts, k, like) > kSame * step ||
        std::abs(std::remainder(angle(k) - angle(like), 360)) < 2 * usual)
      break;
    which = std::to_string(like) + (n > 0 ? " and " : "") + which;
    ++n;
  }
  if (n == 0) return;
  scan.warnings.push_back(
      fmt::format("the last {} like {} (counted from 0), {} angle{} (a scan that goes back at its end, to "
                  "see whether the object "
                  "moved) take {} out of the file, and spread angles over the others alone",
                  n == 1 ? std::string("view is") : fmt::format("{} views are", n), which,
                  n == 1 ? "at another" : "at other", n == 1 ? "" : "s", n == 1 ? "it" : "them"));
}

namespace {

// What sums differ by along an axis, of what they are on average.
double spread_along(const at::Tensor& sums, std::int64_t axis) {
  const double mean = sums.mean().item<double>();
  return mean > 0 ? std::sqrt((sums - sums.mean(axis, true)).square().mean().item<double>()) / mean
                  : INFINITY;
}

}  // namespace

// An object has one mass in all views, and so has each of its slices. Whole frames are read only where the looked rows'
// masses differ.
void judge_frames(Scan& scan, const ScanRows& look, const Communicator& comm) {
  constexpr std::int64_t kViews = 8, kEnds = 2;
  constexpr double kUneven = 0.04, kEven = 0.03, kLess = 0.25, kAir = 0.03;
  const FrameStack& stack = scan.file.views;
  const std::int64_t views = look.y.size(1), columns = look.y.size(2), rows = stack.rows;
  if (views < 2 * kViews || columns < 16 || rows < 16 || !(spread_along(look.y.sum(2), 1) > kUneven)) return;
  std::vector<at::Tensor> over_columns, over_rows;
  for (std::int64_t k = 0; k < kViews; ++k) {
    const auto view = static_cast<std::size_t>(k * (views - 1) / (kViews - 1));
    Scan one = scan;
    one.first_row = 0;
    one.rows = rows;
    one.file.views.frames = {stack.frames[view]};
    if (!scan.file.weights.empty()) one.file.weights.frames = {scan.file.weights.frames[view]};
    const at::Tensor frame = scan_rows(one, 0, rows, comm).y.select(1, 0);
    over_columns.push_back(frame.sum(1));
    over_rows.push_back(frame.sum(0));
  }
  const at::Tensor slices = at::stack(over_columns),
                   across = at::stack(over_rows);  // (views, rows), (views, columns)
  const double right = spread_along(slices, 0), turned = spread_along(across, 0),
               second = spread_along(slices, 1);
  const auto air = [&](const at::Tensor& sums) {
    const double most = kAir * sums.amax().item<double>();
    return sums.narrow(1, 0, kEnds).abs().mean().item<double>() < most &&
           sums.narrow(1, sums.size(1) - kEnds, kEnds).abs().mean().item<double>() < most;
  };
  const auto instead = [&](double other) {
    return right > kUneven && other < kEven && other < kLess * right;
  };
  if (instead(turned) && air(slices))
    scan.warnings.push_back(
        fmt::format("the axis of rotation lies along the rows of the frames of {} (sums over what should be "
                    "slices differ by {:.2g} % "
                    "from view to view, sums over their columns by {:.2g} %, and each slice of an object has "
                    "one mass) write the "
                    "frames transposed",
                    stack.path, 100 * right, 100 * turned));
  else if (instead(second) && air(across))
    scan.warnings.push_back(
        fmt::format("{} looks like sinograms (sums over what should be views differ by {:.2g} %, along the "
                    "second axis by {:.2g} %, "
                    "and views of one object have one mass) write it as (views, rows, columns)",
                    stack.path, 100 * right, 100 * second));
}

}  // namespace tessera
