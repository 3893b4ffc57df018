// SPDX-License-Identifier: BSD-3-Clause
// problem.operator.type tomography: projections of a picture or a volume.
#include "job/tomography.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "tessera/app/scan.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/projection.hpp"
#include "tessera/physics/rotation_axis.hpp"
#include "tessera/physics/scan_coverage.hpp"

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
  return {
      "views.angles", std::vector<double>(), {.example = "[0, 1.5, 3]"}, "views.unit", "one angle per view"};
}
Option angle_file() {
  return {"views.file",
          std::string(),
          {.file = true},
          "views.unit",
          "text, .npy or FILE.h5:/dataset with one angle per view, in place of a list"};
}
Option unit() {
  return {
      "views.unit",
      std::string("auto"),
      {.choices = {"auto", "degrees", "radians"}},
      "",
      "of angles that are listed or come from a file; auto: as the dataset's attribute says, else degrees"};
}
Option every() {
  return {"views.every",
          std::int64_t{1},
          {.least = 1},
          "",
          "keeps one view in so many, from the first on, of what count, angles, file or the scan have"};
}
Option first_row() {
  return {"detector.first_row",
          std::int64_t{0},
          {.least = 0},
          "",
          "of a measured scan: the first row that is used"};
}
Option values() {
  return {"values",
          std::string("auto"),
          {.choices = {"auto", "line_integrals", "transmission"}},
          "",
          "what a measured scan holds; transmission: counts, or their share of the beam, whose -log is "
          "taken; auto: that "
          "where there are flats"};
}
Option rows() {
  return {"detector.rows",
          std::int64_t{0},
          {.least = 1, .word = "auto", .example = "512"},
          "",
          "auto: those that see the whole volume, of a measured scan all from first_row on; of a picture 1"};
}
Option columns() {
  return {"detector.columns",
          std::int64_t{0},
          {.least = 1, .word = "auto", .example = "768"},
          "",
          "auto: those that see the whole image, or those of a measured scan"};
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
          "side of a pixel of the unknown; auto: the pitch over the magnification, "
          "between slices of a fan the pitch"};
}
Option axis() {
  return {"detector.axis",
          std::optional<double>(),
          {.word = "auto", .example = "-23.5"},
          "columns",
          "by which the image of the rotation axis lies right of the middle; auto: found in a measured "
          "parallel scan, else "
          "0"};
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

InputError wrong(const std::string& key, const std::string& message) {
  return InputError(concat("problem.operator.", key, " ", message));
}

// Degrees, of all views that the options speak of; empty: they leave that to a scan, which has `measured` views.
std::vector<double> stated_angles(const Options& o, std::int64_t measured, const Communicator& comm) {
  std::vector<double> all = o.get<std::vector<double>>(listed());
  const std::string said = o.get<std::string>(unit()), path = o.get<std::string>(angle_file());
  bool turn = said == "radians";
  if (!path.empty()) {
    const AngleList file = read_angles(path, comm);
    all = file.values;
    turn = turn || (said == "auto" && file.unit == "radians");
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    // 8 views or more within 6.4 degrees are hardly meant.
    if (said == "auto" && file.unit.empty() && all.size() >= 8 && *most - *least < 6.4)
      throw wrong("views.unit", concat("is auto (the angles in ", path, " go from ", *least, " to ", *most,
                                       ", which may be radians) write degrees or radians"));
  }
  if (turn)
    for (double& angle : all) angle *= 180 / std::numbers::pi;
  if (!all.empty()) return all;
  const std::optional<double> end = o.get<std::optional<double>>(last());
  const std::int64_t count_said = o.get<std::int64_t>(count()),
                     n = count_said == 0 && end ? measured : count_said;
  const double from = o.number(first()), to = end.value_or(beam_of(o) == Beam::parallel ? 180 : 360);
  for (std::int64_t k = 0; k < n; ++k)
    all.push_back(from + (to - from) * static_cast<double>(k) / static_cast<double>(n));
  return all;
}

// From the axis to the detector.
double magnified(const Options& o) {
  if (beam_of(o) == Beam::parallel) return 1;
  return *o.get<std::optional<double>>(source_detector()) / *o.get<std::optional<double>>(source_axis());
}

template <class T>
std::vector<T> thinned(const std::vector<T>& all, std::int64_t step) {
  std::vector<T> out;
  for (std::size_t k = 0; k < all.size(); k += static_cast<std::size_t>(step)) out.push_back(all[k]);
  return out;
}

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
  if (rays && *far <= *near)
    return OptionFault{source_detector().name,
                       concat("is ", *far, " (the detector stands behind the axis, which is ", *near,
                              " from the source) write the distance to the detector")};
  return std::nullopt;
}

