// SPDX-License-Identifier: BSD-3-Clause
// problem.operator.type tomography: its keys, and which of them exclude each other.
#include "job/tomography.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/tomography_keys.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using namespace scan_keys;

OptionFault nothing_on(const Option& key, const std::string& why) {
  return {key.name, concat("acts on nothing in this job (", why, ") remove it")};
}

std::optional<OptionFault> check_ways(const Options& o) {
  const std::vector<std::pair<bool, std::string>> ways = {
      {o.get<std::int64_t>(count()) > 0, count().name},
      {!o.get<std::vector<double>>(listed()).empty(), listed().name},
      {!o.get<std::string>(angle_file()).empty(), angle_file().name},
      {!o.get<std::string>(geometry_file()).empty(), geometry_file().name},
      {!o.get<std::vector<double>>(vectors()).empty(), vectors().name}};
  std::string before;
  for (const auto& [said, name] : ways) {
    if (!said) continue;
    if (!before.empty())
      return OptionFault{name, concat("is written beside ", before.substr(before.find('.') + 1),
                                      " (one of them says the views) remove one")};
    before = name;
  }
  if (const auto end = o.get<std::optional<double>>(last()); end && *end == o.number(first()))
    return OptionFault{
        last().name,
        concat("is ", *end, ", as first is (all views would have one angle) write where they end")};
  return std::nullopt;
}

// What a circle is described by, beside views that stand for themselves.
std::optional<OptionFault> check_vectors(const Options& o) {
  const std::string why = "the geometry of each view says it";
  const std::vector<double> rows = o.get<std::vector<double>>(vectors());
  if (rows.size() % 12 != 0)
    return OptionFault{vectors().name,
                       concat("has ", rows.size(),
                              " numbers (a view is 12 of them: direction or source, detector, step "
                              "along columns, along rows) write as many")};
  for (const Option& key : {source_axis(), source_detector()})
    if (o.get<std::optional<double>>(key)) return nothing_on(key, why);
  if (o.get<std::optional<double>>(axis()).value_or(0) != 0) return nothing_on(axis(), why);
  if (o.get<std::optional<double>>(last())) return nothing_on(last(), why);
  for (const Option& key : {first(), shift(), row_shift(), rotation(), tilt(), slant(), helix(), lean()})
    if (o.number(key) != 0) return nothing_on(key, why);
  if (o.get<std::vector<double>>(rotation_center()) != std::vector<double>{0})
    return nothing_on(rotation_center(), why);
  if (!o.get<std::vector<double>>(shifts()).empty()) return nothing_on(shifts(), why);
  if (o.get<std::string>(align()) != "none") return nothing_on(align(), why);
  if (pitches(o) != std::array<double, 2>{1, 1} && !o.get<std::string>(geometry_file()).ends_with(".xml"))
    return nothing_on(pitch(), why);
  return std::nullopt;
}

std::optional<OptionFault> check(const Options& o) {
  const std::vector<Option> phase = paganin();
  for (const Option& key : phase)
    for (const Option& other : phase)
      if (!o.get<std::optional<double>>(key) && o.get<std::optional<double>>(other))
        return OptionFault{key.name, concat("is missing (", other.name,
                                            " is written, and the filter follows from "
                                            "all of them) write it")};
  if (auto fault = check_ways(o)) return fault;
  if (by_vectors(o)) return check_vectors(o);
  const auto near = o.get<std::optional<double>>(source_axis()),
             far = o.get<std::optional<double>>(source_detector());
  const bool rays = beam_of(o) != Beam::parallel;
  for (const Option& distance : {source_axis(), source_detector()}) {
    const bool given = o.get<std::optional<double>>(distance).has_value();
    if (rays && !given)
      return OptionFault{distance.name, "is missing (a source stands somewhere) write its distance"};
    if (!rays && given) return nothing_on(distance, "a parallel beam has no source");
  }
  if (!rays && o.number(shift()) != 0)
    return OptionFault{
        shift().name,
        "acts on nothing in this job (a parallel beam has no source) write detector.axis, the place "
        "of the axis on the detector"};
  if (const std::string found = o.get<std::string>(align());
      beam_of(o) == Beam::fan && (found == "rotation" || found == "both"))
    return OptionFault{
        align().name,
        concat("is ", found,
               " (a fan's rows have sources in their planes, which a rotation would leave) write shifts")};
  if (beam_of(o) == Beam::fan)
    for (const Option& key : {rotation(), tilt(), lean()})
      if (o.number(key) != 0)
        return OptionFault{key.name,
                           concat("is ", o.number(key),
                                  " (each row of a fan has a source in its plane, which this would leave) "
                                  "write 'beam: cone'")};
  if (rays && *far <= *near)
    return OptionFault{source_detector().name,
                       concat("is ", *far, " (the detector stands behind the axis, which is ", *near,
                              " from the source) write the distance to the detector")};
  return std::nullopt;
}

}  // namespace

OperatorRow tomography() {
  OperatorRow row{
      .choice = {.name = "tomography",
                 .options = {beam(),           values(),      rings(),           hardening(),  count(),
                             first(),          last(),        listed(),          angle_file(), unit(),
                             shifts(),         align(),       geometry_file(),   vectors(),    every(),
                             first_row(),      rows(),        columns(),         pitch(),      voxel(),
                             axis(),           shift(),       row_shift(),       rotation(),   tilt(),
                             slant(),          source_axis(), source_detector(), helix(),      lean(),
                             rotation_center()},
                 .check = check},
      .global = plan_tomography,
      .own_range = true,
      .scan = tomography_scan,
      .complete = complete_tomography};
  for (Option& key : paganin()) row.choice.options.push_back(std::move(key));
  return row;
}

}  // namespace tessera
