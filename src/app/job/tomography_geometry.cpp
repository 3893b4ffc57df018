// SPDX-License-Identifier: BSD-3-Clause
// The geometry that the options of type tomography describe.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "job/tomography.hpp"
#include "job/tomography_keys.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/projection.hpp"

namespace tessera {

scan_keys::ColumnScale scan_keys::column_scale(const Options& o) {
  if (const std::vector<std::array<double, 12>> views = vectors_of(o); !views.empty()) {
    const ProjectionGeometry one = vector_geometry(beam_of(o), {views.front()}, 1, 1, {});
    const Vector3& u = one.views.front().u;
    return {std::hypot(u[0], u[1], u[2]), magnification(one, 0)};
  }
  const double pitch = pitches(o)[1];
  if (beam_of(o) == Beam::parallel) return {pitch, 1};
  return {pitch,
          *o.get<std::optional<double>>(source_detector()) / *o.get<std::optional<double>>(source_axis())};
}

CircularScan scan_keys::circle_of(const Options& o) {
  CircularScan scan;
  scan.beam = beam_of(o);
  for (const double angle : o.get<std::vector<double>>(listed())) scan.angles.push_back(radians(angle));
  scan.source_axis = o.get<std::optional<double>>(source_axis()).value_or(0);
  scan.source_detector = o.get<std::optional<double>>(source_detector()).value_or(0);
  scan.row_pitch = pitches(o)[0];
  scan.column_pitch = pitches(o)[1];
  scan.axis_offset = o.get<std::optional<double>>(axis()).value_or(0);
  scan.detector_shift = {o.number(shift()), o.number(row_shift())};
  scan.rotation = radians(o.number(rotation()));
  scan.tilt = radians(o.number(tilt()));
  scan.slant = radians(o.number(slant()));
  scan.lean = radians(o.number(lean()));
  scan.helical_pitch = o.number(helix());
  return scan;
}

namespace {

using namespace scan_keys;

// Sides of a voxel as VolumeGrid has them. `row`: from one row of the detector to the next, at the axis.
Vector3 voxel_sides(const Options& o, const Index3& size, double column, double row) {
  const std::vector<double> said = o.get<std::vector<double>>(voxel());
  if (said.empty()) return {column, column, row};
  if (said.size() == 1) return {said[0], said[0], said[0]};
  const bool volume = size[0] > 1;
  if (said.size() != (volume ? 3U : 2U))
    throw wrong(voxel().name, concat("has ", said.size(), " numbers (the image has ", volume ? 3 : 2,
                                     " axes) write one for each, or one for all"));
  return {said.back(), said[said.size() - 2], volume ? said[0] : said.back()};
}

// Lengths that cannot be in one unit. `side`: of a voxel.
void check_units(const Options& o, const Index3& size, const CircularScan& scan, double side) {
  constexpr double kFine = 20, kCoarse = 4;
  const bool rays = scan.beam != Beam::parallel;
  const double pixel = scan.column_pitch / column_scale(o).magnified,
               wide = side * static_cast<double>(std::max(size[1], size[2])),
               seen = pixel * static_cast<double>(scan.columns);
  const std::string at_axis = rays ? concat(", ", pixel, " at the axis") : "";
  if (pixel > kFine * side || (side > kCoarse * pixel && wide > kCoarse * seen))
    throw wrong(voxel().name, concat("is ", side, " beside a detector.pitch of ", scan.column_pitch, at_axis,
                                     pixel > kFine * side ? " (a sample would be as wide as many voxels)"
                                                          : concat(" (the detector would see ", seen,
                                                                   " of an image ", wide, " wide)"),
                                     " write both in one unit, or leave voxel out"));
  if (rays && 2 * (scan.source_detector - scan.source_axis) < wide)
    throw wrong(
        source_detector().name,
        concat("is ", scan.source_detector, ", ", scan.source_detector - scan.source_axis,
               " behind the axis (the image reaches ", wide / 2,
               " from it, and the detector would stand inside of it) write distances and pitch in one unit, "
               "or a smaller voxel or image"));
}

// What may well be meant otherwise.
void note_geometry(const CircularScan& scan, OperatorFiles& files) {
  constexpr double kAside = 0.05, kOpens = 2e-3;
  if (scan.beam == Beam::parallel) return;
  if (std::abs(scan.axis_offset) > kAside * static_cast<double>(scan.columns))
    files.note(concat("detector.axis ", scan.axis_offset,
                      ": source and detector stand aside of the axis together; where "
                      "the source faces the axis and the detector alone stands aside (half-fan), write "
                      "'detector: {axis: 0, shift: ",
                      scan.detector_shift[0] - scan.axis_offset, "}'"));
  const double opens = scan.column_pitch * static_cast<double>(scan.columns) / scan.source_detector;
  if (opens < kOpens)
    files.warn(
        concat("the beam opens by ", opens * 180 / std::numbers::pi,
               " degrees over the detector (its rays are all but parallel: distances and pitch may be in two "
               "units): write source_axis, source_detector and detector.pitch in one"));
}

// What a picture cannot have: one row that sees one slice.
void check_picture(const Options& o, const OperatorRequest& in) {
  if (in.image.box.extent(0) > 1) return;
  if (const std::int64_t said = o.get<std::int64_t>(rows()); said > 1)
    throw wrong(rows().name,
                concat("is ", said, " (the image is a picture of ", sides(in.image.box),
                       ", which one row sees) write 1, or a size with a depth in problem.image.size"));
  if (o.number(helix()) != 0)
    throw wrong(helix().name, "is written (the image is a picture, along which nothing moves) remove it");
  for (const Option& key : {row_shift(), rotation(), tilt(), lean()})
    if (o.number(key) != 0)
      throw wrong(key.name,
                  "is written (the image is a picture, whose rays would leave its plane) remove it, or "
                  "write a size with a depth in problem.image.size");
}

void check_seen(const CircularScan& scan) {
  const double seen_at = scan.axis_offset - scan.detector_shift[0];
  if (2 * std::abs(seen_at) >= static_cast<double>(scan.columns))
    throw wrong(
        scan.axis_offset != 0 ? axis().name : shift().name,
        concat("is ", scan.axis_offset != 0 ? scan.axis_offset : scan.detector_shift[0],
               " (the detector has ", scan.columns,
               " columns, and no view would see the axis) it counts from the middle: write less than ",
               (scan.columns + 1) / 2));
  if (2 * std::abs(scan.detector_shift[1]) >= static_cast<double>(scan.rows))
    throw wrong(row_shift().name, concat("is ", scan.detector_shift[1], " (the detector has ", scan.rows,
                                         " rows, and no view would see the middle slice) write less than ",
                                         (scan.rows + 1) / 2));
}

// Rows and columns that nobody has said: those that see the whole image.
void fit_detector(const Options& o, const Index3& size, const Vector3& side, CircularScan& scan) {
  const double wide = side[0] * static_cast<double>(size[2]), high = side[1] * static_cast<double>(size[1]),
               deep = side[2] * static_cast<double>(size[0]), across = std::hypot(wide, high);
  // A cone sees what is near to the source larger than what is at the axis.
  if (scan.beam != Beam::parallel && 2 * scan.source_axis <= across)
    throw wrong(source_axis().name,
                concat("is ", scan.source_axis, " (the corners of the image lie ", across / 2,
                       " from the axis: the source would go through it) write a larger one, or a "
                       "smaller voxel or image"));
  const double nearest = scan.beam == Beam::parallel ? 1 : scan.source_axis / (scan.source_axis - across / 2);
  const auto seen = [&](double length, double step) {
    return static_cast<std::int64_t>(
               std::ceil(length * column_scale(o).magnified * std::max(1.0, nearest) / step)) +
           1;
  };
  const double turned = std::abs(std::sin(scan.rotation)), straight = std::abs(std::cos(scan.rotation)),
               leaning = across * std::abs(std::sin(scan.lean)) + deep * std::cos(scan.lean);
  scan.columns = o.get<std::int64_t>(columns());
  if (scan.columns == 0)
    scan.columns = seen(across * straight + leaning * turned, scan.column_pitch * std::cos(scan.slant));
  scan.rows = o.get<std::int64_t>(rows());
  if (scan.rows == 0)
    scan.rows = size[0] == 1 ? 1
                : level(o) ? std::max<std::int64_t>(1, std::llround(std::ceil(deep / scan.row_pitch - 1e-6)))
                           : seen(leaning * straight + across * turned, scan.row_pitch * std::cos(scan.tilt));
}

// The axis that sources go around, where they stand on a circle.
Vector3 axis_of(const ProjectionGeometry& g) {
  constexpr double kRound = 1e-3;
  if (g.beam == Beam::parallel || g.views.size() < 3) return {};
  // (x - a)^2 + (y - b)^2 = r^2 is linear in a, b and r^2 - a^2 - b^2.
  double sums[3][4] = {};
  for (const ProjectionView& view : g.views) {
    const double x = view.source[0], y = view.source[1], row[4] = {x, y, 1, (x * x + y * y) / 2};
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 4; ++k) sums[i][k] += row[i] * row[k];
  }
  for (int i = 0; i < 3; ++i) {  // by elimination
    if (!(std::abs(sums[i][i]) > 1e-12)) return {};
    for (int j = 0; j < 3; ++j) {
      if (j == i) continue;
      const double part = sums[j][i] / sums[i][i];
      for (int k = i; k < 4; ++k) sums[j][k] -= part * sums[i][k];
    }
  }
  const double a = sums[0][3] / sums[0][0], b = sums[1][3] / sums[1][1];
  double least = 1e300, most = 0;
  for (const ProjectionView& view : g.views) {
    const double r = std::hypot(view.source[0] - a, view.source[1] - b);
    least = std::min(least, r);
    most = std::max(most, r);
  }
  if (!(most <= (1 + kRound) * least) || std::hypot(a, b) < 1e-9 * most) return {};
  return {a, b, 0};
}

void shift_views(const Options& o, ProjectionGeometry& g) {
  const std::vector<double> all = o.get<std::vector<double>>(shifts());
  if (all.empty()) return;
  if (std::ssize(all) != std::ssize(g.views))
    throw wrong(shifts().name, concat("has ", all.size(), " numbers (there are ", g.views.size(),
                                      " views) write one for each"));
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (!(std::abs(all[k]) < static_cast<double>(g.columns)))
      throw wrong(shifts().name, concat("has ", all[k], " (the detector has ", g.columns,
                                        " columns, and this view would not see the image) correct it"));
    for (std::size_t d = 0; d < 3; ++d) g.views[k].center[d] += all[k] * g.views[k].u[d];
  }
}

