// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <hdf5.h>

#include <cstdint>
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

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

/// A dataset of an image or measurement file: (C, H, W) or (C, D, H, W), any number type.
struct DatasetInfo {
  std::vector<std::int64_t> shape;
  std::int64_t channels = 1;
  Box box;           // the pixels, origin 0
  std::string type;  // float32, float64, uint8, ...
};

/// An HDF5 file opened or created by all ranks of a communicator (collective), or by one process alone.
///
/// Created files are written under a temporary name; close() (collective) syncs and renames, so that a file
/// is whole or absent. Destruction without close() removes the temporary file. Errors: InputError on reading,
/// RunError on writing, equal on all ranks.
class Hdf5File {
 public:
  static Hdf5File open(const std::string& path, const Communicator& comm);
  static Hdf5File create(const std::string& path, const Communicator& comm);
  Hdf5File(Hdf5File&&) noexcept;
  ~Hdf5File();
  void close();

  bool has(const std::string& dataset) const;
  std::vector<std::string> list(const std::string& group) const;
  DatasetInfo info(const std::string& dataset) const;
  /// Collective. Fills `to` (its box; may be empty) with values converted to its type (float32 or float64).
  void read(const std::string& dataset, const ArrayView& to);
  /// Collective. A chunked dataset (512 x 512, 64^3; not more than the image) of `global` pixels; each rank
  /// writes its box. The bytes do not depend on the number of ranks.
  void write(const std::string& dataset, const Box& global, const ArrayView& from);

  void set_attribute(const std::string& object, const std::string& key, const std::string& value);
  void set_attribute(const std::string& object, const std::string& key, double value);
  std::optional<std::string> text_attribute(const std::string& object, const std::string& key) const;
  std::optional<double> number_attribute(const std::string& object, const std::string& key) const;
  hid_t id() const;

 private:
  Hdf5File() = default;
  struct Impl;
  Impl* impl_ = nullptr;
};

/// Every HDF5 return goes through here; the message carries HDF5's own innermost line.
hid_t check_h5(hid_t code, const char* call, const std::string& path);

}  // namespace tessera
