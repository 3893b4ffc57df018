// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/io/hdf5.hpp"

namespace tessera::trace {

/// A column of a table: its name, where it stands in the row's struct, and its type (copied).
struct Column {
  const char* name;
  std::size_t offset;
  hid_t type;
};

/// An extendible one-dimensional HDF5 dataset of a compound type, one struct `Row` per row.
template <class Row>
class Table {
 public:
  Table(hid_t file, const char* name, const std::vector<Column>& columns, const std::string& path)
      : path_(path + ":/" + name) {
    memory_ = H5Handle(check_h5(H5Tcreate(H5T_COMPOUND, sizeof(Row)), "H5Tcreate", path_), H5Tclose);
    for (const Column& c : columns)
      check_h5(H5Tinsert(memory_.get(), c.name, c.offset, c.type), "H5Tinsert", path_);
    const H5Handle packed(check_h5(H5Tcopy(memory_.get()), "H5Tcopy", path_), H5Tclose);
    check_h5(H5Tpack(packed.get()), "H5Tpack", path_);
    const hsize_t none = 0, any = H5S_UNLIMITED, chunk = 256;
    const H5Handle space(check_h5(H5Screate_simple(1, &none, &any), "H5Screate_simple", path_), H5Sclose);
    const H5Handle layout(check_h5(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", path_), H5Pclose);
    check_h5(H5Pset_chunk(layout.get(), 1, &chunk), "H5Pset_chunk", path_);
    dataset_ = H5Handle(
        check_h5(H5Dcreate2(file, name, packed.get(), space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT),
                 "H5Dcreate", path_),
        H5Dclose);
  }

  void add(const Row& row) { pending_.push_back(row); }
  bool has_pending() const { return !pending_.empty(); }

  /// Hands the pending rows to HDF5; H5Fflush puts them on disk.
  void append() {
    if (pending_.empty()) return;
    const hsize_t count = pending_.size(), total = rows_ + count;
    check_h5(H5Dset_extent(dataset_.get(), &total), "H5Dset_extent", path_);
    const H5Handle file(check_h5(H5Dget_space(dataset_.get()), "H5Dget_space", path_), H5Sclose);
    check_h5(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, &rows_, nullptr, &count, nullptr),
             "H5Sselect_hyperslab", path_);
    const H5Handle memory(check_h5(H5Screate_simple(1, &count, nullptr), "H5Screate_simple", path_),
                          H5Sclose);
    check_h5(H5Dwrite(dataset_.get(), memory_.get(), memory.get(), file.get(), H5P_DEFAULT, pending_.data()),
             "H5Dwrite", path_);
    rows_ = total;
    pending_.clear();
  }

 private:
  std::string path_;  // for messages
  H5Handle memory_;   // the struct's layout
  H5Handle dataset_;
  hsize_t rows_ = 0;  // in the dataset
  std::vector<Row> pending_;
};

}  // namespace tessera::trace
