// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/io/hdf5.hpp"

namespace tessera::io {

/// What of a dataset has no storage: HDF5 would answer with a fill value, here these samples are missing.
class StorageHoles {
 public:
  StorageHoles() = default;
  /// InputError where nothing was ever written, where a source of a virtual dataset is missing or has holes of
  /// its own, or where a file of raw data ends early. `where`: FILE:/dataset. Not collective.
  /// `depth`: of a source of a source.
  StorageHoles(hid_t set, const std::string& where, int depth = 0);

  /// What is missing, for a note; or empty.
  const std::string& note() const { return note_; }
  /// Calls what lies in the box missing: NaN in the samples, dense in its order.
  void mark(const std::vector<hsize_t>& start, const std::vector<hsize_t>& count, double* dense) const;

 private:
  void look_at_chunks(const H5Handle& layout);
  void look_at_virtual(const H5Handle& layout, int depth);

  hid_t set_ = -1;  // the reader's
  std::string where_, note_;
  std::vector<hsize_t> chunk_;  // where some are missing
  std::vector<std::vector<hsize_t>>
      unmapped_;  // first and last corners of what no source is for, one behind the other
};

}  // namespace tessera::io
