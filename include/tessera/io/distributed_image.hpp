// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/exchange_plan.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/io/image_sink.hpp"
#include "tessera/io/image_source.hpp"

namespace tessera {

/// Header of an image file; `file.h5` is its dataset /image, `file.h5:/name` another one, `file.tif:/2` the
/// third page, `file.tif:/all` a volume of all pages. Arrays are (H, W), (C, H, W) or (C, D, H, W), HDF5
/// datasets also in the order that attributes state. Collective; InputError equal on all ranks.
SourceInfo image_source_info(const std::string& path, const Communicator& comm);

/// Collective. What a file that is made from this one may say: space and metadata of the image there, and
/// nothing else. A default record where the path is empty or cannot be read (any more).
ImageRecord record_from(const std::string& path, const Communicator& comm);

/// Leaves out what holds on its own grid alone: a place on a map.
void forget_place(Metadata& metadata);
/// The same places and sizes for other pixels along slices, rows and columns: pixel k was `step k + first`.
void move_pixels(ImageRecord& record, const std::array<double, 3>& step, const std::array<double, 3>& first);

/// Collective. Reads each rank's box (float32 or float64 host view), file values divided by nothing.
///
/// `block.box` is the layout's box of this rank; boxes lie in the image, may overlap and be empty. Where the
/// format decodes only from the top, rank 0 streams bands and sends every rank its part; otherwise each rank
/// reads its own. Memory beyond the result: bands of some 8 MiB, never the whole image on one rank.
/// Errors: InputError equal on all ranks, also where the file turns out to be damaged on the way.
void read_image(const std::string& path, const Layout& layout, const ArrayView& block,
                const Communicator& comm);

/// Collective. Gives every sample of the file to one rank, in parts of some 8 MiB: visit(first, count). True:
/// each part holds all channels of its pixels, channel after channel.
bool visit_samples(const std::string& path, const Communicator& comm, const ImageSource::Visit& visit);

/// Collective. Writes an image that lies in the ranks' boxes: whole or absent, and the same bytes for any
/// number of ranks.
///
/// The layout's boxes are disjoint and cover the record's box; `block` (host, float32 or float64) is this
/// rank's. A shared format is written by every rank; of others rank 0 gathers bands of rows, some 8 MiB, and
/// hands them to the sink. Errors, equal on all ranks: InputError for what the format does not have, RunError
/// where the disk fails.
void write_image(const std::string& path, const ImageRecord& record, const Layout& layout,
                 const ArrayView& block, const Communicator& comm);

}  // namespace tessera
