// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/app/problem.hpp"

namespace tessera {

/// How many values of the ranks' tensors are no numbers (NaN, infinite). Collective.
std::int64_t count_missing(const at::Tensor& values, const Communicator& comm);

/// InputError on all ranks where the image of a file has values that are no numbers. `consequence`, `advice`:
/// parts of the message. Collective.
void refuse_missing(const std::string& path, const at::Tensor& block, const std::string& consequence,
                    const std::string& advice, const Communicator& comm);

/// An image to be denoised: what is no number is filled from its neighbors (a network would spread it over all
/// pixels that it looks at), and what run would say of such measured values is said. `block`: this rank's
/// pixels, internal range. Lines for the user; InputError where nothing is a number. Collective.
std::vector<std::string> make_whole(const RunPlan& plan, const std::string& path, at::Tensor& block,
                                    const std::shared_ptr<Transport>& transport, const Communicator& comm);

}  // namespace tessera
