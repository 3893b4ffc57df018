// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tessera {

/// What features are stored in; sums are always of floats.
enum class WinogradElement { float32, bfloat16, float16 };
constexpr int kWinogradElements = 3;

/// A channels-last image: strides in elements, the channels of a pixel lie side by side. `slice`: of a volume.
struct PixelStrides {
  std::int64_t image, row, pixel, slice = 0;
};

/// One 3x3 convolution by Winograd's F(4x4, 3x3), or one of a volume, whose slices are convolved so and added up, as its
/// kernels see it: plain numbers, since their files are compiled for one instruction set each and may share no inline
/// function with the rest of the program. Of a picture depth, out_depth and taps are 1 and front is 0.
struct WinogradTask {
  const void* x;  // of the elements that the kernel is for, as y and other
  PixelStrides x_strides;
  std::int64_t images, depth, height, width;  // of x
  std::int64_t taps;                          // of the kernel along the depth: 3 or 1
  std::int64_t front, top, left;  // slices, rows and columns of zeros before it; behind it, all is zeros
  void* y;                        // relu(x * w + bias + other), stride 1
  std::int64_t out_depth, out_height, out_width;  // of y
  PixelStrides y_strides;
  const void* other;  // added, or null; may be y itself
  PixelStrides other_strides;
  const float* bias;  // padded to whole panels, or null
  bool relu;
  bool stream;  // stores go past the caches: whole registers on aligned addresses
  bool far;     // x, other and y come from memory: asked for ahead
  /// [panel][36][tap][channel][output of the panel], of pairs [panel][36][tap][pair of channels][output][2 of bfloat16];
  /// run_direct: [output][block][tap][9][lane].
  const float* weights;
  std::int64_t channels, outputs;
  std::int64_t block_tiles, block_outputs;  // of V and M; block_outputs is whole panels
};

/// A 2x2 convolution of stride 2, or its transpose, or a 3x3 one of stride 1, from x to y; both dense in their pixels'
/// rows. run_patches: 2x2 alone, without zeros around.
struct PatchTask {
  const void* x;  // of the elements that the kernel is for, as y
  PixelStrides x_strides;
  void* y;  // relu(x * w + bias)
  PixelStrides y_strides;
  std::int64_t images, rows, columns;  // of the coarser of both
  std::int64_t height, width;          // of x
  std::int64_t side;                   // of the kernel: 2 or 3
  std::int64_t top, left;              // rows and columns of zeros before x; behind it, all is zeros
  std::int64_t channels, outputs;
  const float* bias;  // of the outputs (up: twice, one behind the other), padded to whole panels, or null
  /// [row of the patch if up][panel][pixel of the patch unless up][channel][output], of pairs
  /// [...][pair of channels][output][2 of bfloat16].
  const float* weights;
  bool up, relu, stream, far;
};

/// The kernels of one instruction set, by the elements of the features. `products` of pairs are of two neighboring
/// channels at once, both rounded to bfloat16: one instruction where the processor has it, two where it has not.
struct WinogradKernels {
  using Run = void (*)(const WinogradTask& task, std::int64_t first, std::int64_t last, std::int64_t begin,
                       std::int64_t end, float* scratch);
  using RunRows = void (*)(const WinogradTask& task, std::int64_t first, std::int64_t last);
  using RunPatches = void (*)(const PatchTask& task, std::int64_t first, std::int64_t last, float* scratch);
  std::int64_t lanes;  // floats of a register; a panel is two registers of outputs
  std::int64_t rows;   // tiles of one product, whose sums stay in registers
  /// Tiles [first, last) of a slice, at most block_tiles of them, counted through the images; of the result's slices
  /// [begin, end). `scratch` is one thread's, 64-byte aligned.
  Run run[kWinogradElements];
  Run run_pairs;  // of bfloat16
  /// The same for few outputs, without transforms: rows [first, last), counted through slices and images.
  RunRows run_direct[kWinogradElements];
  /// Rows [first, last) of the coarser grid, counted through the images. `scratch` as gathered_floats() says, unused for
  /// float32.
  RunPatches run_patches[kWinogradElements];
  RunPatches run_patch_pairs;  // of bfloat16
  /// Of the scratch that patches take, for each thread.
  std::int64_t (*gathered_floats)(const PatchTask& task);
  std::int64_t (*scratch_floats)(std::int64_t taps, std::int64_t channels, std::int64_t block_tiles,
                                 std::int64_t block_outputs);
};

constexpr std::int64_t kWinogradTile = 4;                  // outputs of a tile, along each axis
constexpr std::int64_t kWinogradSide = kWinogradTile + 2;  // inputs of a tile
constexpr std::int64_t kWinogradPoints =
    kWinogradSide * kWinogradSide;  // products of a tile, per channel pair

constexpr std::int64_t kMostBlockOutputs = 64;

/// Tiles along an axis, a ragged one at its end included. Static: each file keeps its own copy.
static inline std::int64_t winograd_tiles(std::int64_t n) { return (n + kWinogradTile - 1) / kWinogradTile; }

const WinogradKernels& winograd_avx512_bf16();
const WinogradKernels& winograd_avx512();
const WinogradKernels& winograd_avx2();

}  // namespace tessera
