// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/projection_geometry.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "projector/ray.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

Vector3 minus(const Vector3& a, const Vector3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Vector3 along(const Vector3& a, double t, const Vector3& b) {
  return {a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]};
}
double dot(const Vector3& a, const Vector3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double norm(const Vector3& a) { return std::sqrt(dot(a, a)); }
bool finite(const Vector3& a) { return std::isfinite(a[0]) && std::isfinite(a[1]) && std::isfinite(a[2]); }

void check_sizes(const ProjectionGeometry& g) {
  TESSERA_VALIDATE(g.rows > 0 && g.columns > 0, "a detector of ", g.rows, " x ", g.columns,
                   " samples (it measures nothing) give rows and columns of at least 1");
  TESSERA_VALIDATE(!g.views.empty(), "a scan without views (it measures nothing) give at least one angle");
  for (std::size_t d = 0; d < 3; ++d) {
    TESSERA_VALIDATE(g.volume.size[d] > 0, "a volume of ", g.volume.size[0], " x ", g.volume.size[1], " x ",
                     g.volume.size[2], " voxels (there is nothing to see) give sides of at least 1");
    TESSERA_VALIDATE(std::isfinite(g.volume.voxel[d]) && g.volume.voxel[d] > 0, "a voxel side of ",
                     g.volume.voxel[d],
                     " (a length is above 0) give the voxel's size in the unit of the distances");
  }
}

// Corners of what a block's voxel centers span, grown by some voxels along each axis.
template <class Visit>
void for_corners(const VolumeGrid& grid, const Box& block, const Index3& grown, Visit visit) {
  for (int corner = 0; corner < 8; ++corner) {
    Vector3 p{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t index =
          corner >> axis & 1 ? block.hi()[axis] - 1 + grown[axis] : block.lo()[axis] - grown[axis];
      p[2 - axis] = (static_cast<double>(index) - 0.5 * static_cast<double>(grid.size[axis] - 1)) *
                    grid.voxel[2 - axis];
    }
    visit(p);
  }
}

// Distance from the source across the detector, in units of the detector's distance.
double depth_of(const ProjectionView& view, const Vector3& point) {
  const Vector3 n = cross(view.u, view.v);
  return dot(minus(point, view.source), n) / dot(minus(view.center, view.source), n);
}

void check_view(const ProjectionGeometry& g, std::size_t index) {
  const ProjectionView& view = g.views[index];
  TESSERA_VALIDATE(finite(view.source) && finite(view.center) && finite(view.u) && finite(view.v), "view ",
                   index,
                   " has a number that is not finite (no ray follows from it) correct its angle or vectors");
  const Vector3 n = cross(view.u, view.v);
  TESSERA_VALIDATE(norm(n) > 1e-9 * norm(view.u) * norm(view.v) && norm(n) > 0, "the detector of view ",
                   index,
                   " is a line or a point (its steps along rows and columns have one direction or no length) "
                   "correct the pitch");
  const Vector3 way = g.beam == Beam::parallel ? view.source : minus(view.center, view.source);
  TESSERA_VALIDATE(std::abs(dot(way, n)) > 1e-9 * norm(n) * norm(way), "the detector of view ", index,
                   " is seen from the side (no ray meets it) correct the direction of rays or detector");
  if (g.beam == Beam::parallel) return;
  TESSERA_VALIDATE(
      g.beam == Beam::cone || (view.v[0] == 0 && view.v[1] == 0 && view.u[2] == 0 && way[2] == 0), "view ",
      index,
      " of a fan beam leaves its plane (the rows of its detector are to stand along z) use beam: cone");
  for_corners(g.volume, g.volume.box(), {1, 1, 1}, [&](const Vector3& corner) {
    TESSERA_VALIDATE(depth_of(view, corner) > 1e-6, "the source of view ", index, " at (", view.source[0],
                     ", ", view.source[1], ", ", view.source[2],
                     ") is not in front of the whole volume (a ray would begin inside it) enlarge the "
                     "distance from source to axis, or reduce volume or voxel size");
  });
}

}  // namespace

void validate(const ProjectionGeometry& geometry) {
  check_sizes(geometry);
  for (std::size_t k = 0; k < geometry.views.size(); ++k) check_view(geometry, k);
}

