// SPDX-License-Identifier: BSD-3-Clause
#include "sample_weights.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>

#include "tessera/core/error.hpp"

namespace tessera {

Measurement sample_weights(const DistributedOperator& A, Measurement& y, Measurement weights) {
  const ProductSpace& layout = A.range();
  TESSERA_VALIDATE(y.size() == layout.parts(), "the measurement has ", y.size(),
                   " parts (the operator makes ", layout.parts(), ") give one per operator of the stack");
  TESSERA_VALIDATE(weights.empty() || weights.size() == y.size(), "there are weights for ", weights.size(),
                   " parts (the measurement has ", y.size(), ") give one per part, or none");
  weights.resize(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Box block = layout.block(i, A.comm().rank());
    TESSERA_VALIDATE(y[i].size(0) == layout.part(i).space.planes() && y[i].size(-1) == block.extent(2) &&
                         y[i].size(-2) == block.extent(1),
                     "part ", i, " of the measurement has ", y[i].sizes(), " samples (the operator makes ",
                     layout.part(i).space.planes(), " channels over ", block,
                     ") check its size and channels");
    at::Tensor& w = weights[i];
    if (w.defined()) {
      w = w.to(y[i].options()).expand_as(y[i]);
      w = w.masked_fill(w.isfinite().logical_not(), 0.0);
      TESSERA_VALIDATE(
          w.numel() == 0 || w.min().item<double>() >= 0, "part ", i,
          " has weights below zero (a weight is an inverse variance) use 0 to leave samples out");
    }
    const at::Tensor bad = y[i].isfinite().logical_not();
    if (bad.any().item<bool>()) {
      w = (w.defined() ? w : at::ones_like(y[i])).masked_fill(bad, 0.0);
      y[i] = y[i].masked_fill(bad, 0.0);
    }
  }
  return weights;
}

std::int64_t counted_samples(const DistributedOperator& A, const Measurement& y, const Measurement& weights) {
  std::int64_t count = 0;
  const Measurement observed = A.observed();
  for (std::size_t i = 0; i < y.size(); ++i) {
    at::Tensor counted;  // 1 where a sample counts; undefined: everywhere
    if (weights[i].defined()) counted = weights[i].ne(0);
    if (observed[i].defined()) {
      const at::Tensor seen = observed[i].ne(0).expand_as(y[i]);
      counted = counted.defined() ? counted.logical_and(seen) : seen;
    }
    count += counted.defined() ? counted.sum().item<std::int64_t>() : y[i].numel();
  }
  A.comm().all_reduce({&count, 1}, Reduce::sum);
  return std::max<std::int64_t>(1, count);
}

}  // namespace tessera
