// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/prox_plan.hpp"

#include <algorithm>
#include <iterator>

#include "circular_preconditioner.hpp"
#include "tessera/domain/fourier.hpp"

namespace tessera {
namespace {

// Of real numbers the first redistribution and the last, of complex ones the two between.
std::vector<PlannedExchange> transforms(const ProductSpace::Part& array, int rank) {
  std::vector<PlannedExchange> all;
  auto plans = DistributedFourier::plans(array.owners, array.box(), rank);
  for (std::size_t i = 0; i < plans.size(); ++i)
    all.push_back({.plan = std::move(plans[i]),
                   .channels = array.space.planes(),
                   .element_bytes = (i == 1 || i == 2 ? 2 : 1) * array.space.element_bytes,
                   .applies = 1,
                   .adjoints = 0});
  return all;
}

double transform_memory(const ProductSpace::Part& array, int rank) {
  // A spectrum; with others also rows of the image and of its spectrum. And half of a channel: the symbol.
  const double spectra = array.owners.ranks() == 1 ? 1 : 3;
  return static_cast<double>(array.space.bytes(array.block(rank))) *
         (spectra + 0.5 / static_cast<double>(array.space.planes()));
}

}  // namespace

std::vector<PreconditionerRow>& preconditioner_table() {
  static std::vector<PreconditionerRow> rows{circular_preconditioner()};
  return rows;
}

ProxPlan plan_prox(const OperatorTraits& A, const ProductSpace& domain, const ProductSpace& range,
                   bool weighted) {
  using Kind = ProxPlan::Kind;
  if (A.pointwise()) return {.kind = Kind::pointwise};
  if (domain.parts() == 1 && !domain.part(0).space.volume() && !weighted) {
    const ProductSpace::Part& image = domain.part(0);
    const std::vector<Convolution> circular = A.circular();
    const auto fine = [](const Convolution& c) { return c.factor == 1; };
    if (!circular.empty() && std::all_of(circular.begin(), circular.end(), fine))
      return {.kind = Kind::fourier, .transformed = image};
    const std::int64_t f = circular.empty() ? 1 : circular[0].factor;
    if (circular.size() == 1 && image.box().extent(1) % f == 0 && image.box().extent(2) % f == 0)
      return {.kind = Kind::coarse, .transformed = range.part(0)};
  }
  ProxPlan plan{.kind = Kind::iterative};
  for (const PreconditionerRow& row : preconditioner_table())
    if (row.fits(A, domain)) {
      plan.preconditioner = &row;
      plan.transformed = row.transformed(domain);
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
  if (kind != Kind::iterative) return transform_memory(*transformed, rank);
  double bytes = 0;  // of conjugate gradients: residual, direction, product
  for (std::size_t i = 0; i < domain.parts(); ++i)
    bytes += 3 * static_cast<double>(domain.part(i).space.bytes(domain.block(i, rank)));
  return bytes + (preconditioner ? preconditioner->memory(domain, weighted, rank) : 0);
}

}  // namespace tessera