ProjectionGeometry geometry_by_vectors(const Options& o, const OperatorRequest& in) {
  const Index3 size = in.image.box.extents();
  const std::int64_t high = o.get<std::int64_t>(rows()), wide = o.get<std::int64_t>(columns());
  for (const auto& [said, key] : {std::pair(wide, columns()), std::pair(high, rows())})
    if (said == 0 && (size[0] > 1 || key.name == columns().name))
      throw wrong(key.name,
                  "is auto (the geometry of the views does not say how large the detector is) write it");
  const std::vector<std::array<double, 12>> views = vectors_of(o);
  const ColumnScale scale = column_scale(o);
  const std::array<double, 12>& first = views.front();
  const double row = std::hypot(first[9], first[10], first[11]),
               magnified = beam_of(o) == Beam::fan ? 1 : scale.magnified;
  ProjectionGeometry g = vector_geometry(
      beam_of(o), views, std::max<std::int64_t>(1, high), wide,
      {.size = size, .voxel = voxel_sides(o, size, scale.pitch / scale.magnified, row / magnified)});
  for (const ProjectionView& view : g.views)
    if (size[0] == 1 && (view.u[2] != 0 || (g.beam == Beam::parallel && view.source[2] != 0)))
      throw wrong(vectors().name,
                  "leave the plane of the image, which is a picture (their rays cross it) write a "
                  "size with a depth in problem.image.size");
  g.axis = axis_of(g);
  return g;
}

}  // namespace

std::unique_ptr<OperatorPlan> plan_tomography(const OperatorRequest& in) {
  const Options& o = in.config.options;
  const Index3 size = in.image.box.extents();
  check_picture(o, in);
  if (by_vectors(o))
    return plan_projection(std::make_shared<ProjectionGeometry>(geometry_by_vectors(o, in)), in.device);
  CircularScan scan = circle_of(o);
  // Rows of a fan have sources in their planes: nothing magnifies their distance.
  const double magnified = column_scale(o).magnified;
  const Vector3 side = voxel_sides(o, size, scan.column_pitch / magnified,
                                   scan.row_pitch / (scan.beam == Beam::fan ? 1 : magnified));
  fit_detector(o, size, side, scan);
  check_units(o, size, scan, side[0]);
  check_seen(scan);
  note_geometry(scan, in.files);
  const std::vector<double> passes = o.get<std::vector<double>>(rotation_center());
  scan.center = {passes.back() * side[0], passes.front() * side[1]};
  auto geometry =
      std::make_shared<ProjectionGeometry>(circular_geometry(scan, {.size = size, .voxel = side}));
  shift_views(o, *geometry);
  return plan_projection(std::move(geometry), in.device);
}

}  // namespace tessera
