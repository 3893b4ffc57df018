// SPDX-License-Identifier: BSD-3-Clause
// problem.operator.type tomography: projections of a picture or a volume.
#include "job/tomography.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/core/error.hpp"
#include "tessera/domain/projection.hpp"

namespace tessera {
namespace {

Option beam() {
  return {"beam",
          std::string("parallel"),
          {.choices = words<Beam>()},
          "",
          "fan: every detector row has a source in its plane"};
}
Option count() {
  return {"views.count",
          std::int64_t{0},
          {.least = 1, .word = "none", .example = "180"},
          "",
          "number of views, evenly apart"};
}
Option first() { return {"views.first", 0.0, {}, "degrees", "of the first view"}; }
Option last() {
  return {"views.last",
          std::optional<double>(),
          {.word = "auto", .example = "180"},
          "degrees",
          "where the view after the last would stand; auto: 180 for a parallel beam, else 360"};
}
Option listed() {
  return {"views.angles", std::vector<double>(), {.example = "[0, 1.5, 3]"}, "degrees", "one angle per view"};
}
Option rows() {
  return {"detector.rows",
          std::int64_t{0},
          {.least = 1, .word = "auto", .example = "512"},
          "",
          "auto: those that see the whole volume; of a picture 1"};
}
Option columns() {
  return {"detector.columns",
          std::int64_t{0},
          {.least = 1, .word = "auto", .example = "768"},
          "",
          "auto: those that see the whole image"};
}
Option pitch() {
  return {"detector.pitch",
          1.0,
          {.least = 0, .above = true},
          "problem.image.unit",
          "from one column or row to the next"};
}
Option voxel() {
  return {"voxel",
          std::optional<double>(),
          {.least = 0, .above = true, .word = "auto"},
          "problem.image.unit",
          "side of a pixel of the unknown; auto: the pitch over the magnification"};
}
Option axis() {
  return {"detector.axis",
          0.0,
          {},
          "columns",
          "by which the image of the rotation axis lies right of the middle"};
}
Option source_axis() {
  return {"source_axis",
          std::optional<double>(),
          {.least = 0, .above = true, .example = "500"},
          "problem.image.unit",
          "from the source to the rotation axis, fan and cone"};
}
Option source_detector() {
  return {"source_detector",
          std::optional<double>(),
          {.least = 0, .above = true, .example = "1000"},
          "problem.image.unit",
          "from the source to the detector, fan and cone"};
}
Option helix() {
  return {"helix", 0.0, {}, "problem.image.unit", "way of source and detector along the axis in a full turn"};
}

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

Beam beam_of(const Options& o) { return from_word<Beam>(o.get<std::string>(beam())).value(); }

std::vector<double> angles_of(const Options& o) {
  std::vector<double> all = o.get<std::vector<double>>(listed());
  if (all.empty()) {
    const std::int64_t n = o.get<std::int64_t>(count());
    const double from = o.number(first()),
                 to = o.get<std::optional<double>>(last()).value_or(beam_of(o) == Beam::parallel ? 180 : 360);
    for (std::int64_t k = 0; k < n; ++k)
      all.push_back(from + (to - from) * static_cast<double>(k) / static_cast<double>(n));
  }
  for (double& angle : all) angle = radians(angle);
  return all;
}

std::optional<OptionFault> check(const Options& o) {
  const bool range = o.get<std::int64_t>(count()) > 0, list = !o.get<std::vector<double>>(listed()).empty();
  if (range && list)
    return OptionFault{"views.angles", "is written beside count (one of them says the views) remove one"};
  if (!range && !list)
    return OptionFault{"views",
                       "is missing (their angles say where from) write for example 'views: {count: 180}'"};
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
  if (rays && *far <= *near)
    return OptionFault{source_detector().name,
                       concat("is ", *far, " (the detector stands behind the axis, which is ", *near,
                              " from the source) write the distance to the detector")};
  return std::nullopt;
}

std::unique_ptr<OperatorPlan> make(const OperatorRequest& in) {
  const Options& o = in.config.options;
  CircularScan scan;
  scan.beam = beam_of(o);
  scan.angles = angles_of(o);
  scan.source_axis = o.get<std::optional<double>>(source_axis()).value_or(0);
  scan.source_detector = o.get<std::optional<double>>(source_detector()).value_or(0);
  scan.column_pitch = scan.row_pitch = o.number(pitch());
  scan.axis_offset = o.number(axis());
  scan.helical_pitch = o.number(helix());
  const double magnified = scan.beam == Beam::parallel ? 1 : scan.source_detector / scan.source_axis;
  const double side = o.get<std::optional<double>>(voxel()).value_or(scan.column_pitch / magnified);
  const Index3 size = in.image.box.extents();
  // A cone sees what is near to the source larger than what is at the axis.
  const double across = side * std::hypot(static_cast<double>(size[1]), static_cast<double>(size[2]));
  const double nearest = scan.beam == Beam::parallel ? 1 : scan.source_axis / (scan.source_axis - across / 2);
  const auto seen = [&](double length) {
    return static_cast<std::int64_t>(
               std::ceil(length * magnified * std::max(1.0, nearest) / scan.column_pitch)) +
           1;
  };
  scan.columns = o.get<std::int64_t>(columns());
  if (scan.columns == 0) scan.columns = seen(across);
  scan.rows = o.get<std::int64_t>(rows());
  if (scan.rows == 0)
    scan.rows = size[0] == 1              ? 1
                : scan.beam == Beam::cone ? seen(side * static_cast<double>(size[0]))
                                          : size[0];
  return plan_projection(std::make_shared<ProjectionGeometry>(
      circular_geometry(scan, {.size = size, .voxel = {side, side, side}})));
}

}  // namespace

OperatorRow tomography() {
  return {.choice = {.name = "tomography",
                     .options = {beam(), count(), first(), last(), listed(), rows(), columns(), pitch(),
                                 voxel(), axis(), source_axis(), source_detector(), helix()},
                     .check = check},
          .global = make};
}

}  // namespace tessera
