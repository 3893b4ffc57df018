// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/distributed_operator.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/domain/operator_plan.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {

bool OperatorTraits::pointwise() const {
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.pointwise; });
}

bool OperatorTraits::convolutional() const {
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const Part& p) {
    return p.pointwise || p.convolution.has_value();
  });
}

std::vector<Convolution> OperatorTraits::circular() const {
  std::vector<Convolution> all;
  for (const Part& p : parts) {
    if (!p.circular) return {};
    all.push_back(*p.convolution);
  }
  return all;
}

std::int64_t PlannedExchange::bytes_sent() const {
  const std::int64_t forward = plan.pixels_sent(), backward = plan.pixels_received();
  const std::int64_t pixels =
      accumulates ? applies * backward + adjoints * forward : applies * forward + adjoints * backward;
  return pixels * channels * element_bytes;
}

OperatorTraits OperatorPlan::traits(const ProductSpace& domain) const {
  OperatorTraits traits;
  traits.parts.resize(range(domain).parts());
  return traits;
}

std::int64_t OperatorPlan::memory(const ProductSpace& domain, int rank) const {
  if (exchanges(domain, rank).empty()) return 0;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < domain.parts(); ++i)
    sum += domain.part(i).space.bytes(domain.block(i, rank).grow(traits(domain).reach));
  return sum;
}

DistributedOperator::DistributedOperator(const OperatorPlan& plan, OperatorContext context)
    : context_(std::move(context)), traits_(plan.traits(context_.domain)) {
  context_.domain = context_.domain.held_as(static_cast<std::int64_t>(context_.options.dtype().itemsize()));
  range_ = plan.range(context_.domain);
  for (const PlannedExchange& e : plan.exchanges(context_.domain, context_.comm.rank()))
    bytes_sent_ += e.bytes_sent();
}

void DistributedOperator::apply(const at::Tensor& x, Tensors& y) {
  TESSERA_EXPECT(domain().parts() == 1, "one image for ", domain().parts(), " parts of a domain");
  apply(Tensors{x}, y);
}

void DistributedOperator::adjoint(const Tensors& y, at::Tensor& x) {
  TESSERA_EXPECT(domain().parts() == 1, "one image for ", domain().parts(), " parts of a domain");
  Tensors parts{x};
  adjoint(y, parts);
}

void DistributedOperator::direct(Tensors&, const Tensors&, RampWindow, at::Tensor&) {
  throw InputError(concat("the operator ", traits_.not_direct));
}

at::Tensor DistributedOperator::make_image() const {
  return empty_block(image().space, image().block(rank()), options());
}

Tensors DistributedOperator::make(const ProductSpace& space) const {
  Tensors all;
  for (std::size_t i = 0; i < space.parts(); ++i)
    all.push_back(empty_block(space.part(i).space, space.block(i, rank()), options()));
  return all;
}

}  // namespace tessera
