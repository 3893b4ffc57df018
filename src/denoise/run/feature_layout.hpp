// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "engines/convolution.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {

/// Where the features of one call lie in one arena: planned from their sizes and lifetimes, before the call.
///
/// The runner places features by it and the memory model reads its size from it, so the model cannot differ
/// from the run. Slots that are computed in place share a piece. The result is no part of it: it outlives the
/// call.
struct FeatureLayout {
  struct Piece {
    std::int64_t offset = 0, bytes = 0;  // bytes 0: nothing is made there
  };
  Piece image;                              // the input, converted to the type and layout of the arithmetic
  std::vector<Piece> results;               // by step
  std::vector<Piece> copies;                // by step: of its input, made before all else of the step
  std::vector<std::vector<Piece>> scratch;  // by step: what is made beside a result, at most
  std::vector<Piece> inside;  // of every step: what any convolution of the library makes, at most
  std::int64_t bytes = 0;     // of the arena
  std::int64_t outside = 0;   // taken beside the arena where the last layer is one that changes the level
  std::int64_t least = 0;     // most bytes alive at once: no arena can be smaller
};

struct CallShape {
  std::int64_t items = 1;
  Index3 window{};  // pixels of the image: depth, rows, columns
  at::ScalarType type = at::kFloat;
  ConvolutionLibrary library = ConvolutionLibrary::plain;
  /// Extents of the features of each level where they have margins (mode layer); empty: none do.
  std::vector<Index3> regions = {};
  /// By slot, where a part of a window is wanted: computed_parts(); empty: all of it.
  std::vector<Box> parts = {};
};
/// Of mode layer on a block, by its levels. A plane of a block that a network for pictures sees is an item.
CallShape block_call(const PassPlan& plan, const std::vector<LevelBoxes>& levels, at::ScalarType type,
                     ConvolutionLibrary library);
/// By step: whether it computes no more than is asked for. A pass in parts is worth it where any layer with
/// weights does.
std::vector<bool> in_parts(const PassPlan& plan, at::ScalarType type, ConvolutionLibrary library);

FeatureLayout lay_out(const PassPlan& plan, const CallShape& call);

/// Bytes of one call with its result: the arena, what the library takes beside it, and the result in the
/// image's type. On CUDA an estimate: the features alive at once and a fifth, since the caching allocator
/// places them.
std::int64_t call_bytes(const PassPlan& plan, const CallShape& call, bool on_cuda);

}  // namespace tessera
