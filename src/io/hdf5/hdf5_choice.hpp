// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hdf5/hdf5_read.hpp"
#include "tessera/io/image_source.hpp"

namespace tessera::io {

/// An image of one dataset, or of one position along some of its axes.
struct Hdf5Choice {
  std::string dataset, where;  // FILE:/PART, for messages
  DatasetInfo about;
  std::vector<hsize_t> start;  // where it begins along the stored axes
};

/// FILE:/PART names a dataset, then positions along its axes (t3, c1/z4), or `slices` or `channels`: what the axis
/// beside rows and columns holds. "": default_dataset(). InputError, with what there is to name. Not collective.
Hdf5Choice choose_hdf5(const Hdf5File& file, const std::string& path, const std::string& part);
/// The same of a dataset that is there, with those words behind it.
Hdf5Choice choose_in(const Hdf5File& file, const std::string& path, const std::string& dataset,
                     const std::vector<std::string>& words);

/// An image whose channels are datasets of one shape (Imaris, BigDataViewer).
struct Hdf5Stack {
  std::vector<std::string> datasets;
  DatasetInfo about;  // of each: one channel
  std::vector<hsize_t> start;
  SourceInfo info;  // what the file says of it
  Metadata metadata;
  std::string says;  // what this is, for `tessera info`
};
std::unique_ptr<ImageSource> stack_source(Hdf5File file, const std::string& path, Hdf5Stack stack);

/// What HDF5 has of a dataset of that shape, in words: chunks and filters.
std::string storage_text(const Hdf5File& file, const std::string& dataset, std::size_t axes);

/// Imaris 5.5. `part`: a level (0 is the finest), then positions: 1/t0/c1/z4.
bool is_imaris(const Hdf5File& file);
std::unique_ptr<ImageSource> imaris_source(Hdf5File file, const std::string& path, const std::string& part);
std::vector<std::pair<std::string, std::string>> list_imaris(const Hdf5File& file);

/// Below the dataset of BigDataViewer's level: factors of its pixels to those of level 0 along slices, rows and
/// columns; empty where the dataset is no such level.
std::vector<double> viewer_factors(const Hdf5File& file, const std::string& dataset);

}  // namespace tessera::io
