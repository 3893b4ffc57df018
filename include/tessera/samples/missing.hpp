// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// How many values of the ranks' tensors are no numbers (NaN, infinite). Collective.
std::int64_t count_missing(const at::Tensor& values, const Communicator& comm);

/// InputError on all ranks where the image of a file has values that are no numbers. `consequence`, `advice`:
/// parts of the message. Collective.
void refuse_missing(const std::string& path, const at::Tensor& block, const std::string& consequence,
                    const std::string& advice, const Communicator& comm);

}  // namespace tessera
