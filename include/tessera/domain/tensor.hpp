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

/// An uninitialized (C, H, W) tensor for a box of depth 1, (C, D, H, W) otherwise; legal for empty boxes.
at::Tensor empty_block(std::int64_t channels, const Box& box, at::TensorOptions options);

/// The part of a tensor that holds `box`, of which `part` is a sub-box: a view.
at::Tensor crop(const at::Tensor& tensor, const Box& box, const Box& part);

}  // namespace tessera