namespace {

// The detector's steps along columns and rows, of unit length, by how far they go across, toward the source and down.
std::array<Vector3, 2> turned_detector(const CircularScan& scan) {
  std::array<Vector3, 2> steps{Vector3{std::cos(scan.rotation), 0, std::sin(scan.rotation)},
                               Vector3{-std::sin(scan.rotation), 0, std::cos(scan.rotation)}};
  const double ct = std::cos(scan.tilt), st = std::sin(scan.tilt), cs = std::cos(scan.slant),
               ss = std::sin(scan.slant);
  for (auto& [x, y, z] : steps) {
    const double toward = y * ct + z * st;
    z = z * ct - y * st;
    y = toward * cs + x * ss;
    x = x * cs - toward * ss;
  }
  return steps;
}

}  // namespace

ProjectionGeometry circular_geometry(const CircularScan& scan, const VolumeGrid& volume) {
  const bool parallel = scan.beam == Beam::parallel;
  TESSERA_VALIDATE(scan.column_pitch > 0 && scan.row_pitch > 0, "a detector pitch of ", scan.column_pitch,
                   " x ", scan.row_pitch,
                   " (a length is above 0) give the distances between columns and rows");
  TESSERA_VALIDATE(parallel || (scan.source_axis > 0 && scan.source_detector > 0), "distances of ",
                   scan.source_axis, " from the source to the axis and ", scan.source_detector,
                   " to the detector (both are above 0) give them in the unit of the pitch");
  ProjectionGeometry g{scan.beam, volume, scan.rows, scan.columns, {}, {scan.center[0], scan.center[1], 0}};
  const auto [columns, rows] = turned_detector(scan);
  const double scale = parallel ? 1 : scan.source_axis / scan.source_detector;
  const double aside = -scan.axis_offset * scan.column_pitch * scale;
  for (const double t : scan.angles) {
    const double c = std::cos(t), s = std::sin(t), cl = std::cos(scan.lean), sl = std::sin(scan.lean);
    const Vector3 across{c, -s, 0}, toward{s * cl, c * cl, sl}, down{-s * sl, -c * sl, cl};
    const auto step = [&](const Vector3& by, double pitch) {
      return along({}, pitch, along(along(along({}, by[0], across), by[1], toward), by[2], down));
    };
    const double height = scan.helical_pitch * t / (2 * std::numbers::pi);
    ProjectionView view;
    view.u = step(columns, scan.column_pitch);
    view.v = step(rows, scan.row_pitch);
    const Vector3 middle = along({g.axis[0], g.axis[1], height}, aside, parallel ? step(columns, 1) : across);
    view.source = parallel ? toward : along(middle, scan.source_axis, toward);
    view.center = parallel ? middle : along(middle, scan.source_axis - scan.source_detector, toward);
    view.center = along(along(view.center, scan.detector_shift[0], view.u), scan.detector_shift[1], view.v);
    if (scan.beam == Beam::fan) view.source[2] = view.center[2];  // every row has its own
    g.views.push_back(view);
  }
  validate(g);
  return g;
}

ProjectionGeometry vector_geometry(Beam beam, const std::vector<std::array<double, 12>>& views,
                                   std::int64_t rows, std::int64_t columns, const VolumeGrid& volume) {
  ProjectionGeometry g{beam, volume, rows, columns, {}, {}};
  for (const std::array<double, 12>& n : views)
    g.views.push_back({{n[0], n[1], n[2]}, {n[3], n[4], n[5]}, {n[6], n[7], n[8]}, {n[9], n[10], n[11]}});
  validate(g);
  return g;
}

double magnification(const ProjectionGeometry& geometry, std::int64_t view) {
  if (geometry.beam == Beam::parallel) return 1;
  return 1 / depth_of(geometry.views[static_cast<std::size_t>(view)], geometry.axis);
}

std::array<double, 2> project_point(const ProjectionGeometry& g, std::int64_t index, const Vector3& point) {
  const ProjectionView& view = g.views[static_cast<std::size_t>(index)];
  const Vector3 n = cross(view.u, view.v);
  Vector3 p = point, hit{};
  double row = 0;
  if (g.beam == Beam::parallel) {
    hit = along(p, dot(minus(view.center, p), n) / dot(view.source, n), view.source);
  } else {
    if (g.beam == Beam::fan) {
      row = (p[2] - view.center[2]) / view.v[2];
      p[2] = view.source[2];
    }
    hit = along(view.source, 1 / depth_of(view, p), minus(p, view.source));
  }
  const Vector3 off = minus(hit, view.center);
  const double square = dot(n, n);
  return {dot(cross(off, view.v), n) / square + 0.5 * static_cast<double>(g.columns - 1),
          row + dot(cross(view.u, off), n) / square + 0.5 * static_cast<double>(g.rows - 1)};
}

