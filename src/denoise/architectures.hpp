// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/denoise/graph.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

/// Shapes of a weights file by name.
using WeightShapes = std::map<std::string, std::vector<std::int64_t>>;

// The networks, one file each (src/denoise/NAME.cpp); make_graph() picks one by its name. State-dict names
// are those of deepinv's implementations. InputError for options that a network cannot have.
// infer_NAME() sets the options that the shapes of its weights tell and leaves the others as they are.

/// image + sigma map -> residual blocks at 2 to 6 scales, added skips, no biases.
/// Source: Zhang, Li, Zuo, Zhang, Van Gool, Timofte, "Plug-and-play image restoration with deep denoiser
/// prior", IEEE Trans. Pattern Anal. Mach. Intell. 44 (2022) 6360.
Graph make_drunet(const NetworkOptions& options);
void infer_drunet(const WeightShapes& shapes, NetworkOptions& options);

/// A chain of 3x3 convolutions; blind.
/// Source: Zhang, Zuo, Chen, Meng, Zhang, "Beyond a Gaussian denoiser", IEEE Trans. Image Process. 26 (2017)
/// 3142.
Graph make_dncnn(const NetworkOptions& options);
void infer_dncnn(const WeightShapes& shapes, NetworkOptions& options);

/// 2 to 5 scales, max pooling, nearest upsampling, concatenated skips; blind.
/// Source: Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015; Jin, McCann, Froustey, Unser, IEEE Trans. Image
/// Process. 26 (2017) 4509.
Graph make_unet(const NetworkOptions& options);
void infer_unet(const WeightShapes& shapes, NetworkOptions& options);

/// The options of network `name` that its weights' shapes tell.
void infer_options(const WeightShapes& shapes, NetworkOptions& options);

}  // namespace tessera
