// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/comm/array.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {

/// View of a (C, H, W) or (C, D, H, W) tensor that holds these global pixels. Strides may be any.
ArrayView view(const at::Tensor& tensor, const Box& box);
ElementType element_type(at::ScalarType type);
Device tensor_device(const at::Tensor& tensor);
at::TensorOptions tensor_options(Device device, at::ScalarType type = at::kFloat);

/// An uninitialized tensor over a box; legal for empty ones.
at::Tensor empty_block(std::int64_t channels, const Box& box, at::TensorOptions options, Axes axes);
/// Of a box that is all there is.
inline at::Tensor empty_block(std::int64_t channels, const Box& box, at::TensorOptions options) {
  return empty_block(channels, box, options, ImageSpace(box).axes);
}
/// A part of a space.
inline at::Tensor empty_block(const ImageSpace& space, const Box& box, at::TensorOptions options) {
  return empty_block(space.planes(), box, options, space.axes);
}

/// The part of a tensor that holds `box`, of which `part` is a sub-box: a view.
at::Tensor crop(const at::Tensor& tensor, const Box& box, const Box& part);

}  // namespace tessera