Scan scan_of(const ProblemConfig& p, ScanFile file) {
  const Options& o = p.op.options;
  Scan scan;
  const std::int64_t there = file.views.rows, first = o.get<std::int64_t>(first_row()),
                     wanted = o.get<std::int64_t>(rows()), across = o.get<std::int64_t>(columns());
  if (across != 0 && across != file.views.columns)
    throw wrong(columns().name,
                concat("is ", across, " (", file.views.path, " has ", file.views.columns, ") leave it out"));
  if (first >= there)
    throw wrong(first_row().name, concat("is ", first, " (", file.views.path, " has ", there,
                                         there == 1 ? " row" : " rows", ") write one from 0 to ", there - 1));
  if (wanted > there - first)
    throw wrong(rows().name,
                concat("is ", wanted, " (", file.views.path, " has ", there, there == 1 ? " row" : " rows",
                       first > 0 ? concat(", of which those from ", first, " on are asked for") : "",
                       ") write ", there - first, " at most"));
  scan.first_row = first;
  scan.rows = wanted == 0 ? there - first : wanted;
  if (beam_of(o) == Beam::cone && scan.rows != there)
    throw wrong(wanted == 0 ? first_row().name : rows().name,
                concat("leaves out rows (those of a cone see the volume under other angles, none alone a "
                       "slice) leave it "
                       "out; problem.image.size says which slices are reconstructed"));
  const std::string kind = o.get<std::string>(values());
  const bool whole_numbers = file.views.type.find("int") != std::string::npos;
  if (kind == "auto" && file.flats.empty() && whole_numbers)
    throw wrong(values().name,
                concat("is auto (", file.views.path, " holds ", file.views.type,
                       " and no flats: counts would need them) name frames of the beam alone as "
                       "problem.flat, or write line_integrals"));
  scan.transmission = kind == "transmission" || (kind == "auto" && !file.flats.empty());
  if (!scan.transmission && (!p.flat.empty() || !p.dark.empty()))
    throw InputError(concat("problem.", p.flat.empty() ? "dark" : "flat",
                            " is given (the samples are line integrals",
                            kind == "auto" ? ", for there are no flats" : "",
                            ") write 'values: transmission' in problem.operator, or leave it out"));
  if (scan.transmission && whole_numbers && file.flats.empty())
    throw InputError(concat("problem.flat is missing (", file.views.path, " holds counts, ", file.views.type,
                            ", whose share of the beam is wanted) name frames of the beam alone"));
  if (scan.transmission && p.likelihood.type == "poisson")
    throw InputError(
        "problem.likelihood.type is poisson (the samples are line integrals, whose noise is not that of "
        "counts) leave it "
        "out: their weights follow from the counts");
  scan.file = std::move(file);
  return scan;
}

// The axis of a measured scan, and what is said of it.
double found_axis(const Options& o, const Scan& scan, const at::Tensor& looked,
                  std::vector<std::string>& notices) {
  const bool asked = beam_of(o) == Beam::parallel;
  RotationAxis axis;
  if (asked) {
    std::vector<double> angles;
    for (const double angle : scan.file.angles) angles.push_back(radians(angle));
    axis = find_rotation_axis(looked, angles);
  }
  if (!asked || !axis.problem.empty()) {
    notices.push_back(concat("the axis of rotation is taken to be in the middle of the detector (",
                             asked ? axis.problem : "it is looked for in parallel beams alone",
                             "): detector.axis says where it is"));
    return 0;
  }
  const double middle = 0.5 * static_cast<double>(scan.file.views.columns - 1),
               off = std::round((axis.column - middle) * 100) / 100 + 0.0;
  notices.push_back(
      fmt::format("the axis of rotation is at column {:.2f}, {:.2f} {} of the middle, found in {} row{} (by "
                  "their values {:.2f}, by their "
                  "edges {:.2f}){}: detector.axis says otherwise",
                  middle + off, std::abs(off), off < 0 ? "left" : "right", looked.size(0),
                  looked.size(0) == 1 ? "" : "s", axis.by_values, axis.by_edges,
                  std::abs(axis.by_values - axis.by_edges) > 2
                      ? ", of which the edges hold, as where the object is wider than the detector"
                      : ""));
  return off;
}

