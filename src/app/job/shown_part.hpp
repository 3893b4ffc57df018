// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/domain/product_space.hpp"

namespace tessera {

/// What is looked at of a part of a measurement, as a picture (C, 1, H, W) on its own grid: a picture itself; of a
/// volume its middle slice; of views of a volume the sinogram of the middle row.
struct ShownPart {
  at::Tensor values;  // this rank's
  Layout layout;
  Box box;  // all of it
};
ShownPart shown_part(const ProductSpace& layout, std::size_t part, const at::Tensor& values, int rank);

}  // namespace tessera
