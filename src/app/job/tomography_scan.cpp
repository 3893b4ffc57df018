// SPDX-License-Identifier: BSD-3-Clause
// What files say of a job with projections: angles, the part of a scan, its axis.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "job/stated_geometry.hpp"
#include "job/tomography.hpp"
#include "job/tomography_align.hpp"
#include "job/tomography_keys.hpp"
#include "job/tomography_sense.hpp"
#include "job/view_vectors.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {
namespace {

using namespace scan_keys;

// Whether n angles go over pi or twice that, to the end or to a step before it.
bool is_pi(double way, double n) {
  constexpr double kNear = 0.003;
  for (const double turn : {std::numbers::pi, 2 * std::numbers::pi})
    for (const double all : {way, way * n / (n - 1)})
      if (std::abs(all / turn - 1) < kNear) return true;
  return false;
}

// Angles of a file as degrees.
std::vector<double> in_degrees(std::vector<double> angles, const std::string& path,
                               const std::string& file_unit, const Options& o) {
  const std::string said = o.get<std::string>(unit());
  const auto odd = std::count_if(angles.begin(), angles.end(), [](double a) { return !std::isfinite(a); });
  TESSERA_VALIDATE(
      odd == 0, path, " holds ", odd == std::ssize(angles) ? "no angle" : "an angle", " that is ",
      odd == std::ssize(angles) ? "a" : "no", " number (", odd, " of ", angles.size(),
      " are none, and no view stands there) correct it, or say the angles by problem.operator.views");
  const auto [least, most] = std::minmax_element(angles.begin(), angles.end());
  TESSERA_VALIDATE(angles.size() < 2 || *least < *most, path, " holds ", angles.size(), " times the angle ",
                   *least,
                   " (nothing was turned, or the encoder failed) correct it, or say the angles by "
                   "problem.operator.views");
  const bool known = file_unit.empty() || file_unit == "degrees" || file_unit == "radians";
  if (said == "auto" && !known)
    throw wrong(unit().name,
                concat("is auto (the angles in ", path, " are in ", file_unit,
                       ", which is not known here) write degrees or radians, and the angles in it"));
  // 8 views or more within 6.4 degrees are hardly meant; nor is pi, whatever an attribute says.
  const auto n = static_cast<double>(angles.size());
  if (said == "auto" && n >= 8 && *most - *least < 6.4 &&
      (file_unit.empty() || (file_unit == "degrees" && is_pi((*most - *least), n))))
    throw wrong(unit().name,
                concat("is auto (the angles in ", path, " go from ", *least, " to ", *most,
                       file_unit.empty()
                           ? ", which may be radians"
                           : ", half a turn or a whole one in radians, but their attribute says degrees",
                       ") write degrees or radians"));
  if (said == "radians" || (said == "auto" && file_unit == "radians"))
    for (double& angle : angles) angle *= 180 / std::numbers::pi;
  return angles;
}

// Degrees, of all views that the options speak of; empty: they leave that to a scan, which has `measured` views.
std::vector<double> stated_angles(const Options& o, std::int64_t measured, const Communicator& comm) {
  std::vector<double> all = o.get<std::vector<double>>(listed());
  if (const std::string path = o.get<std::string>(angle_file()); !path.empty()) {
    const AngleList file = read_angles(path, comm);
    return in_degrees(file.values, path, file.unit, o);
  }
  if (o.get<std::string>(unit()) == "radians")
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

template <class T>
std::vector<T> thinned(const std::vector<T>& all, std::int64_t step) {
  std::vector<T> out;
  for (std::size_t k = 0; k < all.size(); k += static_cast<std::size_t>(step)) out.push_back(all[k]);
  return out;
}

}  // namespace

namespace {

// What Paganin's filter divides by, from delta / beta, energy, distance and pixel.
void take_phase(const Options& o, Scan& scan) {
  constexpr double kWave = 1.239842e-3;  // micrometers times keV
  const std::vector<Option> keys = paganin();
  std::array<double, 4> said{};
  for (std::size_t k = 0; k < 4; ++k) {
    const auto value = o.get<std::optional<double>>(keys[k]);
    if (!value) return;
    said[k] = *value;
  }
  if (!scan.transmission)
    throw wrong(keys[0].name,
                "is written (the samples are line integrals: phases are retrieved before the logarithm) "
                "write 'values: transmission', or remove it");
  const auto [ratio, energy, distance, pixel] = said;
  scan.phase[1] = std::numbers::pi * ratio * (kWave / energy) * (1000 * distance) / (pixel * pixel);
  const std::array<double, 2> apart = pitches(o);
  scan.phase[0] = scan.phase[1] * apart[1] * apart[1] / (apart[0] * apart[0]);
}

}  // namespace

Scan tomography_scan(const ProblemConfig& p, ScanFile file) {
  Scan scan;
  scan.file = std::move(file);
  weigh_stated(p, scan);
  file = std::move(scan.file);
  Options o = p.op.options;
  take_stated(o, file.stated, scan.unit);
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
  scan.climbs = by_vectors(o) || o.number(helix()) != 0;
  scan.first_row = first;
  scan.rows = wanted == 0 ? there - first : wanted;
  if (!level(o) && scan.rows != there)
    throw wrong(wanted == 0 ? first_row().name : rows().name,
                concat("leaves out rows (those of ", beam_of(o) == Beam::cone ? "a cone" : "this geometry",
                       " see the volume under other angles, none alone a slice) leave it "
                       "out; problem.image.size says which slices are reconstructed"));
  const std::string found = o.get<std::string>(align());
  if ((found == "rotation" || found == "both") && scan.rows != there)
    throw wrong(align().name, concat("is ", found,
                                     " (rows are left out, and of a turned detector none alone is a "
                                     "slice) leave first_row and rows out, or write shifts or none"));
  const std::string kind = o.get<std::string>(values());
  const bool whole_numbers = file.views.type.find("int") != std::string::npos;
  if (kind == "auto" && file.flats.empty() && whole_numbers)
    throw wrong(values().name,
                concat("is auto (", file.views.path, " holds ", file.views.type,
                       " and no flats: counts would need them) name frames of the beam alone as "
                       "problem.flat, or write line_integrals"));
  scan.hardening = o.get<std::vector<double>>(hardening());
  if (!scan.hardening.empty() && !(scan.hardening[0] > 0))
    throw wrong(hardening().name,
                concat("begins with ", scan.hardening[0],
                       " (line integrals grow with what is measured) write for example [1, 0.05]"));
  scan.rings = from_word<Rings>(o.get<std::string>(rings())).value();
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
  if (scan.transmission) {
    const std::string& type = file.views.type;
    for (const auto& [name, largest] : {std::pair("uint8", 255.0), std::pair("uint16", 65535.0),
                                        std::pair("int16", 32767.0), std::pair("uint32", 4294967295.0)})
      if (type == name) scan.saturated = largest;
    if (p.saturation > 0) scan.saturated = std::min(scan.saturated, p.saturation);
  }
  take_phase(o, scan);
  scan.file = std::move(file);
  return scan;
}

namespace {

// Whether views stand all around.
bool whole_turn(const Scan& scan) {
  constexpr double kGap = 12;
  std::vector<double> angles;
  for (const double angle : scan.file.angles) angles.push_back(angle - 360 * std::floor(angle / 360));
  std::sort(angles.begin(), angles.end());
  double gap = angles.front() + 360 - angles.back();
  for (std::size_t k = 1; k < angles.size(); ++k) gap = std::max(gap, angles[k] - angles[k - 1]);
  return gap <= kGap;
}

// Degrees, one for each view that is there, of a scan in the order of its frames.
std::vector<double> all_angles(const Options& o, const Scan* scan, const Communicator& comm) {
  if (by_vectors(o)) return vector_angles(o);
  const std::int64_t own = scan ? std::ssize(scan->file.views.frames) : 0;
  std::vector<double> angles = stated_angles(o, own, comm);
  if (scan && angles.empty() && !scan->file.angles.empty())
    angles = in_degrees(scan->file.angles, scan->file.angles_path, scan->file.unit, o);
  if (angles.empty())
    throw wrong("views",
                scan ? concat("is missing (", scan->file.views.path, " does not say the angles of its ", own,
                              " views) write for example 'views: {count: ", own,
                              "}', whose last view is a step before "
                              "the end of the turn, or views.file")
                     : "is missing (their angles say where from) write for example 'views: {count: 180}'");
  return angles;
}

void check_count(const std::vector<double>& angles, const Options& o, const ScanFile& file) {
  const std::int64_t own = std::ssize(file.views.frames), said = std::ssize(angles);
  if (said == own) return;
  const std::string turned = file.views.rows == said ? "rows" : file.views.columns == said ? "columns" : "";
  throw wrong(
      "views",
      concat("has ", said, by_vectors(o) ? " vectors (" : " angles (", file.views.path, " has ", own,
             " views", file.views.count != own ? concat(" among ", file.views.count, " frames") : "", ") ",
             !turned.empty() ? concat("its ", turned, " are as many: write it with the views first")
             : by_vectors(o) ? "give the geometry of each; every thins them out afterwards"
                             : "write one angle for each; every thins them out afterwards"));
}

// What the samples show, and which views are left by that.
ScanRows looked_at(Options& o, std::vector<double> angles, Scan& scan, std::vector<std::string>& notices,
                   const Communicator& comm) {
  const std::int64_t step = o.get<std::int64_t>(every());
  const std::vector<std::int64_t> before = scan.file.views.frames;
  scan.file.views.frames = thinned(scan.file.views.frames, step);
  if (!scan.file.weights.empty()) scan.file.weights.frames = thinned(scan.file.weights.frames, step);
  scan.file.angles = thinned(angles, step);
  ScanRows look = look_at_scan(scan, o.get<std::string>(values()) != "auto", notices, comm);
  if (by_vectors(o)) keep_vectors(o, before, scan.file.views.frames);
  std::vector<double>& aside = o.slot<std::vector<double>>(shifts());
  if (!aside.empty() && std::ssize(aside) != std::ssize(before))
    throw wrong(shifts().name, concat("has ", aside.size(), " numbers (", scan.file.views.path, " has ",
                                      before.size(), " views) write one for each"));
  aside = kept(aside, before, scan.file.views.frames);
  o.slot<std::int64_t>(columns()) = scan.file.views.columns;
  o.slot<std::int64_t>(rows()) = scan.rows;
  return look;
}

// What nothing reads any more.
void settle(Options& o, const std::vector<double>& angles) {
  o.slot<std::int64_t>(first_row()) = 0;
  o.slot<std::vector<double>>(listed()) = by_vectors(o) ? std::vector<double>() : angles;
  o.slot<std::string>(angle_file()).clear();
  o.slot<std::string>(unit()) = "degrees";
  o.slot<std::string>(values()) = o.slot<std::string>(rings()) = "auto";
  o.slot<std::vector<double>>(hardening()).clear();
  for (const Option& key : paganin()) o.slot<std::optional<double>>(key).reset();
  o.slot<std::int64_t>(count()) = 0;
  o.slot<std::int64_t>(every()) = 1;
  o.slot<std::string>(align()) = "none";
}

// Of a simulated one.
void check_simulated(const Options& o) {
  if (o.get<std::int64_t>(first_row()) != 0)
    throw wrong(first_row().name, "acts on nothing (the scan is simulated) remove it");
  if (o.get<std::string>(values()) != "auto")
    throw wrong(values().name,
                "acts on nothing (the scan is simulated: its samples are line integrals) remove it");
  for (const Option& key : paganin())
    if (o.get<std::optional<double>>(key))
      throw wrong(key.name, "acts on nothing (the scan is simulated, without phase contrast) remove it");
  if (!o.get<std::vector<double>>(hardening()).empty())
    throw wrong(hardening().name, "acts on nothing (the scan is simulated, of one energy) remove it");
  if (o.get<std::string>(rings()) != "auto")
    throw wrong(rings().name, "acts on nothing (the scan is simulated, without rings) remove it");
  if (o.get<std::string>(align()) != "none")
    throw wrong(align().name, "acts on nothing (the scan is simulated: it stands as the job says) remove it");
}

}  // namespace

void complete_tomography(OperatorConfig& part, OperatorConfig& said, Scan* scan,
                         std::vector<std::string>& notices, const Communicator& comm) {
  Options& o = part.options;
  for (Options* each : {&o, &said.options})
    take_stated(*each, scan ? scan->file.stated : StatedGeometry(), scan ? scan->unit : "");
  if (scan && !scan->unit.empty()) notices.push_back(stated_words(*scan));
  take_geometry(o, scan, comm);
  const std::vector<double> angles = all_angles(o, scan, comm);
  std::optional<double>& place = o.slot<std::optional<double>>(axis());
  if (!scan) {
    check_simulated(o);
    if (const std::int64_t step = o.get<std::int64_t>(every()); by_vectors(o) && step > 1) {
      std::vector<std::int64_t> all(angles.size());
      std::iota(all.begin(), all.end(), 0);
      keep_vectors(o, all, thinned(all, step));
    }
    std::vector<double>& aside = o.slot<std::vector<double>>(shifts());
    if (aside.size() == angles.size()) aside = thinned(aside, o.get<std::int64_t>(every()));
    settle(o, thinned(angles, o.get<std::int64_t>(every())));
    if (!place) place = 0;
    o.slot<std::optional<double>>(last()).reset();
    said = part;
    return;
  }
  check_count(angles, o, scan->file);
  const std::vector<std::int64_t> all = scan->file.views.frames;
  const ScanRows look = looked_at(o, angles, *scan, notices, comm);
  const std::string wanted = o.get<std::string>(align());
  const Options asked = o;
  settle(o, scan->file.angles);
  const bool vectors = by_vectors(o), moved = !vectors && align_scan(o, *scan, look.y, wanted, notices, comm);
  if (!place) place = 0;
  const bool around = whole_turn(*scan);
  if (!vectors) judge_turn(o, asked, angles, look.y, *scan);
  if (!vectors && around) judge_rays(o, look.y, *scan);
  if (beam_of(o) == Beam::parallel && !vectors && o.number(lean()) == 0) judge_parallel(*scan, look);
  judge_width(*scan, look, vectors ? vector_axis(o) : *place - o.number(shift()), around);
  const ColumnScale scale = column_scale(o);
  const std::vector<double> sides = o.get<std::vector<double>>(voxel());
  const double pixel = scale.pitch / scale.magnified, side = sides.empty() ? pixel : sides.back();
  scan->level /= pixel;
  scan->side = static_cast<std::int64_t>(std::ceil(static_cast<double>(scan->side) * pixel / side));
  scan->wide = static_cast<std::int64_t>(std::ceil(static_cast<double>(scan->wide) * pixel / side));
  if (vectors)
    said.options.slot<std::string>(beam()) = o.get<std::string>(beam());
  else
    said.options.slot<std::optional<double>>(axis()) = place;
  if (!vectors) said.options.slot<double>(rotation()) = o.number(rotation());
  if (moved) {
    // Of all views: those that are left out stand where they stand.
    std::vector<double>& each = said.options.slot<std::vector<double>>(shifts());
    const std::vector<double>& found = o.get<std::vector<double>>(shifts());
    each.assign(all.size(), 0);
    for (std::size_t k = 0, n = 0; k < all.size() && n < found.size(); ++k)
      if (all[k] == scan->file.views.frames[n]) each[k] = found[n++];
  }
  said.options.slot<std::string>(align()) = "none";
}

}  // namespace tessera
