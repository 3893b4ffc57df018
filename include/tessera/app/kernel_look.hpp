// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "tessera/config/job.hpp"

namespace tessera {

/// What is odd about a kernel, a line each with what it does to the picture and what to write.
struct KernelLook {
  std::vector<std::string> warnings{};  // probably a fault
  std::vector<std::string> notes{};     // meant by some
  at::Tensor taps{};                    // without hot pixels, as the first line then says
};

/// Looks at a kernel from a file before it is used. Gaussians, disks, boxes, motion, interpolation kernels and
/// point spread functions without a background give no line. `taps`: (C, d, h, w), float64, as
/// stored; d = 1: of a picture.
/// `every_pixel`: samples stand at the image's own pixels, so that a kernel that is off by half a pixel shifts
/// the picture. InputError for what no blur can be made of.
KernelLook look_at_kernel(const FileKernel& file, const at::Tensor& taps, bool every_pixel);

}  // namespace tessera
