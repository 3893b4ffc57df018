// SPDX-License-Identifier: BSD-3-Clause
#include "job/view_vectors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "job/geometry_file.hpp"
#include "job/tomography_keys.hpp"
#include "tessera/core/error.hpp"

namespace tessera {

using namespace scan_keys;

namespace {

Beam beam_of_file(const GeometryFile& file, const std::string& path, Beam asked) {
  if (!file.beam && file.flat && asked == Beam::cone)
    throw wrong(beam().name,
                concat("is cone (", path, " has 6 numbers a view: those of one slice) write fan"));
  if (!file.beam && !file.flat && asked == Beam::fan)
    throw wrong(beam().name,
                concat("is fan (", path, " has 12 numbers a view: those of a volume) write cone"));
  if (file.beam && asked != Beam::parallel && asked != *file.beam)
    throw wrong(beam().name,
                concat("is ", word(asked), " (", path, " is of a ", word(*file.beam), " beam) leave it out"));
  return file.beam.value_or(asked);
}

// Of a parallel beam: whether the detectors stand behind the middle where rays come from, as they do of sources.
void refuse_sources(const std::vector<std::array<double, 12>>& views, bool flat) {
  constexpr double kOpposite = -0.99;
  const auto opposite = [](const std::array<double, 12>& v) {
    const double size = std::hypot(v[0], v[1], v[2]) * std::hypot(v[3], v[4], v[5]);
    return size > 0 && v[0] * v[3] + v[1] * v[4] + v[2] * v[5] < kOpposite * size;
  };
  if (!views.empty() && std::ranges::all_of(views, opposite))
    throw wrong(
        beam().name,
        concat("is parallel (the first three numbers of a view lie opposite of the detector, as of a source, "
               "not of a direction) write ",
               flat ? "fan" : "cone", ", or of a parallel beam detectors through the middle"));
}

}  // namespace

void take_geometry(Options& o, const Scan* scan, const Communicator& comm) {
  const std::string path = std::exchange(o.slot<std::string>(geometry_file()), {});
  if (!path.empty()) {
    const GeometryFile file = read_geometry(path, pitches(o), comm);
    if (!file.beam && beam_of(o) == Beam::parallel) refuse_sources(file.views, file.flat);
    o.slot<std::string>(beam()) = word(beam_of_file(file, path, beam_of(o)));
    for (const auto& [there, key, measured] :
         {std::tuple(file.rows, rows(), scan ? scan->file.views.rows : 0),
          std::tuple(file.columns, columns(), scan ? scan->file.views.columns : 0)}) {
      const std::int64_t other = scan ? measured : o.get<std::int64_t>(key);
      if (there == 0) continue;
      if (other != 0 && other != there)
        throw wrong(geometry_file().name,
                    concat("names ", path, ", whose detector has ", there,
                           key.name == rows().name ? " rows" : " columns", " (",
                           scan ? scan->file.views.path : "problem.operator." + key.name, " has ", other,
                           ") give the geometry of this scan"));
      o.slot<std::int64_t>(key) = there;
    }
    std::vector<double>& all = o.slot<std::vector<double>>(vectors());
    for (const std::array<double, 12>& view : file.views) all.insert(all.end(), view.begin(), view.end());
    o.slot<std::vector<double>>(pitch()) = {1};
  } else if (beam_of(o) == Beam::parallel) {
    refuse_sources(vectors_of(o), false);
  }
}

std::vector<double> vector_angles(const Options& o) {
  std::vector<double> out;
  for (const std::array<double, 12>& v : vectors_of(o))
    out.push_back(std::atan2(-v[7], v[6]) * 180 / std::numbers::pi + 0.0);
  return out;
}

double vector_axis(const Options& o) {
  return project_point(vector_geometry(beam_of(o), {vectors_of(o).front()}, 1, 1, {}), 0, {0, 0, 0})[0];
}

void keep_vectors(Options& o, const std::vector<std::int64_t>& before,
                  const std::vector<std::int64_t>& after) {
  std::vector<double>& flat = o.slot<std::vector<double>>(vectors());
  const std::vector<std::array<double, 12>> some = kept(vectors_of(o), before, after);
  flat.clear();
  for (const std::array<double, 12>& view : some) flat.insert(flat.end(), view.begin(), view.end());
}

}  // namespace tessera
