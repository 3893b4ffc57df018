// SPDX-License-Identifier: BSD-3-Clause
// Keys of problem.operator.type tomography.
#pragma once

#include <array>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/projection_geometry.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera::scan_keys {

inline Option beam() {
  std::vector<std::string> words{"auto"};
  for (const char* word : kWords<Beam>) words.emplace_back(word);
  return {"beam",
          std::string("auto"),
          {.choices = words},
          "",
          "fan: every detector row has a source in its plane; auto: as a .txrm states it, else parallel"};
}
inline Option count() {
  return {"views.count",
          std::int64_t{0},
          {.least = 1, .word = "none", .example = "180"},
          "",
          "number of views, evenly apart"};
}
inline Option first() { return {"views.first", 0.0, {}, "degrees", "of the first view"}; }
inline Option last() {
  return {"views.last",
          std::optional<double>(),
          {.word = "auto", .example = "180"},
          "degrees",
          "where the view after the last would stand; auto: 180 for a parallel beam, else 360"};
}
inline Option listed() {
  return {
      "views.angles", std::vector<double>(), {.example = "[0, 1.5, 3]"}, "views.unit", "one angle per view"};
}
inline Option angle_file() {
  return {"views.file",
          std::string(),
          {.file = true},
          "views.unit",
          "text, .npy or FILE.h5:/dataset with one angle per view, in place of a list"};
}
inline Option unit() {
  return {
      "views.unit",
      std::string("auto"),
      {.choices = {"auto", "degrees", "radians"}},
      "",
      "of angles that are listed or come from a file; auto: as the dataset's attribute says, else degrees"};
}
inline Option every() {
  return {"views.every",
          std::int64_t{1},
          {.least = 1},
          "",
          "keeps one view in so many, from the first on, of what count, angles, file or the scan have"};
}
inline Option shifts() {
  return {
      "views.shifts",
      std::vector<double>(),
      {.example = "[0.3, -0.2, 0.1]"},
      "columns",
      "by which the detector stands right of where it should, one per view of what count, angles, file or "
      "the scan have"};
}
inline Option align() {
  return {
      "align",
      std::string("none"),
      {.choices = {"none", "rotation", "shifts", "both"}},
      "",
      "of a measured scan: what is found in its samples beside the axis: detector.rotation, views.shifts, "
      "or both"};
}
inline Option first_row() {
  return {"detector.first_row",
          std::int64_t{0},
          {.least = 0},
          "",
          "of a measured scan: the first row that is used"};
}
inline Option values() {
  return {"values",
          std::string("auto"),
          {.choices = {"auto", "line_integrals", "transmission"}},
          "",
          "what a measured scan holds; transmission: counts, or their share of the beam, whose -log is "
          "taken; auto: that "
          "where there are flats"};
}
inline Option rings() {
  return {
      "rings",
      std::string("auto"),
      {.choices = words<Rings>()},
      "",
      "of a measured scan: what columns of the detector differ from their neighbors by alike in all views is "
      "taken from them; auto: where the samples show it"};
}
inline Option hardening() {
  return {
      "hardening",
      std::vector<double>(),
      {.longest = 8, .example = "[1, 0.05]"},
      "",
      "of a measured scan: [c1, c2, ...], where a beam of several energies measures y in place of the line "
      "integral c1 y + c2 y^2 + ..."};
}
/// Of phase contrast: all four, or none.
inline std::vector<Option> paganin() {
  const OptionRule above{.least = 0, .above = true, .word = "none"};
  const std::optional<double> none;
  return {
      {"paganin.delta_beta", none, above, "",
       "of measured counts with phase contrast: the material's delta over beta; its phases are retrieved by "
       "Paganin's filter before the logarithm"},
      {"paganin.energy", none, above, "keV", "of the beam"},
      {"paganin.distance", none, above, "mm", "from the object to the detector"},
      {"paganin.pixel", none, above, "micrometers", "from one column or row to the next, at the object"}};
}
inline Option rows() {
  return {"detector.rows",
          std::int64_t{0},
          {.least = 1, .word = "auto", .example = "512"},
          "",
          "auto: those that see the whole volume, of a measured scan all from first_row on; of a picture 1"};
}
inline Option columns() {
  return {"detector.columns",
          std::int64_t{0},
          {.least = 1, .word = "auto", .example = "768"},
          "",
          "auto: those that see the whole image, or those of a measured scan"};
}
inline Option pitch() {
  return {"detector.pitch",
          std::vector<double>(),
          {.least = 0, .above = true, .word = "auto", .one = true, .longest = 2, .example = "1.3"},
          "problem.image.unit",
          "from one row to the next and from one column to the next; one number for both; auto: as a .txrm "
          "states it, else 1"};
}
inline Option voxel() {
  return {
      "voxel",
      std::vector<double>(),
      {.least = 0, .above = true, .word = "auto", .one = true, .longest = 3, .example = "0.5"},
      "problem.image.unit",
      "sides of a pixel of the unknown, down and across, of a volume depth first; one number for all; auto: "
      "the columns' pitch over the magnification, between slices the rows', of a fan not magnified"};
}
inline Option axis() {
  return {"detector.axis",
          std::optional<double>(),
          {.word = "auto", .example = "-23.5"},
          "columns",
          "by which the image of the rotation axis lies right of the middle, of a fan and a cone because "
          "source and "
          "detector stand aside together; auto: found in a measured scan, else 0"};
}
inline Option shift() {
  return {"detector.shift",
          0.0,
          {},
          "columns",
          "by which the detector of a fan or a cone stands to the right while its source faces the axis "
          "(half-fan)"};
}
inline Option row_shift() {
  return {"detector.row_shift",
          0.0,
          {},
          "rows",
          "by which the detector stands toward the last slices while the source faces the volume's middle"};
}
inline Option rotation() {
  return {"detector.rotation",
          0.0,
          {.least = -180, .most = 180},
          "degrees",
          "by which the detector is turned in its plane: its rows then run down to the right; also of an "
          "axis that "
          "leans to the side"};
}
inline Option tilt() {
  return {"detector.tilt",
          0.0,
          {.least = -80, .most = 80},
          "degrees",
          "by which the last row of the detector comes toward the source, about its middle"};
}
inline Option slant() {
  return {"detector.slant",
          0.0,
          {.least = -80, .most = 80},
          "degrees",
          "by which the last column of the detector comes toward the source, about its middle"};
}
inline Option lean() {
  return {
      "lean",
      0.0,
      {.least = -80, .most = 80},
      "degrees",
      "by which the axis of rotation leans toward the source, as in laminography: 90 less the angle between "
      "beam and axis"};
}
inline Option rotation_center() {
  return {
      "rotation_center",
      std::vector<double>{0},
      {.one = true, .longest = 2},
      "pixels",
      "how far down and right of the image's middle the axis of rotation passes it; one number for both; 0.5 "
      "for an even size: pixel N // 2, as in scikit-image"};
}
inline Option geometry_file() {
  return {
      "views.geometry",
      std::string(),
      {.file = true},
      "",
      "where source and detector stand in each view: rows of 6 or 12 numbers as ASTRA's vectors (text, .npy, "
      "FILE.h5:/dataset), its dicts (.json), RTK's .xml, Nikon's .xtekct"};
}
inline Option vectors() {
  return {"views.vectors",
          std::vector<double>(),
          {.example = "[0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]"},
          "problem.image.unit",
          "12 numbers per view: rays' direction or source, detector's middle, steps along columns and along "
          "rows, "
          "each as x (across the image), y (down), z (along slices)"};
}
inline Option source_axis() {
  return {"source_axis",
          std::optional<double>(),
          {.least = 0, .above = true, .example = "500"},
          "problem.image.unit",
          "from the source to the rotation axis, fan and cone"};
}
inline Option source_detector() {
  return {"source_detector",
          std::optional<double>(),
          {.least = 0, .above = true, .example = "1000"},
          "problem.image.unit",
          "from the source to the detector, fan and cone"};
}
inline Option helix() {
  return {"helix", 0.0, {}, "problem.image.unit", "way of source and detector along the axis in a full turn"};
}

