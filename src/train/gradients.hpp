// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "loader.hpp"
#include "optimizer.hpp"
#include "orbits.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/train/train.hpp"

namespace tessera::training {

/// One step's loss, penalty and norms and, in `gradients` (in the order of the parameters' names), the
/// derivatives of loss + penalty; all of them over the whole batch. `batch`: this rank's part. `orbits` may be
/// null; `pictures` are theirs. Collective.
TrainRecord differentiate(const TrainOptions& options, const Graph& graph, const Batch& batch,
                          const Optimizer& optimizer, const std::vector<Picture>& pictures, Orbits* orbits,
                          std::int64_t step, std::vector<at::Tensor>& gradients, const Communicator& comm);

}  // namespace tessera::training
