// SPDX-License-Identifier: BSD-3-Clause
#include "job/stated_geometry.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "job/pixel_sizes.hpp"
#include "job/tomography_keys.hpp"

namespace tessera {
namespace {

using namespace scan_keys;

constexpr double kSameLength = 0.02;  // what headers round

bool apart(double a, double b) { return !(std::abs(a - b) <= kSameLength * std::abs(b)); }

// Micrometers of a unit; 0: no length.
double micrometers_of(const std::string& unit) {
  Grid one = ImageSpace().grid, own = one;
  one[0] = {"z", 1, unit};
  own[0] = {"z", 1, "um"};
  return pixel_ratios(one, own)[0];
}

// What of the job differs from the file.
std::string contradictions(const Options& o, const StatedGeometry& stated, double unit) {
  std::string out;
  const auto add = [&](const Option& key, const std::string& own, const std::string& other) {
    out += concat(out.empty() ? "" : ", ", key.name, ' ', own, " (the file: ", other, ')');
  };
  const auto length = [&](const Option& key, double own, double other) {
    if (unit > 0 && other > 0 && apart(own * unit, other))
      add(key, fmt::format("{:g}", own), fmt::format("{:g}", other / unit));
  };
  if ((beam_of(o) == Beam::parallel) == stated.cone)
    add(beam(), word(beam_of(o)), stated.cone ? "cone" : "parallel");
  length(pitch(), pitches(o)[1], stated.pitch);
  if (beam_of(o) == Beam::parallel || !stated.cone) return out;
  const double source = o.get<std::optional<double>>(source_axis()).value_or(0),
               detector = o.get<std::optional<double>>(source_detector()).value_or(0);
  length(source_axis(), source, stated.source_axis);
  length(source_detector(), detector, stated.source_detector);
  // Of lengths in a unit that nobody knows, their ratios.
  if (const double own = detector / source, other = stated.source_detector / stated.source_axis;
      out.empty() && (apart(own, other) || apart(source / pitches(o)[1], stated.source_axis / stated.pitch)))
    add(source_axis(),
        fmt::format("{:g} of {:g}, {:g} times the pitch", source, detector, source / pitches(o)[1]),
        fmt::format("{:g} of {:g}, {:g} times", stated.source_axis, stated.source_detector,
                    stated.source_axis / stated.pitch));
  return out;
}

}  // namespace

void weigh_stated(const ProblemConfig& problem, Scan& scan) {
  const Options& o = problem.op.options;
  StatedGeometry& stated = scan.file.stated;
  const std::string& path = scan.file.views.path;
  if (by_vectors(o)) return;
  const bool own = o.get<std::string>(beam()) != "auto" || !o.get<std::vector<double>>(pitch()).empty() ||
                   o.get<std::optional<double>>(source_axis()) ||
                   o.get<std::optional<double>>(source_detector());
  if (!stated.unclear.empty() && !own)
    scan.warnings.push_back(concat(path, " states ", stated.unclear,
                                   " (its geometry does not follow from that) write detector.pitch in "
                                   "problem.operator, and of a cone beam, source_axis and source_detector"));
  if (!(stated.pitch > 0)) return;
  const std::string& said = problem.image.unit;
  const double unit = micrometers_of(said.empty() ? "um" : said);
  if (own) {
    if (const std::string other = contradictions(o, stated, said.empty() ? 0 : unit); !other.empty())
      scan.warnings.push_back(concat("problem.operator differs from what ", path, " states: ", other,
                                     " (the job holds) remove beam, detector.pitch, source_axis and "
                                     "source_detector for those of the file"));
    return;
  }
  if (unit == 0) {
    scan.warnings.push_back(concat("problem.image.unit is ", said, " (", path,
                                   " states its geometry in lengths, which is not taken) write um or mm, or "
                                   "detector.pitch in problem.operator"));
    return;
  }
  for (double* length : {&stated.pitch, &stated.source_axis, &stated.source_detector}) *length /= unit;
  scan.unit = said.empty() ? "um" : said;
}

void take_stated(Options& o, const StatedGeometry& stated, const std::string& unit) {
  if (unit.empty()) {
    const std::array<double, 2> apart_by = pitches(o);
    o.slot<std::string>(beam()) = word(beam_of(o));
    o.slot<std::vector<double>>(pitch()) = {apart_by[0]};
    if (apart_by[1] != apart_by[0]) o.slot<std::vector<double>>(pitch()).push_back(apart_by[1]);
    return;
  }
  o.slot<std::string>(beam()) = word(stated.cone ? Beam::cone : Beam::parallel);
  o.slot<std::vector<double>>(pitch()) = {stated.pitch};
  if (!stated.cone) return;
  o.slot<std::optional<double>>(source_axis()) = stated.source_axis;
  o.slot<std::optional<double>>(source_detector()) = stated.source_detector;
}

std::string stated_words(const Scan& scan) {
  const StatedGeometry& stated = scan.file.stated;
  return concat(
      "as ", scan.file.views.path, " states it: ",
      stated.cone ? fmt::format("cone beam, source_axis {:g}, source_detector {:g}, ", stated.source_axis,
                                stated.source_detector)
                  : "parallel beam, ",
      fmt::format("detector.pitch {:g} {} (problem.operator says otherwise)", stated.pitch, scan.unit));
}

}  // namespace tessera
