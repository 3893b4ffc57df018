// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/core/tone_curve.hpp"

namespace tessera {

/// Samples as a file stores them and as light, any shape, type and device; the same tensor where the curve is none,
/// else a new one. On the host the same bits for any number of ranks and threads.
at::Tensor light_of(const at::Tensor& stored, const ToneCurve& curve);
at::Tensor stored_of(const at::Tensor& light, const ToneCurve& curve);

}  // namespace tessera
