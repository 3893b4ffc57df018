// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/box.hpp"
#include "tessera/core/words.hpp"
#include "tessera/io/scan_file.hpp"

namespace tessera {

/// What is done about columns of the detector that differ from their neighbors alike in all views: `found`: they are taken
/// where the samples show them.
enum class Rings { found, remove, keep };
template <>
inline constexpr std::array kWords<Rings>{"auto", "remove", "keep"};

/// Measured projections, and which part of them the job reconstructs.
struct Scan {
  ScanFile file;                         // angles: degrees; without the views that are left out
  std::int64_t first_row = 0, rows = 1;  // of the detector
  bool transmission = false;             // frames hold what the detector counted; else line integrals
  double level = 1;            // about what the image reaches, where the samples have been looked at
  std::int64_t side = 0;       // of the image, where the views ask for another than the detector's width
  double saturated = 1e300;    // counts from here on are the largest that the detector has
  bool beam_changed = false;   // between groups of flats: those of a view lie between the nearest ones
  Rings rings = Rings::found;  // remove: offsets of columns are taken as the samples are read
  bool rings_said = false;     // in a notice
  std::vector<double>
      hardening{};  // c1, c2, ...: line integrals are c1 y + c2 y^2 + ... of those measured; none: y
  std::array<double, 2>
      phase{};  // a frame's share of the beam is divided by 1 + phase . f^2 (f: cycles per row, per
                // column) before its logarithm: Paganin's filter; 0: it is not
  bool round_edges = true;  // of a round object, which look like rings, are to stay
  bool climbs = false;      // views may see other slices than others do
  bool specks =
      false;  // line integrals hold samples far off their neighbors, each in one view: those are no numbers
  double peak = 0;   // of a view, as a rule
  double noise = 0;  // of a line integral of weight 1, about; 0: no view is searched for zingers or specks
  std::int64_t wide = 0;      // what the image should have at least, where the object is wider than the
  std::string wide_reason{};  // detector, and why
  std::vector<std::string> warnings{};  // of what the samples show, a line each
  std::string unit{};                   // of file.stated, where it is taken: that of the job, or micrometers

  /// The samples (view, row, column), or of one row as those of a picture: (0, view, column).
  Box samples() const;
  /// The unknown: as wide as the detector, or as `side` says.
  Box image() const;
  /// A box of samples as the stacks have it: (k, row, column) of the whole detector.
  Box in_stack(const Box& samples) const;
};

/// How many samples say nothing, by reason.
struct SilentSamples {
  std::int64_t unlit = 0, saturated = 0, zingers = 0, specks = 0;
  std::int64_t all() const { return unlit + saturated + zingers + specks; }
};

/// Line integrals of a box of samples, and where the scan is of transmission or has weights how much each says;
/// those that say nothing are 0. Dense, float64. `silent` grows by their numbers. Not collective.
///
/// Flats and darks are means of frames without what is far from their median. Where a file says that flats were taken
/// before, between and after the views and the beam has changed, those of a view lie between the nearest ones before and after it. A zinger is a
/// sample far brighter than its neighbors in the row. Of phase contrast whole frames are read, one after the other (D. Paganin
/// et al., J. Microsc. 206 (2002) 33: one material, one distance).
struct ScanSamples {
  std::vector<double> y, weights;
};
class ScanReader {
 public:
  explicit ScanReader(const Scan& scan);
  ScanSamples read(const Box& samples, SilentSamples& silent);

 private:
  struct Flat {
    double place = 0;  // among the frames of the file
    FrameStack frames;
    std::vector<double> mean;
  };
  ScanSamples measured(const Box& box, SilentSamples& silent);
  ScanSamples retrieved(const Box& box, SilentSamples& silent);
  void to_line_integrals(const Box& box, ScanSamples& out, SilentSamples& silent);
  const Scan& scan_;
  FrameReader views_;
  std::optional<FrameReader> weights_;
  Box averaged_;  // rows and columns of the frames below
  std::vector<Flat> flats_;
  std::vector<double> dark_;
};

/// Flats in groups that follow each other without a view between, as far as the file says. Not collective.
std::vector<FrameStack> flat_groups(const ScanFile& file);

/// Some rows of the detector, from `first` on, (rows, views, columns), float64: line integrals, of which what says nothing
/// follows from its neighbors, and weights, 0 there (1 of line integrals that are numbers). On all ranks. Collective.
struct ScanRows {
  at::Tensor y, weights;
};
ScanRows scan_rows(const Scan& scan, std::int64_t first, std::int64_t rows, const Communicator& comm);

/// Of a row of the detector, from the least and the largest value of each column in all views: columns that never change
/// between ones that do, as a photon counter's cannot. Empty ranges (least > most) are no such columns.
std::vector<bool> still_columns(std::span<const double> least, std::span<const double> most);

/// Whether still columns are stuck ones: over half a turn or so an object passes all columns that it passes at all.
bool may_be_stuck(const Scan& scan);

/// Looks at the middle rows of the views: leaves out of `scan` (frames, weights, angles) the views that say nothing or
/// repeat the one before, sets level and noise, and says in `notices` and scan.warnings what does not look like the
/// views of an object with air beside it. Returns the rows that are left. Collective; InputError equal on all ranks,
/// where values that are said by nobody look like the share of a beam.
ScanRows look_at_scan(Scan& scan, bool values_said, std::vector<std::string>& notices,
                      const Communicator& comm);

/// Whether those rows show an object with air on both sides, where the axis is `axis_off` columns right of the middle:
/// sets scan.side (over a whole turn the image is as wide as both halves) or scan.wide, with the reason, or warns.
void judge_width(Scan& scan, const ScanRows& look, double axis_off, bool turn);

/// Of a parallel beam: a line in scan.warnings where its views' centers of mass do not follow a sine of their angles (an
/// object that drifts, or slips), and where their masses follow what they hold (line integrals that are not linear). Of
/// views with air on both sides.
void judge_parallel(Scan& scan, const ScanRows& look);

/// A line in scan.warnings where single views have more or less light than the others, as both of their ends show.
void judge_light(Scan& scan, const ScanRows& look);

/// About what an image of these rows reaches: the density of a disk whose views would have their mass and their
/// peak, the largest of all views.
double image_level(const at::Tensor& rows);

}  // namespace tessera
