// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// A published measurement of one iteration on a color image of size x size.
struct Published {
  std::int64_t size;
  int ranks;
  double seconds, denoise;  // of one iteration; of its denoising step
};

/// deepinv.distributed 0.4.1 on V100 GPUs, float32: DRUNet, super-resolution with 8 operators, patches of 448
/// with an overlap of 32, strong scaling; one repetition. Source: benchmark_invprob_largescale (numpex), its
/// published strong-scaling table.
const std::vector<Published>& published_scaling();

/// The row of this size and these ranks; null where there is none.
const Published* published(std::int64_t size, int ranks);

}  // namespace tessera
