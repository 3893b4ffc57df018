// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/comm/communicator.hpp"
#include "tessera/io/image_sink.hpp"

namespace tessera::io {

/// A primary array of one channel: 8 bits, 16 (BZERO 32768) or floats, rows in the order of the image, with what the record
/// says of coordinates and of the observation. Source: FITS 4.0.
std::unique_ptr<ImageSink> create_fits(const std::string& path, const ImageRecord& record,
                                       const Communicator& comm);

}  // namespace tessera::io
