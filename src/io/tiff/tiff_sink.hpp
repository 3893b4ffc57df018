// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/comm/communicator.hpp"
#include "tessera/io/image_sink.hpp"

namespace tessera::io {

/// Gray or RGB of 8 and 16 bits or floats, tiled, deflate, a page for each slice, BigTIFF where it must be.
std::unique_ptr<ImageSink> create_tiff(const std::string& path, const ImageRecord& record,
                                       const Communicator&);

}  // namespace tessera::io
