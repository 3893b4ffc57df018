// SPDX-License-Identifier: BSD-3-Clause
// The arithmetic of the data step: transforms, taps, passes.
#include <algorithm>
#include <cmath>

#include "flight.hpp"

namespace tessera {

double data_moment(const DataWork& data, const Decomposition& d, int rank, double images) {
  const ProductSpace domain(data.image.on(d.image()), d);
  const OperatorWork work = data.op->work(domain, rank);
  return std::max(images * static_cast<double>(data.image.bytes(d.block(rank))), work.moment) + work.kept;
}

double data_seconds(const Machine& machine, const DataWork& data, const Decomposition& d,
                    const std::optional<ProxPlan>& prox, int rank) {
  using Kind = ProxPlan::Kind;
  const ProductSpace domain(data.image.on(d.image()), d);
  const double values = static_cast<double>(domain.values(rank));
  if (values == 0 || (prox && prox->kind == Kind::pointwise)) return 0;
  // Forward and back, this rank's share of each.
  double seconds = 0;
  if (prox && prox->transformed) {
    const ProductSpace::Part& array = prox->transformed->part;
    const double planes = static_cast<double>(array.space.planes());
    seconds += 2 * planes * machine.transform.at(static_cast<double>(array.block(rank).pixels()));
    if (prox->kind == Kind::fourier) return seconds;
  }

  const OperatorWork work = data.op->work(domain, rank);
  seconds += work.products / machine.direct + machine.copy.at(work.bytes);
  // Measured with one tile, to which all threads come.
  const double threads = machine.processors == 0 ? std::max(1, machine.threads()) : 1;
  for (const OperatorWork::Transforms& t : work.transforms)
    seconds += t.count * std::ceil(t.tiles / threads) / t.tiles * machine.transform.at(t.values);
  const double samples = static_cast<double>(data.op->range(domain).values(rank));
  // Residual, weights and norm of the parts beyond the first image's worth, which `state` holds.
  constexpr double kPasses = 8;
  return seconds + machine.copy.at(std::max(0.0, samples - values) * 4 * kPasses);
}

}  // namespace tessera
