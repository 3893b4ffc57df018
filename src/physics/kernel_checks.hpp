// SPDX-License-Identifier: BSD-3-Clause
// What the blurs of pictures and of volumes ask of their options: InputError where it is not so.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>

#include "tessera/core/error.hpp"

namespace tessera {

/// Taps per channel, (1 or C, taps along each axis), float64, host. `axes`: those of one kernel, in words.
inline at::Tensor checked_taps(const at::Tensor& kernel, std::int64_t dimensions, const char* axes,
                               const char* shape) {
  TESSERA_VALIDATE(kernel.defined() && (kernel.dim() == dimensions || kernel.dim() == dimensions + 1) &&
                       kernel.numel() > 0,
                   "the kernel has other axes (this blur needs ", axes, " of taps) give it as (", shape,
                   "), or (C, ", shape, ") with one per channel");
  at::Tensor taps = kernel.detach().to(at::TensorOptions(at::kCPU).dtype(at::kDouble)).contiguous();
  TESSERA_VALIDATE(
      taps.isfinite().all().item<bool>(),
      "the kernel has taps that are not finite (the blur would be NaN everywhere) check the file");
  return taps.dim() == dimensions ? taps.unsqueeze(0) : taps;
}

/// The tap at the sample's pixel is one of `taps`, (C, ...).
inline void check_origin(const at::Tensor& taps, std::span<const std::int64_t> origin) {
  for (std::size_t d = 0; d < origin.size(); ++d) {
    const std::int64_t size = taps.size(static_cast<std::int64_t>(d) + 1);
    TESSERA_VALIDATE(origin[d] >= 0 && origin[d] < size, "kernel.center is ", origin[d], " on axis ", d,
                     " (the kernel has ", size, " taps there) choose one of its taps");
  }
}

/// Every factor-th sample is kept, the first of them one of the first `factor`.
inline void check_decimation(std::span<const std::int64_t> factor, std::span<const std::int64_t> phase) {
  for (std::size_t d = 0; d < factor.size(); ++d) {
    TESSERA_VALIDATE(factor[d] >= 1, "operator.factor is ", factor[d], " on axis ", d,
                     " (every factor-th sample is kept) write 2, 3 or 4");
    TESSERA_VALIDATE(phase[d] >= 0 && phase[d] < factor[d], "operator.phase is ", phase[d], " on axis ", d,
                     " (the first sample is one of the first ", factor[d], ") write 0 to ", factor[d] - 1);
  }
}

/// Samples along one axis of `pixels`, with `taps` taps there; `valid`: only where the kernel fits.
inline std::int64_t samples_along(std::int64_t axis, std::int64_t pixels, std::int64_t taps, bool valid,
                                  std::int64_t factor, std::int64_t phase) {
  std::int64_t extent = pixels;
  if (valid) {
    TESSERA_VALIDATE(extent >= taps, "the image has ", extent, " pixels on axis ", axis,
                     " (boundary valid needs at least the kernel's ", taps,
                     ") use a smaller kernel or another boundary");
    extent -= taps - 1;
  }
  TESSERA_VALIDATE(extent > phase, "nothing is left to sample from phase ", phase, " on axis ", axis, " (",
                   extent, " pixels can be measured there) write 0");
  return (extent - phase + factor - 1) / factor;
}

/// The image has as many channels as there are kernels, unless there is one.
inline void check_kernels(const at::Tensor& taps, std::int64_t channels) {
  TESSERA_VALIDATE(taps.size(0) == 1 || taps.size(0) == channels, "there are ", taps.size(0),
                   " kernels (the image has ", channels,
                   " channels) give one kernel, or one per channel of the image");
}

}  // namespace tessera
