// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/options.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {

/// Fills in what of a measured scan's geometry its samples tell: detector.axis where nobody says it, and what `wanted`
/// (a word of align) asks for: detector.rotation, views.shifts. `looked`: rows amid the detector. Says what was found and
/// how sure that is. True: there are shifts. Collective.
bool align_scan(Options& o, Scan& scan, const at::Tensor& looked, const std::string& wanted,
                std::vector<std::string>& notices, const Communicator& comm);

}  // namespace tessera