void complete(OperatorConfig& part, OperatorConfig& said, Scan* scan, std::vector<std::string>& notices,
              const Communicator& comm) {
  Options& o = part.options;
  const std::int64_t measured = scan ? scan->file.views.count : 0,
                     own = scan ? std::ssize(scan->file.views.frames) : 0;
  std::vector<double> angles = stated_angles(o, own, comm);
  if (scan && angles.empty()) {
    angles = scan->file.angles;
    const std::string said_unit = o.get<std::string>(unit());
    if (said_unit == "radians" || (said_unit == "auto" && scan->file.unit == "radians"))
      for (double& angle : angles) angle *= 180 / std::numbers::pi;
  }
  if (angles.empty())
    throw wrong("views",
                scan ? concat("is missing (", scan->file.views.path, " does not say the angles of its ", own,
                              " views) write for example 'views: {count: ", own, "}', or views.file")
                     : "is missing (their angles say where from) write for example 'views: {count: 180}'");
  if (scan && std::ssize(angles) != own) {
    const bool turned = scan->file.views.rows == std::ssize(angles);
    throw wrong("views", concat("has ", angles.size(), " angles (", scan->file.views.path, " has ", own,
                                " views", measured != own ? concat(" among ", measured, " frames") : "", ") ",
                                turned ? "its rows are as many: write it with the views first"
                                       : "write one angle for each; every thins them out afterwards"));
  }
  const std::int64_t step = o.get<std::int64_t>(every());
  angles = thinned(angles, step);
  if (scan) {
    scan->file.views.frames = thinned(scan->file.views.frames, step);
    if (!scan->file.weights.empty()) scan->file.weights.frames = thinned(scan->file.weights.frames, step);
    scan->file.angles = angles;
    o.slot<std::int64_t>(columns()) = scan->file.views.columns;
    o.slot<std::int64_t>(rows()) = scan->rows;
  } else {
    if (o.get<std::int64_t>(first_row()) != 0)
      throw wrong(first_row().name, "acts on nothing (the scan is simulated) remove it");
    if (o.get<std::string>(values()) != "auto")
      throw wrong(values().name,
                  "acts on nothing (the scan is simulated: its samples are line integrals) remove it");
  }
  o.slot<std::int64_t>(first_row()) = 0;
  o.slot<std::vector<double>>(listed()) = angles;
  o.slot<std::string>(angle_file()).clear();
  o.slot<std::string>(unit()) = "degrees";
  o.slot<std::string>(values()) = "auto";
  o.slot<std::int64_t>(count()) = 0;
  o.slot<std::int64_t>(every()) = 1;
  std::optional<double>& place = o.slot<std::optional<double>>(axis());
  if (scan) {
    const at::Tensor looked = middle_rows(*scan, comm);
    if (const double level = image_level(looked); level > 0)
      scan->level = level * magnified(o) / o.number(pitch());
    if (!place) place = found_axis(o, *scan, looked, notices);
    said.options.slot<std::optional<double>>(axis()) = place;
    return;
  }
  if (!place) place = 0;
  o.slot<std::optional<double>>(last()).reset();
  said = part;
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
  if (2 * std::abs(scan.axis_offset) >= static_cast<double>(scan.columns))
    throw wrong(
        axis().name,
        concat("is ", scan.axis_offset, " (the detector has ", scan.columns,
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
                                 every(), first_row(), rows(), columns(), pitch(), voxel(), axis(),
                                 source_axis(), source_detector(), helix()},
                     .check = check},
          .global = make,
          .own_range = true,
          .scan = scan_of,
          .complete = complete};
}

}  // namespace tessera
