// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engines/cudnn_graph.hpp"
#include "tessera/core/execution.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

/// What cuDNN is asked for in one pass over height x width pixels, as the Runner states it, and how many
/// layers ask for the same.
std::map<ConvolutionProblem, std::int64_t> convolution_problems(const NetworkOptions& network,
                                                                Precision precision, std::int64_t height,
                                                                std::int64_t width);

/// 1 x 64 x 512 x 512 * 64,64,3 + bias relu BFloat16, for a reader.
std::string text(const ConvolutionProblem& p);

}  // namespace tessera
