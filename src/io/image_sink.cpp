// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/image_sink.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/core/error.hpp"

namespace tessera {

void ImageSink::write(const Box& band, const float*) {
  throw ContractError(concat("the band ", band, " of a file that every rank writes"));
}

void ImageSink::write_block(const ArrayView& block) {
  throw ContractError(concat("the block ", block.box, " of a file that is written by bands"));
}

void ImageSink::write_chunk(const ArrayView& chunk) {
  throw ContractError(concat("the chunk ", chunk.box, " of a file that has none"));
}

std::uint16_t whole_number(float value, int bits) {
  const float clamped = value > 0 ? std::min(value, 1.0F) : 0.0F;  // NaN compares false
  return static_cast<std::uint16_t>(std::lround(clamped * (bits == 8 ? 255.0F : 65535.0F)));
}

}  // namespace tessera
