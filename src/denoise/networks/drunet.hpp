// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {

struct DrunetEnds {
  int image, output;  // nodes
};

/// Of pictures or of volumes, whose kernels have a third axis: image + sigma map -> residual blocks at 2 to 6 scales, added skips, no biases.
/// Source: Zhang, Li, Zuo, Zhang, Van Gool, Timofte, "Plug-and-play image restoration with deep denoiser
/// prior", IEEE Trans. Pattern Anal. Mach. Intell. 44 (2022) 6360.
DrunetEnds add_drunet(Graph& g, const NetworkOptions& options, Op activation, Axes axes = Axes::picture);
void infer_drunet(const WeightShapes& shapes, NetworkOptions& options);

}  // namespace tessera
