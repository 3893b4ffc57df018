// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/denoise/network.hpp"

namespace tessera::training {

/// A sheet (PNG) to look at: the middle of the folder's first picture, noisy, denoised and clean beside each
/// other, a row for each noise level.
void write_preview(const Network& network, const std::string& folder, const std::vector<double>& sigmas,
                   std::uint64_t seed, const std::string& path);

}  // namespace tessera::training
