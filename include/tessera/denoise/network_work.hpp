// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/denoise/memory_model.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {

/// What a pass of a network computes, step by step, as the runner's plan has it: what a model of its time and
/// memory asks. No weights in it.
struct NetworkWork {
  struct Layer {
    Op op = Op::conv;
    int kernel = 1;
    std::int64_t in = 0, out = 0;  // channels
    int level = 0;                 // of the output
    double passed = 0;             // values read + written per output pixel by a step that is no convolution
    std::size_t step = 0;          // of the runner's plan
    std::int64_t tile = 1;         // side of the tiles of its output, which are computed whole
    Axes axes = Axes::picture;     // of the image
    /// Output pixels that it computes in a pass over one window of so many pixels of the image.
    double pixels(const Index3& window) const;
    /// The same for a part of its output.
    double pixels(const Box& part) const;
    /// Multiply-adds of a convolution per output pixel.
    double products() const;
  };
  std::string name;
  std::vector<Layer> layers;
  Index3 alignment{1, 1, 1}, halo{};  // halo: window_halo()
  std::int64_t channels = 1;
  Axes axes = Axes::picture;
  bool global = false;                        // a pixel depends on all pixels
  double weights = 0;                         // numbers
  double packed = 0;                          // bytes of them as float32 convolutions on a CPU want them
  std::shared_ptr<const MemoryModel> memory;  // of one pass
  std::shared_ptr<const PassPlan> plan;       // what layer-wise halos are scheduled from
  std::vector<bool> in_parts;                 // for computed_parts()
};

/// What a window of a block needs around it, pixels along each axis; 0 of a network that windows cannot serve.
Index3 window_halo(const Network& network);

/// With arithmetic in `type`, on a device or not. Pure.
NetworkWork network_work(const Network& network, at::ScalarType type, bool on_device);

}  // namespace tessera
