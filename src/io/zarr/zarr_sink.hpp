// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/comm/communicator.hpp"
#include "tessera/io/image_sink.hpp"

namespace tessera::io {

/// Attributes of ours beside OME's: scale, text and orientation.
constexpr const char* kOurs = "tessera";

/// Collective. OME-Zarr 0.5 (Zarr format 3, chunks in shards where there are many) or 0.4 (format 2), with a pyramid.
std::unique_ptr<ImageSink> create_zarr(const std::string& path, const ImageRecord& record,
                                       const Communicator& comm);

}  // namespace tessera::io
