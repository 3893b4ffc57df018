// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/comm/communicator.hpp"
#include "tessera/io/image_sink.hpp"

namespace tessera::io {

/// Pictures that libvips encodes, for the rows of PNG and JPEG. They say the ICC profile, and nothing else.
std::unique_ptr<ImageSink> create_png(const std::string& path, const ImageRecord& record,
                                      const Communicator&);
std::unique_ptr<ImageSink> create_jpeg(const std::string& path, const ImageRecord& record,
                                       const Communicator&);

}  // namespace tessera::io
