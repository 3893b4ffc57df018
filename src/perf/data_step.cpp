// SPDX-License-Identifier: BSD-3-Clause
// The data step's exchanges and memory, for tessera check and for the cost model.
#include "tessera/denoise/planes.hpp"
#include "tessera/perf/model.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

ProductSpace domain_of(const DataWork& data, const Decomposition& d) { return {data.image.on(d.image()), d}; }

std::optional<ProxPlan> prox_of(const DataWork& data, const ProductSpace& domain) {
  if (!takes_prox(find_solver(data.solver).data_step)) return std::nullopt;
  return plan_prox(data.op->traits(domain), domain, data.op->range(domain), data.weighted);
}

}  // namespace

int state_images(const std::string& solver) { return find_solver(solver).images + 2; }

DataTraffic data_traffic(const Decomposition& decomposition, const DataWork& data, int rank) {
  const ProductSpace domain = domain_of(data, decomposition);
  DataTraffic traffic{.prox = prox_of(data, domain), .exchanges = {}};
  traffic.exchanges =
      traffic.prox ? traffic.prox->exchanges(*data.op, domain, rank) : data.op->exchanges(domain, rank);
  return traffic;
}

std::int64_t DataTraffic::bytes_sent() const {
  std::int64_t sum = 0;
  for (const PlannedExchange& e : exchanges) sum += e.bytes_sent();
  return sum;
}

std::int64_t data_memory(const Decomposition& d, const DataWork& data, const Index3& halo,
                         const Planes& planes, int rank) {
  const ProductSpace domain = domain_of(data, d), range = data.op->range(domain);
  const ImageSpace& image = domain.part(0).space;
  const std::int64_t samples = range.values(rank) * image.element_bytes;
  // What the denoiser's windows are cut from, the image itself where it is all here and aligned; the results by
  // one kind of planes beside those by the first.
  const std::vector<Decomposition> cuts = plane_cuts(d, planes);
  std::int64_t denoised = cuts.size() > 1 ? image.bytes(d.block(rank)) : 0;
  for (const Decomposition& cut : cuts)
    if (cut.ranks() > 1 || cut.image() != cut.padded())
      denoised += image.bytes(cut.padded_block(rank).grow({halo, halo}).intersect(cut.padded()));
  const std::optional<ProxPlan> prox = prox_of(data, domain);
  return image.bytes(d.block(rank)) * (state_images(data.solver) + (data.truth ? 1 : 0) + data.prior) +
         2 * samples + data.op->memory(domain, rank) + denoised +
         (prox ? static_cast<std::int64_t>(prox->memory(domain, data.weighted, rank)) : 0);
}

}  // namespace tessera
