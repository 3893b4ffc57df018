// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/core/box.hpp"
#include "tessera/core/image_space.hpp"

namespace tessera {

// Features of pictures are (N, C, H, W), of volumes (N, C, D, H, W), channels last.

inline at::MemoryFormat channels_last(Axes axes) {
  return axes == Axes::volume ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}
inline std::vector<std::int64_t> feature_sizes(std::int64_t items, std::int64_t channels, const Box& box,
                                               Axes axes) {
  if (axes == Axes::volume) return {items, channels, box.extent(0), box.extent(1), box.extent(2)};
  return {items, channels, box.extent(1), box.extent(2)};
}
/// The pixels `wanted` of features that hold `have`; a view.
inline at::Tensor narrowed(const at::Tensor& x, const Box& have, const Box& wanted) {
  at::Tensor y = x.narrow(-2, wanted.lo()[1] - have.lo()[1], wanted.extent(1))
                     .narrow(-1, wanted.lo()[2] - have.lo()[2], wanted.extent(2));
  return x.dim() == 5 ? y.narrow(2, wanted.lo()[0] - have.lo()[0], wanted.extent(0)) : y;
}
/// The shape of a kernel of so many taps along each axis of the image.
inline std::vector<std::int64_t> kernel_shape(std::int64_t out, std::int64_t in, std::int64_t taps,
                                              Axes axes) {
  std::vector<std::int64_t> shape{out, in, taps, taps};
  if (axes == Axes::volume) shape.push_back(taps);
  return shape;
}
/// taps^2, of volumes taps^3.
inline std::int64_t kernel_taps(std::int64_t taps, Axes axes) {
  return axes == Axes::volume ? taps * taps * taps : taps * taps;
}

}  // namespace tessera
