// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera::io {

/// A region cut into boxes of whole tiles (rows, columns), some `bytes` of float32 each: each tile is decoded
/// once.
std::vector<Box> tile_pieces(const Box& region, std::int64_t channels,
                             const std::array<std::int64_t, 2>& tile, std::int64_t bytes);

/// A region cut into boxes of whole chunks, some `bytes` of float32 each; a chunk beyond a few times that is cut.
std::vector<Box> chunk_pieces(const Box& region, std::int64_t channels, const Index3& chunk,
                              std::int64_t bytes);

}  // namespace tessera::io
