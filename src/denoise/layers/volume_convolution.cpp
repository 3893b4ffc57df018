// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of volumes: 3 x 3 x 3 of many channels by Winograd's kernels, others by those that torch has.
#include <ATen/Context.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/conv_transpose3d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mkldnn_convolution.h>

#include <array>
#include <memory>

#include "engines/features.hpp"
#include "layers/convolutions.hpp"
#include "layers/layer_halos.hpp"
#include "winograd/winograd.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLanes = 16;  // channels that oneDNN fills up to

// Whether oneDNN is asked itself: torch's conv3d hands small volumes, and 1 x 1 x 1 on one thread, to kernels that
// write out all taps of every voxel first, which take 19 times as long (16 channels of 32 x 40 x 48, one thread).
bool asks_onednn(at::ScalarType type, bool on_device) {
  return type == at::kFloat && !on_device && at::Context::hasMKLDNN();
}

// All of x, zeros around it.
at::Tensor by_winograd(const Winograd& layer, const at::Tensor& features, bool relu) {
  const at::Tensor x =
      Winograd::takes(features) ? features : features.contiguous(at::MemoryFormat::ChannelsLast3d);
  at::Tensor y = at::empty({x.size(0), layer.outputs(), x.size(2), x.size(3), x.size(4)},
                           x.options().memory_format(at::MemoryFormat::ChannelsLast3d));
  layer.run(x, {1, 1}, nullptr, relu, y, /*front=*/1);
  return y;
}

}  // namespace

bool volume_by_winograd(at::ScalarType type, bool on_device, std::int64_t inputs, std::int64_t kernel) {
  return !on_device && Winograd::suits(type, inputs, kernel) && Winograd::runs(type);
}

std::int64_t ConvolutionalLayer::inside_volume(const Node& node, const StepSizes& s) const {
  const int change = level_change();
  const auto filled = [](std::int64_t channels) { return (channels + kLanes - 1) / kLanes * kLanes; };
  const std::int64_t in = node.reads(s.inputs), read = s.items * s.inputs * s.pixels(-change);
  if (change == 0 && !node.depthwise && volume_by_winograd(s.type, s.on_device(), in, node.kernel)) return 0;
  // Weights in another order, twice.
  std::int64_t taken = 2 * taps(node) * filled(in) * filled(node.channels);
  if (change < 0) return (taken + read + 2 * s.samples) * s.element();  // and what is added up under the taps
  if (asks_onednn(s.type, s.on_device())) {
    // Of one channel no layout shows: what comes out is brought to channels last, and lanes are filled up.
    if (s.inputs == 1) taken += s.samples;
    if (s.inputs == 1 || node.channels == 1) taken += s.samples / node.channels * kLanes;
    return taken * s.element();
  }
  // In another layout, and all taps written out; what layers of other sizes took is kept.
  return (taken + read + s.samples + 2 * (s.samples / node.channels * in * taps(node))) * s.element();
}

std::unique_ptr<LayerStep> volume_step(const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                       const ConvolutionLayer::Shape& shape) {
  const bool direct = !shape.transposed && asks_onednn(weight.scalar_type(), weight.is_cuda());
  std::shared_ptr<const Winograd> fast;
  if (shape.winograd && shape.stride == 1 && shape.groups == 1 &&
      volume_by_winograd(weight.scalar_type(), weight.is_cuda(), weight.size(1), weight.size(2)))
    fast = std::make_shared<const Winograd>(weight, bias, Winograd::available());
  const at::Tensor w = fast ? at::Tensor() : weight.contiguous(at::MemoryFormat::ChannelsLast3d);
  return make_step([w, bias, shape, direct, fast](const StepCall& call) {
    const auto convolved = [&](const at::Tensor& x) {
      if (fast) return by_winograd(*fast, x, call.step.relu);
      const std::array<std::int64_t, 3> padding{shape.padding, shape.padding, shape.padding},
          stride{shape.stride, shape.stride, shape.stride}, one{1, 1, 1};
      at::Tensor y = shape.transposed ? at::conv_transpose3d(x, w, bias, stride, padding)
                     : direct         ? at::mkldnn_convolution(x, w, bias, padding, stride, one, shape.groups)
                                      : at::conv3d(x, w, bias, stride, padding, one, shape.groups);
      if (direct && x.size(1) == 1)
        y = y.contiguous(at::MemoryFormat::ChannelsLast3d);  // it cannot tell of one
      return call.step.relu ? y.relu_() : y;
    };
    if (!call.halos || !call.halos->exchanges(call.index)) return convolved(call.in[0]);
    const Node& node = call.step.node;
    return call.halos->compute(call.index, node.level, node.channels, call.in[0],
                               [&](const at::Tensor& x, const Box& have, const Box& wanted,
                                   const at::Tensor& y) { y.copy_(narrowed(convolved(x), have, wanted)); });
  });
}

}  // namespace tessera
