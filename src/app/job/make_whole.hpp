// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/app/problem.hpp"

namespace tessera {

/// An image to be denoised: what is no number is filled from its neighbors (a network would spread it over all
/// pixels that it looks at), and what run would say of such measured values is said. `block`: this rank's
/// pixels, internal range. Lines for the user; InputError where nothing is a number. Collective.
std::vector<std::string> make_whole(const RunPlan& plan, const std::string& path, at::Tensor& block,
                                    const std::shared_ptr<Transport>& transport, const Communicator& comm);

}  // namespace tessera
