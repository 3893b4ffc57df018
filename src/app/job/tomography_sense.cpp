// SPDX-License-Identifier: BSD-3-Clause
// Whether the samples of a scan are as its angles and its beam say.
#include "job/tomography_sense.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "job/tomography_keys.hpp"
#include "tessera/physics/alignment.hpp"

namespace tessera {
namespace {

using namespace scan_keys;

// Views that a count alone spreads over a turn, whose steps would be round numbers if both of its ends were counted.
void ask_for_both_ends(const Options& o, const std::vector<double>& angles, Scan& scan) {
  const auto n = static_cast<double>(angles.size());
  if (!o.get<std::vector<double>>(listed()).empty() || !o.get<std::string>(angle_file()).empty() ||
      o.get<std::int64_t>(count()) == 0 || o.get<std::optional<double>>(last()) || n < 3)
    return;
  const double from = o.number(first()), to = beam_of(o) == Beam::parallel ? 180 : 360;
  const auto is_round = [](double step) { return std::abs(20 * step - std::round(20 * step)) < 1e-9; };
  const double both = (to - from) / (n - 1), step = (to - from) / n;
  if (!is_round(both) || is_round(step)) return;
  scan.warnings.push_back(
      fmt::format("{} views are taken to stand {:.4g} degrees apart, from {:g} to {:.6g} (views.count goes "
                  "to just before the "
                  "end; with both ends of the turn counted they would be {:g} apart, a round number) if so, "
                  "write 'last: {:g}' "
                  "in problem.operator.views, where the view after the last would stand, else 'last: {:g}'",
                  angles.size(), step, from, angles.back(), both, to + both, to));
}

// Where nothing but the axis' place makes rays meet from both sides.
bool stays_in_slices(const Options& o) {
  for (const Option& key : {lean(), helix(), tilt(), slant(), row_shift()})
    if (o.number(key) != 0) return false;
  return true;
}

// How far the first view of a turn, or of half a one, stands behind the last, where the samples tell it surely.
std::optional<TurnGap> sure_gap(const Options& o, const at::Tensor& rows, const Scan& scan, double& turn) {
  constexpr double kSure = 0.15;
  std::vector<double> all;
  for (const double angle : scan.file.angles) all.push_back(radians(angle));
  const double middle = 0.5 * static_cast<double>(rows.size(2) - 1) + *o.get<std::optional<double>>(axis());
  for (const bool half : {false, true}) {
    if (half && beam_of(o) != Beam::parallel) break;
    turn = half ? 180 : 360;
    const TurnGap gap = find_turn_gap(rows, all, half ? std::optional(middle) : std::nullopt);
    if (gap.problem.empty()) return gap.error < kSure ? std::optional(gap) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void judge_turn(const Options& o, const Options& asked, const std::vector<double>& angles,
                const at::Tensor& rows, Scan& scan) {
  constexpr double kOff = 0.65, kFar = 1.6, kErrors = 4;
  double turn = 360;
  const std::optional<TurnGap> gap = stays_in_slices(o) ? sure_gap(o, rows, scan, turn) : std::nullopt;
  if (!gap) {
    ask_for_both_ends(asked, angles, scan);
    return;
  }
  const double off = gap->found - gap->said;
  if (std::abs(off) < std::max(kOff, kErrors * gap->error) || std::abs(off) > kFar) return;
  const std::vector<double>& each = scan.file.angles;
  const auto n = static_cast<double>(each.size());
  const double way = each.back() > each.front() ? 1 : -1, behind = std::round(gap->found),
               last_view = each.front() + way * turn * n / (n - 1 + behind);
  scan.warnings.push_back(fmt::format(
      "the first view{} stands {:.1f} views behind the last, as they show, and {:.1f} by their angles, {:g} "
      "to "
      "{:.6g} ({}: slices are smeared towards their rim) write 'views: {{first: {:g}, last: {:.8g}}}' in "
      "problem.operator",
      turn < 360 ? ", mirrored, as half a turn later," : ", a turn later,", gap->found + 0.0, gap->said + 0.0,
      each.front(), each.back(),
      off < 0 ? "both ends of the turn are among the views, and the angles count one of them"
              : "the views end a step before the turn does, and the angles go to its end",
      each.front(), last_view));
}

void judge_rays(const Options& o, const at::Tensor& rows, Scan& scan) {
  constexpr std::int64_t kViews = 24, kColumns = 32;
  constexpr double kLess = 0.5, kAlike = 0.6, kOpens = 0.25;
  constexpr std::array<double, 9> kFar{1, 1.5, 2, 3, 4, 6, 8, 12, 16};  // of the detector's width
  const std::int64_t columns = rows.size(2);
  if (rows.size(1) < kViews || columns < kColumns || !stays_in_slices(o)) return;
  CircularScan said = circle_of(o);
  const at::Tensor row = rows.mean(0, true);
  const double wide = said.column_pitch * static_cast<double>(columns);
  const bool parallel = said.beam == Beam::parallel;
  if (parallel) said.source_detector = 1e6 * wide;
  const double here = opposite_unlikeness(row, said);
  double least = here, far = said.source_detector;
  bool turned = false;
  for (const bool other : {false, true}) {
    CircularScan scan_so = said;
    if (other)
      for (double& angle : scan_so.angles) angle = -angle;
    for (const double times : kFar) {
      scan_so.source_detector = times * wide;
      if (const double is = opposite_unlikeness(row, scan_so); is < least) {
        least = is;
        far = scan_so.source_detector;
        turned = other;
      }
    }
  }
  if (least > kLess * here || least > kAlike) return;
  const auto opens = [&](double distance) {
    return 360 / std::numbers::pi * std::atan(0.5 * wide / distance);
  };
  if (parallel) {
    scan.warnings.push_back(fmt::format(
        "views half a turn apart are not mirror images of each other, as a parallel beam's are, and rays of "
        "a "
        "beam that opens by about {:.2g} degrees over the detector are alike from both sides (a laboratory's "
        "source: sizes and edges are wrong) write 'beam: {}, source_axis: ..., source_detector: ...' in "
        "problem.operator",
        opens(far), scan.rows == 1 ? "fan" : "cone"));
    return;
  }
  if (turned) {
    scan.warnings.push_back(fmt::format(
        "rays that two views see from opposite sides are {:.1f} times as much alike if the views turn the "
        "other "
        "way (angles of the object in place of the source's, or columns that are stored mirrored) write the "
        "angles with the other sign, as 'views: {{first: 0, last: -360}}'; where columns are stored "
        "mirrored, turn those: else "
        "the image is mirrored",
        here / least));
    return;
  }
  const double by = opens(far) / opens(said.source_detector);
  if (std::abs(std::log(by)) > kOpens)
    scan.warnings.push_back(
        fmt::format("rays that two views see from opposite sides are {:.1f} times as much alike if the beam "
                    "opens by about "
                    "{:.2g} degrees over the detector, not by {:.2g} (source_detector or detector.pitch in "
                    "another unit, or "
                    "of columns before they were binned) write source_axis, source_detector and "
                    "detector.pitch as they were",
                    here / least, opens(far), opens(said.source_detector)));
}

}  // namespace tessera
