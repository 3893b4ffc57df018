// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/comm/communicator.hpp"

namespace tessera {

constexpr std::int64_t kColors = 3;

/// Of a file: whether it has one channel or may be read as one; how far three lie apart.
struct GrayChannels {
  bool one = false, three = false, colors = false;  // colors: three that differ
  double most = 0;
};
/// Looks at a file of three channels until they differ. Collective; InputError equal on all ranks.
GrayChannels gray_channels(const std::string& path, const Communicator& comm);

}  // namespace tessera
