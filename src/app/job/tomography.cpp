// SPDX-License-Identifier: BSD-3-Clause
// problem.operator.type tomography: projections of a picture or a volume.
#include "job/tomography.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "job/tomography_keys.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/projection.hpp"
#include "tessera/physics/scan_coverage.hpp"

namespace tessera {
namespace {

using namespace scan_keys;

std::optional<OptionFault> check(const Options& o) {
  const std::vector<std::pair<bool, const char*>> ways = {
      {o.get<std::int64_t>(count()) > 0, "count"},
      {!o.get<std::vector<double>>(listed()).empty(), "angles"},
      {!o.get<std::string>(angle_file()).empty(), "file"}};
  const char* before = nullptr;
  for (const auto& [said, name] : ways) {
    if (!said) continue;
    if (before)
      return OptionFault{concat("views.", name),
                         concat("is written beside ", before, " (one of them says the views) remove one")};
    before = name;
  }
  if (const auto end = o.get<std::optional<double>>(last()); end && *end == o.number(first()))
    return OptionFault{
        last().name,
        concat("is ", *end, ", as first is (all views would have one angle) write where they end")};
  const auto near = o.get<std::optional<double>>(source_axis()),
             far = o.get<std::optional<double>>(source_detector());
  const bool rays = beam_of(o) != Beam::parallel;
  for (const Option& distance : {source_axis(), source_detector()}) {
    const bool given = o.get<std::optional<double>>(distance).has_value();
    if (rays && !given)
      return OptionFault{distance.name, "is missing (a source stands somewhere) write its distance"};
    if (!rays && given)
      return OptionFault{distance.name,
                         "acts on nothing in this job (a parallel beam has no source) remove it"};
  }
  if (!rays && o.number(shift()) != 0)
    return OptionFault{
        shift().name,
        "acts on nothing in this job (a parallel beam has no source) write detector.axis, the place "
        "of the axis on the detector"};
  if (rays && *far <= *near)
    return OptionFault{source_detector().name,
                       concat("is ", *far, " (the detector stands behind the axis, which is ", *near,
                              " from the source) write the distance to the detector")};
  return std::nullopt;
}

// Lengths that cannot be in one unit. `side`: of a voxel.
void check_units(const Options& o, const Index3& size, const CircularScan& scan, double side) {
  constexpr double kFine = 20, kCoarse = 4;
  const bool rays = scan.beam != Beam::parallel;
  const double pixel = scan.column_pitch / magnified(o),
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
                      -scan.axis_offset, "}'"));
  const double opens = scan.column_pitch * static_cast<double>(scan.columns) / scan.source_detector;
  if (opens < kOpens)
    files.warn(
        concat("the beam opens by ", opens * 180 / std::numbers::pi,
               " degrees over the detector (its rays are all but parallel: distances and pitch may be in two "
               "units): write source_axis, source_detector and detector.pitch in one"));
}

std::unique_ptr<OperatorPlan> make(const OperatorRequest& in) {
  const Options& o = in.config.options;
  CircularScan scan;
  scan.beam = beam_of(o);
  for (const double angle : o.get<std::vector<double>>(listed())) scan.angles.push_back(radians(angle));
  scan.source_axis = o.get<std::optional<double>>(source_axis()).value_or(0);
  scan.source_detector = o.get<std::optional<double>>(source_detector()).value_or(0);
  scan.column_pitch = scan.row_pitch = o.number(pitch());
  scan.axis_offset = o.get<std::optional<double>>(axis()).value_or(0);
  scan.detector_shift[0] = o.number(shift());
  scan.helical_pitch = o.number(helix());
  const double side = o.get<std::optional<double>>(voxel()).value_or(scan.column_pitch / magnified(o));
  // Rows of a fan have sources in their planes: nothing magnifies their distance.
  const double depth =
      scan.beam == Beam::fan && !o.get<std::optional<double>>(voxel()) ? scan.row_pitch : side;
  const Index3 size = in.image.box.extents();
  // A cone sees what is near to the source larger than what is at the axis.
  const double across = side * std::hypot(static_cast<double>(size[1]), static_cast<double>(size[2]));
  if (scan.beam != Beam::parallel && 2 * scan.source_axis <= across)
    throw wrong(source_axis().name,
                concat("is ", scan.source_axis, " (the corners of the image lie ", across / 2,
                       " from the axis: the source would go through it) write a larger one, or a "
                       "smaller voxel or image"));
  const double nearest = scan.beam == Beam::parallel ? 1 : scan.source_axis / (scan.source_axis - across / 2);
  const auto seen = [&](double length) {
    return static_cast<std::int64_t>(
               std::ceil(length * magnified(o) * std::max(1.0, nearest) / scan.column_pitch)) +
           1;
  };
  scan.columns = o.get<std::int64_t>(columns());
  if (scan.columns == 0) scan.columns = seen(across);
  check_units(o, size, scan, side);
  const double seen_at = scan.axis_offset - scan.detector_shift[0];
  if (2 * std::abs(seen_at) >= static_cast<double>(scan.columns))
    throw wrong(
        scan.axis_offset != 0 ? axis().name : shift().name,
        concat("is ", scan.axis_offset != 0 ? scan.axis_offset : scan.detector_shift[0],
               " (the detector has ", scan.columns,
               " columns, and no view would see the axis) it counts from the middle: write less than ",
               (scan.columns + 1) / 2));
  scan.rows = o.get<std::int64_t>(rows());
  if (scan.rows > 1 && size[0] == 1)
    throw wrong(rows().name,
                concat("is ", scan.rows, " (the image is a picture of ", sides(in.image.box),
                       ", which one row sees) write 1, or a size with a depth in problem.image.size"));
  if (scan.helical_pitch != 0 && size[0] == 1)
    throw wrong(helix().name, "is written (the image is a picture, along which nothing moves) remove it");
  if (scan.rows == 0)
    scan.rows = size[0] == 1              ? 1
                : scan.beam == Beam::cone ? seen(side * static_cast<double>(size[0]))
                                          : size[0];
  note_geometry(scan, in.files);
  return plan_projection(std::make_shared<ProjectionGeometry>(
                             circular_geometry(scan, {.size = size, .voxel = {side, side, depth}})),
                         in.device);
}

