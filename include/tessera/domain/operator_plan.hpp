// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// An exchange of an operator, and what it carries.
struct PlannedExchange {
  ExchangePlan plan;
  std::int64_t channels = 1, element_bytes = 4;
  int applies = 1, adjoints = 1;  // how often it runs in an apply (forward, or backward where `accumulates`)
  bool accumulates = false;       // in an apply it runs backward, in an adjoint forward
  /// Bytes that the rank sends in one apply and one adjoint.
  std::int64_t bytes_sent() const;
};

/// A linear operator before anything large is read or placed: what it measures, who owns the samples, what
/// travels, what it computes.
///
/// All but place() is arithmetic, equal on all ranks, for any number of pretended ranks: tessera check, plan
/// and the memory model ask it, and ranks then run what it said. Global operators (projections, Fourier
/// samples) derive from it and from DistributedOperator. `domain` is what the operator is used on, an image
/// for the operator of a job.
class OperatorPlan {
 public:
  virtual ~OperatorPlan() = default;
  /// InputError where the image is too small to measure.
  virtual ProductSpace range(const ProductSpace& domain) const = 0;
  virtual std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const = 0;
  /// One apply and one adjoint on `rank`.
  virtual OperatorWork work(const ProductSpace& domain, int rank) const = 0;
  /// Bytes that a placed operator holds on `rank` beside what work() says: copies of blocks with halos, images
  /// between operators. By default a copy of the block and its reach where anything travels.
  virtual std::int64_t memory(const ProductSpace& domain, int rank) const;
  /// By default nothing is known.
  virtual OperatorTraits traits(const ProductSpace& domain) const;
  /// The largest image whose first part is `measured`, where the measurement says it.
  virtual std::optional<Box> image_of(const Box& measured) const { return std::nullopt; }
  /// Reads what belongs to this rank's pixels, and places the operator. Collective; InputError on all ranks.
  virtual std::unique_ptr<DistributedOperator> place(const OperatorContext& context) = 0;
};

/// A stack of local operators, see make_local_stack().
std::unique_ptr<OperatorPlan> plan_local_stack(std::vector<std::unique_ptr<LocalOperator>> parts);

}  // namespace tessera
