// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

#include "tessera/comm/array.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/exchange_plan.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/io/image_file.hpp"

namespace tessera {

/// Header of a picture, .npy or HDF5 file; `file.h5` is its dataset /image, `file.h5:/name` another one,
/// `file.tif:/2` the third page, `file.tif:/all` a volume of all pages. Arrays are (H, W), (C, H, W) or (C,
/// D, H, W), HDF5 datasets also in the order that attributes state. Collective; InputError equal on all ranks.
struct SourceInfo : ImageSpace {
  double full_scale = 1;       // 1 inside: what the file says, else the largest value of its type, else 1
  std::string type = "uint8";  // of a sample: uint8, int32, float64, bool, ...
  bool says_scale = false;     // the file's own attribute `factor` says full_scale, `offset` the offset
  double offset = 0;           // the file value that is 0 inside
  std::string note = {};       // what was dropped, applied or taken for granted, one line, or empty
};
SourceInfo image_source_info(const std::string& path, const Communicator& comm);

/// Collective. Reads each rank's box (float32 or float64 host view), file values divided by nothing.
///
/// `block.box` is the layout's box of this rank; boxes lie in the image, may overlap and be empty. Where the
/// format decodes only from the top, rank 0 streams bands and sends every rank its part; otherwise each rank
/// reads its own. Memory beyond the result: bands of some 8 MiB, never the whole image on one rank.
/// Errors: InputError equal on all ranks, also where the file turns out to be damaged on the way.
void read_image(const std::string& path, const Layout& layout, const ArrayView& block,
                const Communicator& comm);

/// Collective. Gives every sample of the file to one rank, in parts of some 8 MiB: visit(first, count).
void visit_samples(const std::string& path, const Communicator& comm,
                   const std::function<void(const double*, std::int64_t)>& visit);

/// Collective. Gathers bands of rows on rank 0 and writes a picture of 8, 16 or 32 bits (values as
/// ImageWriter has them).
///
/// The layout's boxes are disjoint and cover `image`, which has depth 1 and may start anywhere. The ICC
/// profile comes from the picture `profile_from` (empty, or no picture: none). Errors: as ImageWriter, equal
/// on all ranks.
void write_picture(const std::string& path, const Box& image, const Layout& layout, const ArrayView& block,
                   int bits, const Communicator& comm, const std::string& profile_from = "");

}  // namespace tessera
