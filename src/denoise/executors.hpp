// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

// The two ways to run a network on a distributed image. The options have been checked.

/// On windows of the block, one exchange per call; whole is one window.
std::unique_ptr<Denoiser> make_window_denoiser(const Network& network, const ExecutionOptions& options,
                                               const DenoiserContext& context);
/// Layer by layer on whole blocks.
std::unique_ptr<Denoiser> make_layer_denoiser(const Network& network, const ExecutionOptions& options,
                                              const DenoiserContext& context);

}  // namespace tessera