double length(const Vector3& a) { return std::hypot(a[0], a[1], a[2]); }

// The least and the largest angle, degrees; a view is less than half a turn from the one before.
std::array<double, 2> angle_range(const ProjectionGeometry& g) {
  std::array<double, 2> range{};
  double last = 0;
  for (std::size_t k = 0; k < g.views.size(); ++k) {
    double angle = std::atan2(-g.views[k].u[1], g.views[k].u[0]) * 180 / std::numbers::pi + 0.0;  // and no -0
    if (k > 0) angle += 360 * std::round((last - angle) / 360);
    range =
        k == 0 ? std::array{angle, angle} : std::array{std::min(range[0], angle), std::max(range[1], angle)};
    last = angle;
  }
  return range;
}

}  // namespace

std::vector<std::string> in_words(const ProjectionGeometry& g) {
  const std::array<double, 2> range = angle_range(g);
  const auto [least, most] = std::minmax_element(
      g.views.begin(), g.views.end(), [](const auto& a, const auto& b) { return length(a.u) < length(b.u); });
  std::string scan =
      fmt::format("{} beam, {} view{} from {:.6g} to {:.6g} degrees, detector of {} x {} of pitch {:.6g}",
                  word(g.beam), g.views.size(), g.views.size() == 1 ? "" : "s", range[0], range[1], g.rows,
                  g.columns, length(least->u));
  if (length(most->u) - length(least->u) > 1e-6 * length(most->u))
    scan += fmt::format(" to {:.6g}", length(most->u));
  if (g.beam != Beam::parallel)
    scan += fmt::format(", magnification {:.4g}: {:.4g} at the axis", magnification(g, 0),
                        length(least->u) / magnification(g, 0));
  const FieldOfView field = field_of_view(g);
  const Coverage covered = coverage(g);
  const bool picture = g.volume.size[0] == 1;
  std::string seen =
      field.radius > 0
          ? fmt::format("all views see a disk of radius {:.4g} around the axis",
                        field.radius / g.volume.voxel[0]) +
                (picture ? ""
                         : fmt::format(" and a height of {:.4g} there", field.height / g.volume.voxel[2])) +
                " (voxels)"
          : "not all views see the axis";
  const auto percent = [](double share) {
    return share > 0 && share < 0.005 ? std::string("less than 1") : fmt::format("{:.0f}", 100 * share);
  };
  if (covered.partly > 0)
    seen += fmt::format("; about {} % of the {} lie outside of some views", percent(covered.partly),
                        picture ? "pixels" : "voxels");
  if (covered.unseen > 0) seen += fmt::format(", {} % of all", percent(covered.unseen));
  return {std::move(scan), std::move(seen)};
}

OperatorRow tomography() {
  return {.choice = {.name = "tomography",
                     .options = {beam(), values(), count(), first(), last(), listed(), angle_file(), unit(),
                                 every(), first_row(), rows(), columns(), pitch(), voxel(), axis(), shift(),
                                 source_axis(), source_detector(), helix()},
                     .check = check},
          .global = make,
          .own_range = true,
          .scan = tomography_scan,
          .complete = complete_tomography};
}

}  // namespace tessera