FieldOfView field_of_view(const ProjectionGeometry& g) {
  FieldOfView seen{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (std::size_t k = 0; k < g.views.size(); ++k) {
    const std::array<double, 2> axis = project_point(g, static_cast<std::int64_t>(k), g.axis);
    const double wide = static_cast<double>(g.columns), high = static_cast<double>(g.rows);
    const auto edge = [&](double column) {  // distance from the axis to the ray at an edge, in the plane
      const ProjectionView& view = g.views[k];
      const Vector3 at = along(view.center, column - 0.5 * (wide - 1), view.u);
      const Vector3 way = g.beam == Beam::parallel ? view.source : minus(at, view.source);
      return std::abs((at[0] - g.axis[0]) * way[1] - (at[1] - g.axis[1]) * way[0]) /
             std::hypot(way[0], way[1]);
    };
    const bool hit = axis[0] > -0.5 && axis[0] < wide - 0.5 && axis[1] > -0.5 && axis[1] < high - 0.5;
    if (!hit) return {};
    seen.radius = std::min({seen.radius, edge(-0.5), edge(wide - 0.5)});
    const double row =
        norm(g.views[k].v) / (g.beam == Beam::fan ? 1 : magnification(g, static_cast<std::int64_t>(k)));
    seen.height = std::min(seen.height, 2 * row * std::min(axis[1] + 0.5, high - 0.5 - axis[1]));
  }
  return seen;
}

Box shadow(const ProjectionGeometry& g, const Box& block, std::int64_t index) {
  if (block.empty()) return {};
  const ProjectionView& view = g.views[static_cast<std::size_t>(index)];
  const auto axis_of = [&](std::int64_t row, std::int64_t column) {
    return main_axis(g.volume, ray_of(g, view, row, column).direction);
  };
  // Where the steps along rows and columns are along z and across it, the main axis follows from the column
  // alone, unless it is z.
  const bool upright = view.u[2] == 0 && view.v[0] == 0 && view.v[1] == 0;
  Box all;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (g.beam == Beam::parallel && axis_of(0, 0) != axis) continue;
    Index3 grown{1, 1, 1};
    grown[axis] = 0;
    std::array<double, 2> lo{1e300, 1e300}, hi{-1e300, -1e300};
    for_corners(g.volume, block, grown, [&](const Vector3& corner) {
      const std::array<double, 2> at = project_point(g, index, corner);
      for (std::size_t d = 0; d < 2; ++d) {
        lo[d] = std::min(lo[d], at[d]);
        hi[d] = std::max(hi[d], at[d]);
      }
    });
    constexpr double kRim = 2e-5;  // rays on the rim, which rounding may bring in, are in it
    const auto first = [](double x, double rim) { return std::ceil(x - rim); };
    const auto last = [](double x, double rim) { return std::floor(x + rim); };
    // Rows that stay at one height have a weight of 0 on the rim: slices then keep to their own.
    const double row_rim = g.beam == Beam::parallel && upright && view.source[2] == 0 ? -kRim : kRim;
    const double columns = static_cast<double>(g.columns - 1), rows = static_cast<double>(g.rows - 1);
    auto left = static_cast<std::int64_t>(std::clamp(first(lo[0], kRim), 0.0, columns + 1));
    auto right = static_cast<std::int64_t>(std::clamp(last(hi[0], kRim), -1.0, columns));
    const auto top = static_cast<std::int64_t>(std::clamp(first(lo[1], row_rim), 0.0, rows + 1));
    const auto bottom = static_cast<std::int64_t>(std::clamp(last(hi[1], row_rim), -1.0, rows));
    if (g.beam != Beam::parallel && upright && left <= right && top <= bottom) {
      // The row that goes along z the least, and those that do the most.
      const double level = (view.source[2] - view.center[2]) / view.v[2] + 0.5 * rows;
      const auto flat =
          g.beam == Beam::fan ? top : std::clamp(static_cast<std::int64_t>(std::llround(level)), top, bottom);
      const auto has = [&](std::int64_t column) {
        if (axis != 0) return axis_of(flat, column) == axis;
        return axis_of(top, column) == 0 || axis_of(bottom, column) == 0;
      };
      while (left <= right && !has(left)) ++left;
      while (left < right && !has(right)) --right;
    }
    if (left > right || top > bottom) continue;
    all = all.hull({{index, top, left}, {index + 1, bottom + 1, right + 1}});
  }
  return all;
}

Box shadow(const ProjectionGeometry& geometry, const Box& block, std::int64_t first, std::int64_t last) {
  Box all;
  for (std::int64_t view = first; view < last; ++view) all = all.hull(shadow(geometry, block, view));
  return all;
}

}  // namespace tessera
