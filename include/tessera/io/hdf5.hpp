// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Owns one HDF5 identifier and closes it in the right way.
class H5Handle {
 public:
  H5Handle() = default;
  H5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  H5Handle& operator=(H5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~H5Handle() { reset(); }
  void reset() {
    if (id_ >= 0 && close_) close_(id_);
    id_ = -1;
  }
  hid_t get() const { return id_; }
  hid_t release() { return std::exchange(id_, -1); }  // the caller closes it, and sees the error

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

/// What attributes say of the stored numbers of a dataset (netCDF, CF, NeXus). A sample is stored * scale + offset.
struct StoredValues {
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<std::array<double, 2>> missing =
      {};                               // from, to, both included: stored numbers that are no samples
  double least = -kNone, most = kNone;  // stored numbers beyond are none either
  double wrap = 0;                      // added to negative ones
  double scale = 1, offset = 0;

  bool packed() const { return scale != 1 || offset != 0 || wrap != 0; }
  bool plain() const { return !packed() && missing.empty() && least == -kNone && most == kNone; }
};

/// A dataset of an image or measurement file: its axes as attributes state them, else (H, W), (C, H, W) or
/// (C, D, H, W); any number type.
struct DatasetInfo {
  std::vector<std::int64_t> shape;          // as stored
  std::array<int, 4> axes{-1, -1, -1, -1};  // that are channels, slices, rows, columns; -1: none is
  std::int64_t channels = 1;
  Box box;              // the pixels, origin 0
  std::string type;     // of a sample: float32, float64, uint8, bool, ...
  StoredValues values;  // those that are missing are read as NaN
  std::string note;     // how axes and values were taken, where that is not plain; or empty
};

/// Chunks of a dataset that lie one behind the other in the file.
struct ChunkRun {
  std::int64_t first = 0, count = 0;  // in row-major order of the chunks
  std::int64_t begin = 0, bytes = 0;  // place of the first one, size of each
};
/// Where all chunks of a dataset lie, in their order.
std::vector<ChunkRun> chunk_runs(hid_t file, const std::string& dataset, const std::string& path);

/// An HDF5 file opened or created by all ranks of a communicator.
///
/// Rank 0 alone makes the structure of a created file; every rank writes its pixels to the places that rank 0
/// gave them, with plain system calls: no library waits for other ranks in the middle of a write that fails
/// on one. A created file is written under a temporary name; close() syncs and renames it, so that it is
/// whole or absent. Destruction without close() removes the temporary file and waits for nobody. Written
/// datasets are float32 or float64, as the view is. Views are host memory. Collective: open, create, close,
/// read, write, set_attribute. The others only look up and may be called by one rank alone on an opened file
/// (of a created one, on rank 0). Errors: InputError on reading, RunError on writing; equal on all ranks for
/// the collective ones.
class Hdf5File {
 public:
  static Hdf5File open(const std::string& path, const Communicator& comm);
  static Hdf5File create(const std::string& path, const Communicator& comm);
  Hdf5File(Hdf5File&&) noexcept;
  ~Hdf5File();
  /// `finish` works on the closed temporary file, before it gets its name; on rank 0.
  void close(const std::function<void(const std::string& temporary)>& finish = {});

  bool has(const std::string& object) const;
  std::vector<std::string> list(const std::string& group) const;  // names of its members, ascending
  DatasetInfo info(const std::string& dataset) const;
  /// Fills `to` (its box; may be empty) with values converted to its type. Each chunk is read once; at most
  /// 32 MiB beyond `to` (and what HDF5 needs for one chunk).
  void read(const std::string& dataset, const ArrayView& to);
  /// A new chunked dataset (512 x 512 pixels of a plane, 64^3 of a volume; not more than the image) of
  /// `global` pixels, shape (C, H, W) or (C, D, H, W); each rank writes its box, boxes do not overlap, pixels
  /// that no rank has are 0, and the attribute `axes` that says so. The bytes do not depend on the number of
  /// ranks.
  void write(const std::string& dataset, const Box& global, const ArrayView& from);
  /// Slices, rows and columns of such a dataset's chunks.
  static Index3 chunk_side(const Box& global);
  /// Collective. The same dataset, packed by gzip behind a shuffle of bytes: makes room for chunks of so many bytes, in
  /// their order (channels, slices, rows, columns), and returns where each lies. put_bytes() fills them.
  std::vector<std::int64_t> place_packed(const std::string& dataset, const Box& global, std::int64_t channels,
                                         bool wide, const std::vector<std::int64_t>& bytes);
  void put_bytes(std::int64_t at, const void* bytes, std::int64_t count);  // of any rank

  /// On a dataset or group; "/" is the file itself, a group that is missing is made. Replaces a value.
  void set_attribute(const std::string& object, const std::string& key, const std::string& value);
  void set_attribute(const std::string& object, const std::string& key, double value);
  void set_attribute(const std::string& object, const std::string& key,
                     const std::vector<std::string>& values);            // at least one
  std::vector<std::string> attributes(const std::string& object) const;  // their names, ascending
  std::optional<std::string> text_attribute(const std::string& object, const std::string& key) const;
  /// One or several texts; an empty one where HDF5 has none. Nothing where there is no such attribute.
  std::vector<std::string> text_attributes(const std::string& object, const std::string& key) const;
  std::optional<double> number_attribute(const std::string& object, const std::string& key) const;
  hid_t id() const;

 private:
  Hdf5File();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Every HDF5 return goes through here: RunError with HDF5's own innermost line where `code` is negative.
hid_t check_h5(hid_t code, const char* call, const std::string& path);

}  // namespace tessera
