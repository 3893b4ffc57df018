// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "array_axes.hpp"
#include "hdf5/hdf5_storage.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::io {

/// The call, the file and HDF5's own innermost line, which is then forgotten.
std::string h5_problem(const char* call, const std::string& path);
/// What to do about a problem of a file that is read.
std::string read_advice(const std::string& problem);
/// InputError of the two where `code` is negative.
hid_t check_read(hid_t code, const char* call, const std::string& path);

/// Paths of all objects, soft links included.
std::vector<std::string> objects(const Hdf5File& file);
/// The shape of a dataset; empty where it is no array of real numbers.
std::vector<std::int64_t> shape_of(const Hdf5File& file, const std::string& object);
/// uint16, float32, bool, ... of a stored number; empty for another type.
std::string number_type(hid_t type);

/// What attributes of the dataset or of its group say of its axes: axistags (ilastik), DIMENSION_LABELS and
/// scales (HDF5's dimensions, netCDF), axes, interpretation (NeXus), INTERLACE_MODE (HDF5's images), three sizes in
/// element_size_um. Nothing where none does.
AxisLabels stated_axes(const Hdf5File& file, const std::string& dataset, int axes);

/// The datasets of the places along each axis: its scales (HDF5's dimensions, netCDF), else those that the attribute
/// `axes` of the dataset or its group names (NeXus). Empty where there is none.
std::vector<std::string> coordinates_of(const Hdf5File& file, const std::string& dataset, std::size_t axes);

/// Of a variable in MATLAB's files: double, uint16, logical, char and so on.
constexpr const char* kMatlabClass = "MATLAB_class";

/// The dataset that a file means where none is named: /image, else what NeXus's `default` and `signal` lead
/// to, else the only array, where it lies in no group. "/image" where there is none of them.
std::string default_dataset(const Hdf5File& file);

/// Every dataset of numbers with 2 axes or more, with its shape, for a message; a few of them where they are many.
std::string images_in(const Hdf5File& file);

/// A dataset opened to be read.
///
/// It is read in pieces, boxes along the stored axes. Pieces of one group lie in the same chunks, no two
/// groups in one, so that who reads a group whole has each chunk read and unpacked once. Not collective.
class Hdf5Reader {
 public:
  static constexpr std::int64_t kBandBytes = 32 << 20;  // what a read unpacks at once
  struct Piece {
    std::vector<hsize_t> start, count;
    std::int64_t elements() const;
  };
  using Group = std::vector<Piece>;

  /// `where`: FILE:/dataset, for messages. `start`: where the image begins along the stored axes; empty: at 0.
  Hdf5Reader(hid_t file, const std::string& dataset, DatasetInfo about, std::string where,
             std::vector<hsize_t> start = {});

  const std::string& missing() const { return holes_.note(); }  // what has no storage; or empty
  const std::vector<hsize_t>& chunk() const { return chunk_; }
  /// Cuts the pixels `region`, all channels, into pieces of at most `most` elements.
  std::vector<Group> groups(const Box& region, std::int64_t most) const;
  /// A view in host memory, of the channels that the dataset has: its box. At most kBandBytes beside it.
  void fill(const ArrayView& to) const;
  /// Values in the order of the file; missing ones are NaN.
  void read(const Piece& piece, double* dense) const;

 private:
  template <class T>
  void read_numbers(hid_t type, const Piece& piece, T* dense) const;
  void read_stored(hid_t type, const Piece& piece, void* dense) const;

  DatasetInfo about_;
  std::string where_;
  std::vector<hsize_t> start_;
  H5Handle set_, space_;
  StorageHoles holes_;
  bool bits_ = false;           // it holds bit fields
  std::vector<hsize_t> chunk_;  // 1 along each axis where chunks need not be kept together
};

}  // namespace tessera::io
