// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Samples that pile up below their largest value, within a narrow range above which next to nothing lies: what a full well
/// does whose pixels differ, and a bright background. `counted`: not 0 where a sample counts; undefined: everywhere.
/// Collective; the same for any number of ranks.
struct TopPile {
  double low = 0, high = 0;  // between what they lie
  double share = 0;          // of all samples
};
std::optional<TopPile> top_pile(const at::Tensor& y, const at::Tensor& counted, const Communicator& comm);

}  // namespace tessera
