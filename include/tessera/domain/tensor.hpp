// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/comm/array.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {

/// View of a (C, H, W) or (C, D, H, W) tensor that holds these global pixels. Strides may be any.
ArrayView view(const at::Tensor& tensor, const Box& box);
ElementType element_type(at::ScalarType type);
Device tensor_device(const at::Tensor& tensor);
at::TensorOptions tensor_options(Device device, at::ScalarType type = at::kFloat);

/// Whether tensors have a depth axis: blocks of a picture are (C, H, W), of a volume (C, D, H, W). The whole
/// decides, so that it is the same on ranks whose own block has depth 1 or is empty.
enum class Axes { picture, volume };
inline Axes axes_of(const Box& whole) { return whole.extent(0) > 1 ? Axes::volume : Axes::picture; }

/// An uninitialized tensor over a box; legal for empty ones.
at::Tensor empty_block(std::int64_t channels, const Box& box, at::TensorOptions options, Axes axes);
/// Of a box that is all there is.
inline at::Tensor empty_block(std::int64_t channels, const Box& box, at::TensorOptions options) {
  return empty_block(channels, box, options, axes_of(box));
}

/// The part of a tensor that holds `box`, of which `part` is a sub-box: a view.
at::Tensor crop(const at::Tensor& tensor, const Box& box, const Box& part);

}  // namespace tessera
