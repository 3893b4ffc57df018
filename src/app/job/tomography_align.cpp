// SPDX-License-Identifier: BSD-3-Clause
// What the samples of a scan tell of its geometry: the axis, a turned detector, views that stand aside.
#include "job/tomography_align.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "job/tomography_keys.hpp"
#include "tessera/physics/alignment.hpp"
#include "tessera/physics/ramp_filter.hpp"
#include "tessera/physics/rotation_axis.hpp"

namespace tessera {
namespace {

using namespace scan_keys;

// An axis on some rows: columns right of the middle.
struct PlacedAxis {
  double off = 0, error = 0;
  std::string problem{}, how{};
  bool wide = false;
};

std::vector<double> radians_of(const Scan& scan) {
  std::vector<double> angles;
  for (const double angle : scan.file.angles) angles.push_back(radians(angle));
  return angles;
}

// Of rays that stay in slices.
PlacedAxis axis_of_rows(const Options& o, const Scan& scan, const at::Tensor& rows) {
  PlacedAxis out;
  if (beam_of(o) != Beam::parallel) {
    const Aligned found = find_fan_axis(rows, circle_of(o));
    out.off = found.value;
    out.error = found.error;
    out.problem = found.problem;
    out.how = fmt::format("by rays from both sides, to about {:.2f}", std::max(found.error, 0.01));
    return out;
  }
  const RotationAxis axis = find_rotation_axis(rows, radians_of(scan));
  out.off = axis.column - 0.5 * static_cast<double>(scan.file.views.columns - 1);
  out.error = std::abs(axis.by_values - axis.by_edges) / 2;
  out.problem = axis.problem;
  out.wide = std::abs(axis.by_values - axis.by_edges) > 2;
  out.how = axis.by == RotationAxis::By::opposite ? "by views that are half a turn apart"
            : axis.by == RotationAxis::By::mass
                ? "by the views' centers of mass"
                : fmt::format("by their values {:.2f}, by their edges {:.2f}", axis.by_values, axis.by_edges);
  return out;
}

// The frame of a view, (rows, columns), float64; what says nothing follows from its neighbors.
at::Tensor frame_of(const Scan& scan, ScanReader& reader, std::size_t view) {
  const auto v = static_cast<std::int64_t>(view);
  const std::int64_t columns = scan.file.views.columns;
  SilentSamples silent;
  const Box box =
      scan.rows == 1 ? Box({0, v, 0}, {1, v + 1, columns}) : Box({v, 0, 0}, {v + 1, scan.rows, columns});
  const ScanSamples read = reader.read(box, silent);
  at::Tensor frame = at::tensor(read.y, at::kDouble).view({scan.rows, columns});
  if (!read.weights.empty())
    interpolate_unweighted(frame, at::tensor(read.weights, at::kDouble).view({scan.rows, columns}));
  return frame;
}

// Frames of views that stand half a turn apart, (pairs, 2, rows, columns). Half a turn that ends a step before it has begun
// again: its last view against what the first two say of one step before them.
at::Tensor opposite_frames(const Scan& scan, const Communicator& comm) {
  constexpr std::size_t kMost = 24;
  constexpr double kNear = 0.3;  // of a step
  const std::vector<double>& angles = scan.file.angles;
  const std::size_t n = angles.size();
  const double step = n > 2 ? std::abs(angles[n - 1] - angles[0]) / static_cast<double>(n - 1) : 0;
  std::vector<std::array<std::size_t, 2>> pairs;
  const auto off = [&](double a, double b) { return std::abs(std::remainder(a - b - 180, 360)); };
  for (std::size_t k = 0; step > 0 && k < n; ++k)
    for (std::size_t m = k + 1; m < n; ++m)
      if (off(angles[m], angles[k]) < kNear * step) pairs.push_back({k, m});
  const bool before =
      pairs.empty() && step > 0 && off(angles[n - 1], 2 * angles[0] - angles[1]) < kNear * step;
  if (before) pairs.push_back({0, n - 1});
  const std::size_t some = std::min(kMost, pairs.size());
  const std::int64_t columns = scan.file.views.columns;
  at::Tensor out = at::zeros({static_cast<std::int64_t>(some), 2, scan.rows, columns}, at::kDouble);
  comm.together([&] {
    ScanReader reader(scan);
    const auto frame = [&](std::size_t view) { return frame_of(scan, reader, view); };
    for (std::size_t k = 0; k < some; ++k) {
      const auto [one, other] = pairs[k * pairs.size() / some];
      at::Tensor pair = out[static_cast<std::int64_t>(k)];
      pair[0].copy_(before ? frame(0) * 2 - frame(1) : frame(one));
      pair[1].copy_(frame(other));
    }
  });
  return out;
}

// How a cone's detector is turned, from the frames of up to 360 views as means over squares.
Aligned turn_of_cone(const Options& o, const Scan& scan, const Communicator& comm) {
  constexpr std::int64_t kSide = 160;
  constexpr std::size_t kViews = 360;
  CircularScan circle = circle_of(o);
  const std::int64_t all[2] = {scan.rows, scan.file.views.columns};
  const std::int64_t larger = std::max<std::int64_t>(1, (std::max(all[0], all[1]) + kSide - 1) / kSide),
                     rows = all[0] / larger, columns = all[1] / larger;
  const auto by = static_cast<double>(larger);
  // What is left over at the end of rows and columns is left out.
  circle.detector_shift[0] =
      (circle.detector_shift[0] + 0.5 * static_cast<double>(columns * larger - all[1])) / by;
  circle.detector_shift[1] =
      (circle.detector_shift[1] + 0.5 * static_cast<double>(rows * larger - all[0])) / by;
  circle.axis_offset /= by;
  circle.column_pitch *= by;
  circle.row_pitch *= by;
  const std::size_t every = (circle.angles.size() + kViews - 1) / kViews;
  std::vector<double> angles;
  for (std::size_t k = 0; k < circle.angles.size(); k += every) angles.push_back(circle.angles[k]);
  circle.angles = std::move(angles);
  Aligned found;
  comm.together([&] {
    if (comm.rank() != 0) return;
    ScanReader reader(scan);
    at::Tensor frames = at::zeros({std::ssize(circle.angles), rows, columns}, at::kFloat);
    for (std::size_t k = 0; k < circle.angles.size(); ++k)
      frames[static_cast<std::int64_t>(k)].copy_(
          at::avg_pool2d(frame_of(scan, reader, k * every).unsqueeze(0), {larger, larger})[0]);
    found = find_cone_rotation(frames, circle);
  });
  found.problem = comm.broadcast(found.problem, 0);
  comm.broadcast(&found.value, sizeof(double), 0);
  comm.broadcast(&found.error, sizeof(double), 0);
  return found;
}

// detector.rotation of a parallel or a cone beam.
void look_for_turn(Options& o, Scan& scan, double off, bool wanted, std::vector<std::string>& notices,
                   const Communicator& comm) {
  constexpr double kLeans = 1, kErrors = 3;
  const bool parallel = beam_of(o) == Beam::parallel;
  if (scan.rows < 16 && !wanted) return;
  const Aligned found =
      parallel ? find_detector_rotation(opposite_frames(scan, comm), off) : turn_of_cone(o, scan, comm);
  const std::array<double, 2> pitch = pitches(o);
  const double said = o.number(rotation());
  if (wanted) {
    if (found.problem.empty() && pitch[0] == pitch[1]) {
      o.slot<double>(rotation()) = std::round(found.value * 1000) / 1000 + 0.0;
      notices.push_back(
          fmt::format("the detector is turned in its plane by {:.3f} degrees, to about {:.3f}, found by "
                      "{}: detector.rotation says otherwise",
                      found.value, std::max(found.error, 0.001),
                      parallel ? "views that are half a turn apart" : "rays from opposite sides"));
    } else {
      notices.push_back(
          concat("the detector is taken to be turned by ", said, " degrees (",
                 found.problem.empty() ? "its rows and columns are not equally far apart" : found.problem,
                 "): detector.rotation says otherwise"));
    }
    return;
  }
  const double leans =
      std::abs(std::tan(radians(found.value)) - std::tan(radians(said))) * static_cast<double>(scan.rows);
  if (!found.problem.empty() || leans < kLeans || std::abs(found.value - said) < kErrors * found.error)
    return;
  scan.warnings.push_back(
      fmt::format("the axis of rotation leans: by views that are half a turn apart it goes {:.2f} columns "
                  "aside from the first row "
                  "to the last (slices far from the middle are reconstructed about the wrong place) where "
                  "the detector or the axis "
                  "is turned in the detector's plane, write 'rotation: {:.2f}', degrees, to about {:.2f}, in "
                  "problem.operator.detector, or 'align: rotation'",
                  std::tan(radians(found.value)) * static_cast<double>(scan.rows), found.value,
                  std::max(found.error, 0.01)));
}

// What samples do not tell where one of some keys is not 0.
void refuse(const Options& o, const std::vector<Option>& keys, const std::string& what,
            const std::string& why) {
  for (const Option& key : keys)
    if (o.number(key) != 0)
      throw wrong(align().name, concat("asks for ", what, " (", key.name, " is ", o.number(key), ": ", why,
                                       ") leave ", what, " out"));
}

// detector.axis, where it is not said.
void place_axis(Options& o, const Scan& scan, const at::Tensor& looked, std::vector<std::string>& notices) {
  const bool across =
      o.number(lean()) == 0 && o.number(helix()) == 0 && o.number(tilt()) == 0 &&
      (beam_of(o) == Beam::parallel || (o.number(slant()) == 0 && o.number(row_shift()) == 0));
  PlacedAxis axis;
  if (across) axis = axis_of_rows(o, scan, looked);
  double& off = o.slot<std::optional<double>>(scan_keys::axis()).emplace(0);
  if (!across || !axis.problem.empty()) {
    notices.push_back(concat("the axis of rotation is taken to be in the middle of the detector (",
                             across ? axis.problem : "it is looked for in beams across it alone",
                             "): detector.axis says where it is"));
    return;
  }
  off = std::round(axis.off * 100) / 100 + 0.0;
  notices.push_back(fmt::format(
      "the axis of rotation is at column {:.2f}, {:.2f} {} of the middle, found in {} row{} ({}){}: "
      "detector.axis says otherwise",
      0.5 * static_cast<double>(scan.file.views.columns - 1) + off, std::abs(off), off < 0 ? "left" : "right",
      looked.size(0), looked.size(0) == 1 ? "" : "s", axis.how,
      axis.wide ? ", of which the edges hold, as where the object is wider than the detector" : ""));
}

// views.shifts, from the rows amid the detector, which of a cone are about those of a fan.
bool find_shifts(Options& o, const Scan& scan, const at::Tensor& looked, bool place,
                 std::vector<std::string>& notices, const Communicator& comm) {
  constexpr std::int64_t kSide = 640;
  refuse(o, {lean(), helix(), tilt(), slant(), row_shift()}, "shifts",
         "no row sees a slice, in which they are looked for");
  CircularScan circle = circle_of(o);
  if (circle.beam == Beam::cone) circle.beam = Beam::fan;
  circle.rotation = 0;
  circle.rows = 1;
  circle.columns = scan.file.views.columns;
  const std::int64_t larger = (circle.columns + kSide - 1) / kSide,
                     side = (circle.columns + larger - 1) / larger;
  const ColumnScale scale = column_scale(o);
  const double voxel = static_cast<double>(larger) * scale.pitch / scale.magnified;
  ViewShifts found;
  bool pairs = false;
  comm.together([&] {
    if (comm.rank() != 0) return;
    const at::Tensor row = looked.mean(0).contiguous();
    if (circle.beam == Beam::fan) found = find_fan_shifts(row, circle, place);
    pairs = circle.beam == Beam::fan && found.problem.empty();
    if (!pairs)
      found =
          find_view_shifts(row, circular_geometry(circle, {{1, side, side}, {voxel, voxel, voxel}}), place);
  });
  found.problem = comm.broadcast(found.problem, 0);
  found.columns.resize(scan.file.angles.size());
  comm.broadcast(found.columns.data(), static_cast<std::int64_t>(found.columns.size() * sizeof(double)), 0);
  comm.broadcast(&found.error, sizeof(double), 0);
  comm.broadcast(&found.axis, sizeof(double), 0);
  comm.broadcast(&pairs, sizeof(bool), 0);
  if (!found.problem.empty()) {
    notices.push_back(concat("no view is taken to stand aside (", found.problem, ")"));
    return false;
  }
  if (place) *o.slot<std::optional<double>>(axis()) += std::round(found.axis * 100) / 100;
  double most = 0, squares = 0;
  for (double& shift : found.columns) {
    shift = std::round(shift * 1000) / 1000 + 0.0;
    most = std::max(most, std::abs(shift));
    squares += shift * shift;
  }
  notices.push_back(
      fmt::format("views stand aside by {:.2f} columns on average and {:.2f} at most, found by {}, "
                  "each to about {:.2f}{}: "
                  "views.shifts says otherwise",
                  std::sqrt(squares / static_cast<double>(found.columns.size())), most,
                  pairs ? "rays from both sides" : "reprojection", std::max(found.error, 0.01),
                  place ? fmt::format(", and the axis {:.2f} columns right of the middle",
                                      *o.get<std::optional<double>>(axis()))
                        : ""));
  o.slot<std::vector<double>>(shifts()) = std::move(found.columns);
  return true;
}

}  // namespace

bool align_scan(Options& o, Scan& scan, const at::Tensor& looked, const std::string& wanted,
                std::vector<std::string>& notices, const Communicator& comm) {
  const bool said = o.get<std::optional<double>>(axis()).has_value(),
             turn = wanted == "rotation" || wanted == "both", aside = wanted == "shifts" || wanted == "both";
  if (!said) place_axis(o, scan, looked, notices);
  const bool found = aside && find_shifts(o, scan, looked, !said, notices, comm);
  const std::vector<Option> level{lean(), helix(), tilt(), slant()};
  if (turn) refuse(o, level, "a rotation", "rays from opposite sides do not meet");
  const bool flat = std::ranges::all_of(level, [&](const Option& key) { return o.number(key) == 0; });
  if (turn || (!said && flat && beam_of(o) == Beam::parallel))
    look_for_turn(o, scan, *o.get<std::optional<double>>(axis()), turn, notices, comm);
  return found;
}

}  // namespace tessera
