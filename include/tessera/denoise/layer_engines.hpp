// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/execution.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

/// Layers of a network that are one and the same convolution to cuDNN, and its favorite engine for them.
struct LayerEngine {
  std::string convolution;     // input * weight, what is done in the same pass, type
  std::int64_t layers = 0;     // of the network
  double operations = 0;       // of all of them in one pass, multiplications and additions
  std::int64_t engines = 0;    // that may run it; a run tries the first ones out and takes the fastest
  std::int64_t engine = -1;    // cuDNN's number of its favorite; -1: none
  bool tensor_cores = false;   // of the favorite
  std::int64_t workspace = 0;  // of the favorite, bytes
};

/// One pass over height x width pixels, the most work first. `device`: empty for the current GPU, else one
/// that is described in cuDNN's own JSON and need not be there. RunError where cuDNN fails.
std::vector<LayerEngine> layer_engines(const NetworkOptions& network, Precision precision,
                                       std::int64_t height, std::int64_t width,
                                       const std::string& device = {});
/// A line per entry under a head, for a reader.
std::string engine_table(const std::vector<LayerEngine>& engines);

}  // namespace tessera
