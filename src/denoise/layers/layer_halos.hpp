// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "engines/convolution.hpp"
#include "engines/window_attention.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/side_stream.hpp"

namespace tessera {

/// How the blocks of a network's features hang together: gives each convolution its neighbors' pixels.
///
/// The inside of a convolution is computed on the block as it stands while the halo travels into strips: the
/// block's own pixels along a side and what lies beyond it. Then the rim of the output is computed from the
/// strips, opposite sides in one call. Winograd's kernels compute each pixel once, straight into its place;
/// other libraries take dense tensors only, so they compute the whole block with zeros around it, and thin
/// strips replace its rim. On a device the strips have a stream of their own: their small calls fill gaps
/// beside the inside's. Exchanges are made once, one per level, width and number of channels; calls allocate
/// what the rim takes and nothing else. All ranks run the same layers in the same order, also those without
/// pixels (`skip`). Blocks of a volume by planes are (planes, C, H, W) here, each plane an item.
class LayerHalos {
 public:
  /// `features`: their type and device, which is the transport's. Not collective.
  LayerHalos(LayerSchedule schedule, const Decomposition& decomposition, int rank,
             const std::shared_ptr<Transport>& transport, const at::TensorOptions& features);

  /// The pixels that features of a level have room for: the block and the level's margin, clipped.
  const Box& region(int level) const { return levels_[static_cast<std::size_t>(level)].region; }
  const Box& block(int level) const { return levels_[static_cast<std::size_t>(level)].block; }
  const std::vector<LevelBoxes>& boxes() const { return levels_; }  // by level
  /// Exchanges of one pass, and the bytes that this rank sends for them.
  std::size_t count() const { return halos_.size(); }
  std::int64_t bytes_sent() const;

  /// The part of a feature that holds the block; a view.
  at::Tensor narrow(const at::Tensor& x, int level) const;
  /// A feature of the block with room for its margin.
  at::Tensor widen(const at::Tensor& x, int level) const;

  /// Whether this step's convolution reads remote pixels.
  bool exchanges(std::size_t step) const;
  /// What apply() (`other` undefined) or add() of the convolution gives on the whole image, on this region.
  /// `turned`: the convolution with rows and columns of its kernel exchanged, for strips along columns; where
  /// Layer::rim() wants it and the block has neighbors to the left or right.
  at::Tensor convolve(std::size_t step, ConvolutionLayer& convolution, ConvolutionLayer* turned,
                      const at::Tensor& x, bool relu, const at::Tensor& other, bool overwrite);
  /// Makes a result on `wanted` into y (items, C, rows, columns of it) from x, which holds the pixels `have`: all that
  /// `wanted` reads; beyond the image they are zeros, or missing.
  using Compute =
      std::function<void(const at::Tensor& x, const Box& have, const Box& wanted, const at::Tensor& y)>;
  /// What a layer that sees blocks without margins gives on the whole image, on this block: its inside while the
  /// pixels of the neighbors travel, then its rim.
  at::Tensor compute(std::size_t step, int level, std::int64_t outputs, const at::Tensor& x,
                     const Compute& compute);
  /// The same of attention; its windows at the rim want remote pixels.
  at::Tensor attend(std::size_t step, int level, const WindowAttention& attention, const at::Tensor& x);
  /// Adds up all ranks' numbers, in place.
  void sum(at::Tensor& numbers) const;
  /// All exchanges and sums of a pass, for ranks without pixels.
  void skip();

  /// Whether a pass, exchanges included, may be replayed as a CUDA graph.
  bool recordable() const;
  /// Collective: whether it is true on all ranks.
  bool everywhere(bool here) const;
  /// Counts the messages of a pass that was replayed.
  void count_pass() const;

 private:
  struct Rim {  // strips of one size that are computed in one call: opposite sides, or one
    std::array<std::size_t, 2> strips;
    std::int64_t count;
    bool turned;
    at::Tensor pixels;  // (count items, C, h, w) of the strips' inputs; in buffer_
  };
  struct Halo {
    LayerExchange what;
    BlockCut cut;
    std::vector<Rim> rims;
    std::array<at::Tensor, 6>
        pixels;                    // of each strip, (items, C, [depth,] rows, columns); views of the rims'
    std::vector<ArrayView> views;  // of the same memory
    Exchange* exchange = nullptr;
    bool known = false;  // its kernels have been chosen (cuDNN tries them out at the first call)
  };
  struct Shared {  // by all halos of one kind
    LayerExchange what;
    Exchange exchange;
  };

  at::Tensor empty_features(std::int64_t channels, const Box& box, const at::TensorOptions& options) const;
  at::Tensor zero_features(std::int64_t channels, const Box& box, const at::TensorOptions& options) const;
  // Of a block's features, as views and exchanges take them: (C, [D,] H, W).
  at::Tensor pixels(const at::Tensor& features) const;
  void lay_out(Halo& halo);
  Exchange::Pending begin(Halo& halo, const at::Tensor& x, const SideStream* side);
  void fill(const Halo& halo, const at::Tensor& x) const;
  at::Tensor place(const at::Tensor& feature, const Halo& halo, const Rim& rim) const;
  at::Tensor in_parts(Halo& halo, const ConvolutionLayer& convolution, const at::Tensor& x, bool relu,
                      const at::Tensor& other, bool overwrite);
  at::Tensor with_strips(Halo& halo, ConvolutionLayer& convolution, ConvolutionLayer* turned,
                         const at::Tensor& x, bool relu, const at::Tensor& other, bool overwrite);
  std::vector<at::Tensor> compute_rims(const Halo& halo, Exchange::Pending& pending,
                                       ConvolutionLayer& convolution, ConvolutionLayer* turned, bool relu,
                                       SideStream* side) const;

  std::shared_ptr<Transport> transport_;
  Axes axes_;
  std::vector<LevelBoxes> levels_;
  std::int64_t items_ = 1;         // of a network for pictures, planes of the block
  std::vector<int> halo_of_step_;  // -1: none
  std::vector<LayerSum> sums_;
  std::vector<Halo> halos_;
  std::vector<std::unique_ptr<Shared>> shared_;
  at::Tensor buffer_;                 // the strips of the exchange in flight
  std::unique_ptr<SideStream> side_;  // on a device
};

}  // namespace tessera
