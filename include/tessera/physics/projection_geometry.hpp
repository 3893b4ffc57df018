// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/core/box.hpp"
#include "tessera/core/words.hpp"

namespace tessera {

/// A point or a step, (x, y, z) in physical units: x along columns, y along rows (down), z along depth. The
/// middle of the volume is the origin.
using Vector3 = std::array<double, 3>;

/// parallel: all rays of a view have one direction. fan: every row of the detector has a source of its own,
/// in its plane. cone: one source.
enum class Beam { parallel, fan, cone };
template <>
inline constexpr std::array kWords<Beam>{"parallel", "fan", "cone"};

/// One view: sample (row j, column i) is the integral along the ray through
///   center + (i - (columns - 1) / 2) u + (j - (rows - 1) / 2) v.
struct ProjectionView {
  Vector3 source{};  // parallel: the direction of the rays, of any length; fan: of the middle row
  Vector3 center{};  // of the detector
  Vector3 u{};       // from one column to the next
  Vector3 v{};       // from one row to the next; fan: along z
};

/// The voxels: voxel (d, h, w) stands at ((w - (W - 1) / 2) x, (h - (H - 1) / 2) y, (d - (D - 1) / 2) z).
struct VolumeGrid {
  Index3 size{1, 1, 1};    // D, H, W; a picture has one slice
  Vector3 voxel{1, 1, 1};  // sides x, y, z, physical units
  Box box() const { return {{0, 0, 0}, size}; }
};

/// All that a projector needs. Plain data; samples are addressed by boxes (view, row, column).
struct ProjectionGeometry {
  Beam beam = Beam::parallel;
  VolumeGrid volume;
  std::int64_t rows = 1, columns = 1;  // of the detector
  std::vector<ProjectionView> views;
  Vector3
      axis{};  // a point of the axis of rotation, which goes along z: by it alone is a reconstruction direct
  Box samples() const { return {{0, 0, 0}, {static_cast<std::int64_t>(views.size()), rows, columns}}; }
};

/// A scan on a circle or a helix around the z axis.
///
/// At angle t a parallel beam has u along (cos t, -sin t) and rays along (sin t, cos t); the source of a
/// fan or a cone stands at source_axis (sin t, cos t): on the side of the last row at 0. ASTRA (parallel,
/// fanflat), mbirjax, RTK and scikit-image turn the same way.
struct CircularScan {
  Beam beam = Beam::parallel;
  std::vector<double> angles;  // radians
  double source_axis = 0;      // distance from the source to the axis; fan and cone
  double source_detector = 0;  // and to the detector; fan and cone
  std::int64_t rows = 1, columns = 1;
  double column_pitch = 1, row_pitch = 1;
  double axis_offset = 0;                  // columns by which the axis' image stands right of the middle: the
                                           // axis is not on the line from source to the detector's middle
  std::array<double, 2> detector_shift{};  // columns, rows by which the detector stands off that line
  double helical_pitch = 0;                // of source and detector along z in a full turn, from angle 0 on
  // Radians, about the point where the line from source to axis meets the detector, in this order: rotation takes the
  // steps along columns toward those along rows; by tilt the last rows, by slant the last columns come nearer to the source.
  double rotation = 0, tilt = 0, slant = 0;
  double lean =
      0;  // by which the axis leans toward the source: the source stands on the side of the last slices
  std::array<double, 2> center{};  // x, y where the axis passes the volume, from its middle
};

/// Errors: InputError where distances, pitches or sizes are impossible.
ProjectionGeometry circular_geometry(const CircularScan& scan, const VolumeGrid& volume);

/// From 12 numbers a view: direction (parallel) or source, detector center, u, v, as in ASTRA's
/// parallel3d_vec and cone_vec. Errors: InputError, see validate().
ProjectionGeometry vector_geometry(Beam beam, const std::vector<std::array<double, 12>>& views,
                                   std::int64_t rows, std::int64_t columns, const VolumeGrid& volume);

/// InputError where a number is not finite, the detector is a line or seen from the side, or the source
/// stands inside of the volume or beside it as the detector does.
void validate(const ProjectionGeometry& geometry);

/// Of a view: distance from source to detector over that from source to the axis, across the detector.
/// Parallel: 1.
double magnification(const ProjectionGeometry& geometry, std::int64_t view);

/// What all views see whole: the radius of a disk around the z axis, and the height on the axis. 0: not
/// even the axis.
struct FieldOfView {
  double radius = 0, height = 0;
};
FieldOfView field_of_view(const ProjectionGeometry& geometry);

/// Column and row (not rounded) where a point is seen.
std::array<double, 2> project_point(const ProjectionGeometry& geometry, std::int64_t view,
                                    const Vector3& point);

/// The samples (view, row, column) whose rays have a weight above 0 for a voxel of the block: a bounding
/// box, at most a sample wider on each side than it must be (two where z is the main direction of some
/// rays). Empty: none.
Box shadow(const ProjectionGeometry& geometry, const Box& block, std::int64_t view);
/// The same for views [first, last): the smallest box of all.
Box shadow(const ProjectionGeometry& geometry, const Box& block, std::int64_t first, std::int64_t last);

}  // namespace tessera
