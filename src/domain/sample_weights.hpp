// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// Weights per sample as a data term uses them: undefined where all of a part are 1, 0 where y or the weight
/// is not finite (y is then set to 0). InputError for shapes that do not fit and weights below zero. Only
/// local work: it may throw on one rank alone.
Measurement sample_weights(const DistributedOperator& A, Measurement& y, Measurement weights);

/// Number of samples that count: weight not 0, not behind a mask. Collective; at least 1.
std::int64_t counted_samples(const DistributedOperator& A, const Measurement& y, const Measurement& weights);

}  // namespace tessera
