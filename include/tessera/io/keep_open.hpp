// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/io/image_source.hpp"

namespace tessera {

/// While one lives, this process opens each file that it reads once: an InputFile takes what is open at its path, where
/// the file there has the same device, inode, size and time of change. They may nest. Not collective.
class KeepOpen {
 public:
  KeepOpen();
  ~KeepOpen();
  KeepOpen(const KeepOpen&) = delete;
  KeepOpen& operator=(const KeepOpen&) = delete;
};

/// Not collective. The image of open_image(), its header read once where a KeepOpen lives; but for those that are
/// decoded from the top, which may hold much. One reader at a time.
std::shared_ptr<ImageSource> shared_image(const std::string& path);

}  // namespace tessera
