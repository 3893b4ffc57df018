// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/io/hdf5.hpp"
#include "tessera/io/image_sink.hpp"

namespace tessera::io {

// What attributes of a dataset say of its image (docs/written.md), as tessera writes them: pixel_0, pixel_1 and,
// of a volume, pixel_2 with unit, or unit_0 ... where they differ; axis_0 ... where names are not z, y, x;
// channel_names; orientation. What goes along stands in the group /metadata, text as attributes and the ICC
// profile as the dataset icc_profile.

/// Fills grid, channel names and orientation of a space whose box and channels are known.
void read_words(const Hdf5File& file, const std::string& dataset, ImageSpace& space);
/// Sizes of pixels as other programs say them, where read_words() found none: the attribute element_size_um (Fiji,
/// ilastik), or places that stand evenly along an axis, with a unit (HDF5's dimension scales, NeXus's axes), or the
/// pixel sizes of the detector whose frames these are (NXdetector).
void read_grid(const Hdf5File& file, const std::string& dataset, const DatasetInfo& about, ImageSpace& space);
/// What attributes of CF say of samples that are codes of quality or classes; empty: they are none.
std::string codes_of(const Hdf5File& file, const std::string& dataset);
Metadata read_metadata(const Hdf5File& file);

/// Collective.
void write_words(Hdf5File& file, const std::string& dataset, const ImageSpace& space);
void write_metadata(Hdf5File& file, const Metadata& metadata, const Communicator& comm);

}  // namespace tessera::io
