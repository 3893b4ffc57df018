// SPDX-License-Identifier: BSD-3-Clause
// Keys of problem.operator.type tomography.
#pragma once

#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera::scan_keys {

inline Option beam() {
  return {"beam",
          std::string("parallel"),
          {.choices = words<Beam>()},
          "",
          "fan: every detector row has a source in its plane"};
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
          1.0,
          {.least = 0, .above = true},
          "problem.image.unit",
          "from one column or row to the next"};
}
inline Option voxel() {
  return {"voxel",
          std::optional<double>(),
          {.least = 0, .above = true, .word = "auto"},
          "problem.image.unit",
          "side of a pixel of the unknown; auto: the pitch over the magnification, "
          "between slices of a fan the pitch"};
}
inline Option axis() {
  return {"detector.axis",
          std::optional<double>(),
          {.word = "auto", .example = "-23.5"},
          "columns",
          "by which the image of the rotation axis lies right of the middle, of a fan and a cone because "
          "source and "
          "detector stand aside together; auto: found in a measured parallel scan, else 0"};
}
inline Option shift() {
  return {"detector.shift",
          0.0,
          {},
          "columns",
          "by which the detector of a fan or a cone stands to the right while its source faces the axis "
          "(half-fan)"};
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

inline Beam beam_of(const Options& o) { return from_word<Beam>(o.get<std::string>(beam())).value(); }

inline InputError wrong(const std::string& key, const std::string& message) {
  return InputError(concat("problem.operator.", key, " ", message));
}

/// From the axis to the detector.
inline double magnified(const Options& o) {
  if (beam_of(o) == Beam::parallel) return 1;
  return *o.get<std::optional<double>>(source_detector()) / *o.get<std::optional<double>>(source_axis());
}

}  // namespace tessera::scan_keys
