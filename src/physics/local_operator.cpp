// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/local_operator.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace tessera {

void OperatorWork::add(const OperatorWork& other) {
  products += other.products;
  bytes += other.bytes;
  transforms.insert(transforms.end(), other.transforms.begin(), other.transforms.end());
  moment = std::max(moment, other.moment);
  kept += other.kept;
}

OperatorWork LocalOperator::work(std::span<const LocalOperator* const> group, std::span<const Box> samples,
                                 std::int64_t channels) const {
  OperatorWork sum;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Reach r = group[i]->reach();
    double taps = 1;
    for (std::size_t d = 0; d < 3; ++d) taps *= static_cast<double>(r.lo[d] + r.hi[d] + 1);
    if (taps == 1) continue;
    const double values = static_cast<double>(samples[i].pixels() * channels);
    sum.products += 2 * taps * values;
    sum.bytes += 4 * 5 * values;  // there x and y once each; back y, and x twice, which is added to
  }
  return sum;
}

bool LocalOperator::not_negative() const {
  const std::optional<Convolution> kernel = convolution();
  return kernel && kernel->taps.min().item<double>() >= 0;
}

}  // namespace tessera
