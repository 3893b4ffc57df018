// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
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
      : path_(path + ":/" + name), memory_(row_type(columns, path_)) {
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

  /// Goes on with a table of the file; rows at its end that `late` says yes to are taken off.
  template <class Late>
  Table(hid_t file, const char* name, const std::vector<Column>& columns, const std::string& path, Late late)
      : path_(path + ":/" + name), memory_(row_type(columns, path_)) {
    dataset_ = H5Handle(check_h5(H5Dopen2(file, name, H5P_DEFAULT), "H5Dopen", path_), H5Dclose);
    const H5Handle space(check_h5(H5Dget_space(dataset_.get()), "H5Dget_space", path_), H5Sclose);
    check_h5(H5Sget_simple_extent_dims(space.get(), &rows_, nullptr), "H5Sget_simple_extent_dims", path_);
    std::vector<Row> part;
    for (bool more = true; more && rows_ > 0;) {
      const hsize_t count = std::min<hsize_t>(rows_, 1024), first = rows_ - count;
      part.resize(count);
      const H5Handle memory = select(space.get(), first, count);
      check_h5(H5Dread(dataset_.get(), memory_.get(), memory.get(), space.get(), H5P_DEFAULT, part.data()),
               "H5Dread", path_);
      while (rows_ > first && late(part[rows_ - first - 1])) --rows_;
      more = rows_ == first;
    }
    check_h5(H5Dset_extent(dataset_.get(), &rows_), "H5Dset_extent", path_);
  }

  void add(const Row& row) { pending_.push_back(row); }
  bool has_pending() const { return !pending_.empty(); }

  /// Hands the pending rows to HDF5; H5Fflush puts them on disk.
  void append() {
    if (pending_.empty()) return;
    const hsize_t count = pending_.size(), total = rows_ + count;
    check_h5(H5Dset_extent(dataset_.get(), &total), "H5Dset_extent", path_);
    const H5Handle file(check_h5(H5Dget_space(dataset_.get()), "H5Dget_space", path_), H5Sclose);
    const H5Handle memory = select(file.get(), rows_, count);
    check_h5(H5Dwrite(dataset_.get(), memory_.get(), memory.get(), file.get(), H5P_DEFAULT, pending_.data()),
             "H5Dwrite", path_);
    rows_ = total;
    pending_.clear();
  }

 private:
  static H5Handle row_type(const std::vector<Column>& columns, const std::string& path) {
    H5Handle type(check_h5(H5Tcreate(H5T_COMPOUND, sizeof(Row)), "H5Tcreate", path), H5Tclose);
    for (const Column& c : columns)
      check_h5(H5Tinsert(type.get(), c.name, c.offset, c.type), "H5Tinsert", path);
    return type;
  }

  // Selects rows of the file's space; the memory space for them.
  H5Handle select(hid_t file, hsize_t first, hsize_t count) const {
    check_h5(H5Sselect_hyperslab(file, H5S_SELECT_SET, &first, nullptr, &count, nullptr),
             "H5Sselect_hyperslab", path_);
    return {check_h5(H5Screate_simple(1, &count, nullptr), "H5Screate_simple", path_), H5Sclose};
  }

  std::string path_;  // for messages
  H5Handle memory_;   // the struct's layout
  H5Handle dataset_;
  hsize_t rows_ = 0;  // in the dataset
  std::vector<Row> pending_;
};

}  // namespace tessera::trace
