// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::trace {

/// A column of a table: its name, where it stands in the row's struct, and its type (copied).
struct Column {
  const char* name;
  std::size_t offset;
  hid_t type;
};

/// A one-dimensional HDF5 dataset of a compound type, one struct `Row` per row as it lies in memory (nothing
/// is converted), in one chunk.
///
/// The chunk has its place since the first row, so further rows change their own bytes and then one number
/// (the extent): whatever of that has reached the file when the process is killed, the file is a whole one.
/// The first rows, and those beyond the chunk, need a new file (has_room()).
template <class Row>
class Table {
 public:
  Table(hid_t file, const char* name, const std::vector<Column>& columns, hsize_t capacity,
        const std::string& path)
      : path_(path + ":/" + name), memory_(row_type(columns, path_)), capacity_(capacity) {
    const hsize_t none = 0, any = H5S_UNLIMITED;
    const H5Handle space(check_h5(H5Screate_simple(1, &none, &any), "H5Screate_simple", path_), H5Sclose);
    const H5Handle layout(check_h5(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", path_), H5Pclose);
    check_h5(H5Pset_chunk(layout.get(), 1, &capacity), "H5Pset_chunk", path_);
    check_h5(H5Pset_fill_time(layout.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time", path_);
    const H5Handle access(check_h5(H5Pcreate(H5P_DATASET_ACCESS), "H5Pcreate", path_), H5Pclose);
    // No cache of chunks: rows go to the file before the extent does.
    check_h5(H5Pset_chunk_cache(access.get(), 0, 0, 0), "H5Pset_chunk_cache", path_);
    dataset_ = H5Handle(
        check_h5(H5Dcreate2(file, name, memory_.get(), space.get(), H5P_DEFAULT, layout.get(), access.get()),
                 "H5Dcreate", path_),
        H5Dclose);
  }

  /// A table of a file, to be read. RunError where it is no table of these columns.
  Table(hid_t file, const char* name, const std::vector<Column>& columns, const std::string& path)
      : path_(path + ":/" + name), memory_(row_type(columns, path_)) {
    dataset_ = H5Handle(check_h5(H5Dopen2(file, name, H5P_DEFAULT), "H5Dopen", path_), H5Dclose);
    const H5Handle space(check_h5(H5Dget_space(dataset_.get()), "H5Dget_space", path_), H5Sclose);
    const H5Handle stored(check_h5(H5Dget_type(dataset_.get()), "H5Dget_type", path_), H5Tclose);
    if (H5Sget_simple_extent_ndims(space.get()) != 1 || H5Tequal(stored.get(), memory_.get()) <= 0)
      throw RunError(path_ + " is no table of this trace");
    check_h5(H5Sget_simple_extent_dims(space.get(), &rows_, nullptr), "H5Sget_simple_extent_dims", path_);
  }

  Table(Table&&) noexcept = default;
  Table& operator=(Table&&) noexcept = default;

  void add(const Row& row) { pending_.push_back(row); }
  bool has_pending() const { return !pending_.empty(); }
  bool has_room() const { return pending_.empty() || (rows_ > 0 && rows() <= capacity_); }
  hsize_t rows() const { return rows_ + pending_.size(); }

  /// Hands the pending rows to HDF5; H5Fflush puts them on disk.
  void append() {
    if (pending_.empty()) return;
    const hsize_t before = rows_;
    extend(before + pending_.size());
    write(pending_.data(), before, pending_.size());
    pending_.clear();
  }

  /// Rows of another table of the same columns that `keep` says yes to, and its pending ones.
  template <class Keep>
  void take(const Table& from, Keep keep) {
    constexpr hsize_t kPart = 4096;
    std::vector<Row> part;
    for (hsize_t first = 0; first < from.rows_; first += kPart) {
      const hsize_t count = std::min(kPart, from.rows_ - first);
      part.resize(count);
      const H5Handle space(check_h5(H5Dget_space(from.dataset_.get()), "H5Dget_space", path_), H5Sclose);
      const H5Handle memory = select(space.get(), first, count);
      check_h5(
          H5Dread(from.dataset_.get(), memory_.get(), memory.get(), space.get(), H5P_DEFAULT, part.data()),
          "H5Dread", path_);
      std::copy_if(part.begin(), part.end(), std::back_inserter(pending_), keep);
      append();
    }
    pending_.insert(pending_.end(), from.pending_.begin(), from.pending_.end());
  }

 private:
  static H5Handle row_type(const std::vector<Column>& columns, const std::string& path) {
    H5Handle type(check_h5(H5Tcreate(H5T_COMPOUND, sizeof(Row)), "H5Tcreate", path), H5Tclose);
    for (const Column& c : columns)
      check_h5(H5Tinsert(type.get(), c.name, c.offset, c.type), "H5Tinsert", path);
    return type;
  }

  void extend(hsize_t rows) {
    check_h5(H5Dset_extent(dataset_.get(), &rows), "H5Dset_extent", path_);
    rows_ = rows;
  }

  void write(const Row* from, hsize_t first, hsize_t count) {
    const H5Handle file(check_h5(H5Dget_space(dataset_.get()), "H5Dget_space", path_), H5Sclose);
    const H5Handle memory = select(file.get(), first, count);
    check_h5(H5Dwrite(dataset_.get(), memory_.get(), memory.get(), file.get(), H5P_DEFAULT, from), "H5Dwrite",
             path_);
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
  hsize_t rows_ = 0, capacity_ = 0;  // in the dataset
  std::vector<Row> pending_;
};

}  // namespace tessera::trace
