// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/config/job.hpp"
#include "tessera/core/box.hpp"
#include "tessera/io/scan_file.hpp"

namespace tessera {

/// Measured projections, and which part of them the job reconstructs.
struct Scan {
  ScanFile file;                         // angles: degrees; without the views that are left out
  std::int64_t first_row = 0, rows = 1;  // of the detector
  bool transmission = false;             // frames hold what the detector counted; else line integrals
  double level = 1;  // about what the image reaches, where the samples have been looked at

  /// The samples (view, row, column), or of one row as those of a picture: (0, view, column).
  Box samples() const;
  /// The unknown: as wide as the detector.
  Box image() const;
  /// A box of samples as the stacks have it: (k, row, column) of the whole detector.
  Box in_stack(const Box& samples) const;
};

/// The scan of a job whose operator takes one (takes_scan); nothing where there are no measurements, or their file holds
/// several parts or channels. By headers alone. Collective; InputError equal on all ranks.
std::optional<Scan> job_scan(const JobConfig& job, const Communicator& comm);

/// Line integrals of a box of samples, and where the scan is of transmission or has weights how much each says;
/// those that say nothing are 0. Dense, float64. `silent` grows by their number. Not collective.
struct ScanSamples {
  std::vector<double> y, weights;
};
class ScanReader {
 public:
  explicit ScanReader(const Scan& scan);
  ScanSamples read(const Box& samples, std::int64_t& silent);

 private:
  const Scan& scan_;
  FrameReader views_;
  std::optional<FrameReader> weights_;
  Box averaged_;  // rows and columns of the frames below
  std::vector<double> flat_, dark_;
};

/// Some rows in the middle of the detector as line integrals, (rows, views, columns), float64; what says nothing
/// follows from its neighbors. On all ranks. Collective.
at::Tensor middle_rows(const Scan& scan, const Communicator& comm);

/// About what an image of these rows reaches: the density of a disk whose views would have their mass and their
/// peak, the largest of all views.
double image_level(const at::Tensor& rows);

}  // namespace tessera
