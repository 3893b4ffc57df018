// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/train/train.hpp"

namespace tessera::training {

/// What a training did, as a table (CSV): a row between two lines of the log, with means over its steps, and
/// one wherever the PSNR was measured. docs/training.md names the columns. Errors: RunError where a file
/// cannot be written, InputError where it is no such table.
class TrainingCurve {
 public:
  struct Row {
    TrainRecord record;
    double seconds = 0;  // of training, without the time between calls
  };
  /// Goes on with the rows up to step `step` of the file at `path`, if there is one.
  TrainingCurve(std::string path, std::int64_t step);
  void add(const Row& row) { rows_.push_back(row); }
  const std::vector<Row>& rows() const { return rows_; }
  void save() const;

 private:
  std::string path_;
  std::vector<Row> rows_;
};

}  // namespace tessera::training
