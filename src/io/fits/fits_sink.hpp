// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/comm/communicator.hpp"
#include "tessera/io/image_sink.hpp"

namespace tessera::io {

/// A primary array: 8 bits, 16 (BZERO 32768) or floats, rows in the order of the image, with what the record says of
/// coordinates and of the observation. Channels are the planes of its last axis, whose CTYPE is RGB or CHANNEL where the
/// coordinates have none; their names are cards CHAN1, CHAN2, ... Source: FITS 4.0.
std::unique_ptr<ImageSink> create_fits(const std::string& path, const ImageRecord& record,
                                       const Communicator& comm);

}  // namespace tessera::io
