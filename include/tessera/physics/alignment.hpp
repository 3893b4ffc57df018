// SPDX-License-Identifier: BSD-3-Clause
// What of a scan's geometry its samples tell, but for the axis of a parallel beam (rotation_axis.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// A number found in samples.
struct Aligned {
  double value = 0, error = 0;  // error: its standard error, by groups of views
  std::string problem = {};     // why none is found; else empty
};

/// detector.axis of a fan, or of a cone's rows amid its detector: the columns by which source and detector stand aside of
/// the axis together, right of the middle if above 0.
///
/// A line is seen by two rays, from both of its sides: that of column angle g from angle t comes again at -g - 2 d from
/// t - 2 g - 2 d + pi, where tan d is the distance aside over source_axis. The offset is that for which the samples of
/// both, as differences over a few columns, resemble each other the most; half a turn and the detector's angle suffice.
/// Rows are smoothed first, so that values between columns are as noisy as those on them.
///
/// `rows`: (rows, views, columns), float64 on the host, line integrals. `scan`: axis_offset is not used. Not collective.
Aligned find_fan_axis(const at::Tensor& rows, const CircularScan& scan);

/// How unlike rays are that are seen from both sides, as find_fan_axis() compares them: 0 the same, 1 unlike, 2 there are none;
/// the least of axes up to 2 columns beside scan.axis_offset. A source far away makes a parallel beam. Not collective.
double opposite_unlikeness(const at::Tensor& rows, const CircularScan& scan);

/// Where the first view of a turn, or of half a parallel one, of which its mirror image counts, stands once more: steps behind
/// the last view, as the samples and as the angles have it.
///
/// The means of a few views at both ends and their slopes outside of these, smoothed rows, give the way between both in steps,
/// by least squares, beside what an axis that is a little off and another light do. Slopes of either end multiplied with
/// those of the other have no bias by noise. `rows`: (rows, views, columns), float64 on the host, line integrals. `angles`:
/// radians, evenly apart. `axis`: the column about which half a turn is mirrored; none: a whole turn. Not collective.
struct TurnGap {
  double found = 0, said = 0, error = 0;  // error: of found, by what is left
  std::string problem = {};               // why none is found; else empty
};
TurnGap find_turn_gap(const at::Tensor& rows, const std::vector<double>& angles, std::optional<double> axis);

/// Degrees by which the detector of a parallel beam is turned in its plane, its axis `axis` columns right of the middle: that
/// for which views from opposite sides, turned back, are mirror images of each other. (Axes found row by row tell less than
/// the whole: a turned row crosses slices.) `frames`: (pairs, 2, rows, columns), float64 on the host, line integrals.
/// Up to 12 degrees. Not collective.
Aligned find_detector_rotation(const at::Tensor& frames, double axis);

/// Degrees by which the detector of a cone is turned in its plane, about where the line from source to axis meets it: that for
/// which rays from opposite sides, which cross beside the axis as steep as each other, see the same. They do but for how the
/// object changes along its axis on the way from one to the other. `frames`: (views, rows, columns), float32 on the host,
/// line integrals. `scan`: a circle, axis_offset to a few columns; rotation, rows and columns are not used. Not collective.
Aligned find_cone_rotation(const at::Tensor& frames, const CircularScan& scan);

/// Columns by which each view stands right of where the geometry has it, by reprojection: the picture of all views is
/// projected, each view is moved onto its projection, and so on until nothing moves. What a moved object would do (cosine
/// and sine of the angle) is not among them, nor is a constant: `axis` asks for the axis too, that which leaves the least.
///
/// `row`: (views, columns), float64 on the host; a parallel beam or a fan, whose FBP is not refused. `error`: of one view,
/// from the last residual. Not collective. Source: F. Dengler, Ultramicroscopy 30 (1989) 337.
struct ViewShifts {
  std::vector<double> columns;
  double axis = 0;  // columns by which the axis stands right of where the geometry has it
  double error = 0;
  std::string problem = {};
};
ViewShifts find_view_shifts(const at::Tensor& row, const ProjectionGeometry& geometry, bool axis);

/// The same of fans that see rays from both sides in all views: those shifts for which both see the same, least squares.
/// (By reprojection what moves opposite views' edges against each other and apart, a wave of the angle that depends on how
/// far from the axis the edges are, hardly leaves a trace.) `scan`: axis_offset to a few columns; not more than 4,000 views.
ViewShifts find_fan_shifts(const at::Tensor& row, const CircularScan& scan, bool axis);

}  // namespace tessera