inline double radians(double degrees) { return degrees * std::numbers::pi / 180; }

/// auto: until a scan's file has been asked.
inline Beam beam_of(const Options& o) {
  return from_word<Beam>(o.get<std::string>(beam())).value_or(Beam::parallel);
}

inline InputError wrong(const std::string& key, const std::string& message) {
  return InputError(concat("problem.operator.", key, " ", message));
}

/// Whether each view stands for itself, rather than on a circle or a helix.
inline bool by_vectors(const Options& o) {
  return !o.get<std::vector<double>>(vectors()).empty() || !o.get<std::string>(geometry_file()).empty();
}
/// Those of each view, once the file is read.
inline std::vector<std::array<double, 12>> vectors_of(const Options& o) {
  const std::vector<double> all = o.get<std::vector<double>>(vectors());
  std::vector<std::array<double, 12>> out(all.size() / 12);
  for (std::size_t k = 0; k < 12 * out.size(); ++k) out[k / 12][k % 12] = all[k];
  return out;
}

/// Between rows and between columns.
inline std::array<double, 2> pitches(const Options& o) {
  const std::vector<double> said = o.get<std::vector<double>>(pitch());
  return said.empty() ? std::array<double, 2>{1, 1} : std::array<double, 2>{said.front(), said.back()};
}

/// Whether a detector row sees one slice and no other.
inline bool level(const Options& o) {
  return !by_vectors(o) && beam_of(o) != Beam::cone && o.number(rotation()) == 0 && o.number(tilt()) == 0 &&
         o.number(lean()) == 0;
}

/// Columns' pitch, and how much larger than at the axis it is, of the first view.
struct ColumnScale {
  double pitch = 1, magnified = 1;
};
ColumnScale column_scale(const Options& o);

/// Without rows and columns; angles as listed.
CircularScan circle_of(const Options& o);

/// Of views `before`, what belongs to those that are left; empty where there is nothing.
template <class T>
std::vector<T> kept(const std::vector<T>& all, const std::vector<std::int64_t>& before,
                    const std::vector<std::int64_t>& after) {
  std::vector<T> out;
  std::size_t k = 0;
  for (const std::int64_t frame : all.empty() ? std::vector<std::int64_t>() : after) {
    while (before[k] != frame) ++k;
    out.push_back(all[k++]);
  }
  return out;
}

}  // namespace tessera::scan_keys
