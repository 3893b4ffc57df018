// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/prox_plan.hpp"

#include <algorithm>
#include <iterator>

#include "circular_norm.hpp"
#include "circular_preconditioner.hpp"
#include "radial_preconditioner.hpp"
#include "tessera/domain/fourier.hpp"

namespace tessera {
namespace {

// Forth and back.
std::vector<PlannedExchange> transforms(const FourierArray& array, int rank) {
  std::vector<PlannedExchange> all;
  for (DistributedFourier::Turn& turn : DistributedFourier::plans(array, rank))
    all.push_back({.plan = std::move(turn.plan),
                   .channels = array.part.space.planes(),
                   .element_bytes = (turn.complex ? 2 : 1) * array.part.space.element_bytes,
                   .applies = 1,
                   .adjoints = 0});
  return all;
}

}  // namespace

std::vector<PreconditionerRow>& preconditioner_table() {
  static std::vector<PreconditionerRow> rows{circular_preconditioner(), radial_preconditioner()};
  return rows;
}

ProxPlan plan_prox(const OperatorTraits& A, const ProductSpace& domain, const ProductSpace& range,
                   bool weighted) {
  using Kind = ProxPlan::Kind;
  if (A.pointwise()) return {.kind = Kind::pointwise};
  if (domain.parts() == 1 && !weighted) {
    const ProductSpace::Part& image = domain.part(0);
    const std::vector<Convolution> circular = A.circular();
    const auto fine = [](const Convolution& c) { return !c.decimates(); };
    if (!circular.empty() && std::all_of(circular.begin(), circular.end(), fine))
      return {.kind = Kind::fourier, .transformed = FourierArray{image, FourierAxes::volume}};
    if (circular.size() == 1 && divides(circular[0].factor, image.box().extents()))
      return {.kind = Kind::coarse, .transformed = FourierArray{range.part(0), FourierAxes::volume}};
  }
  ProxPlan plan{.kind = Kind::iterative};
  for (const PreconditionerRow& row : preconditioner_table())
    if (row.fits(A, domain)) {
      plan.preconditioner = &row;
      plan.transformed = row.transformed(A, domain);
      break;
    }
  return plan;
}

std::vector<PlannedExchange> ProxPlan::exchanges(const OperatorPlan& A, const ProductSpace& domain,
                                                 int rank) const {
  std::vector<PlannedExchange> all;
  if (uses_operator()) all = A.exchanges(domain, rank);
  if (transformed) std::ranges::move(transforms(*transformed, rank), std::back_inserter(all));
  return all;
}

double ProxPlan::memory(const ProductSpace& domain, bool weighted, int rank) const {
  if (kind == Kind::pointwise) return 0;
  if (kind != Kind::iterative)  // the transform, and half of a channel: the symbol
    return DistributedFourier::memory(*transformed, rank) +
           0.5 * static_cast<double>(transformed->part.block(rank).pixels() *
                                     transformed->part.space.element_bytes);
  double bytes = 0;  // of conjugate gradients: residual, direction, product
  for (std::size_t i = 0; i < domain.parts(); ++i)
    bytes += 3 * static_cast<double>(domain.part(i).space.bytes(domain.block(i, rank)));
  if (transformed) bytes += DistributedFourier::memory(*transformed, rank);
  return bytes + (preconditioner ? preconditioner->memory(domain, weighted, rank) : 0);
}

}  // namespace tessera
