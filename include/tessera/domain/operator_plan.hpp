// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// What an operator is placed on: the unknown's layout, the type and device of its tensors, where messages
/// go.
struct OperatorContext {
  Decomposition decomposition;
  std::int64_t channels = 1;
  at::TensorOptions options;
  std::shared_ptr<Transport> transport;
  Communicator comm;
};

/// A linear operator before anything large is read or placed: what it measures, who owns the samples, what
/// travels, what it computes.
///
/// All but place() is arithmetic, equal on all ranks, for any number of pretended ranks: tessera check, plan
/// and the memory model ask it, and ranks then run what it said. Global operators (projections, Fourier
/// samples) derive from it and from DistributedOperator.
class OperatorPlan {
 public:
  virtual ~OperatorPlan() = default;
  /// InputError where the image is too small to measure.
  virtual MeasurementLayout layout(const Decomposition& decomposition, std::int64_t channels) const = 0;
  /// The exchanges of `rank`, of the image's channels: each runs once one way in an apply, once the other way
  /// in an adjoint.
  virtual std::vector<ExchangePlan> exchanges(const Decomposition& decomposition, int rank) const = 0;
  /// One apply and one adjoint on `rank`.
  virtual OperatorWork work(const Decomposition& decomposition, std::int64_t channels, int rank) const = 0;
  /// Pixels around a block that are read, at most.
  virtual Reach reach() const { return {}; }
  /// A^T A is a product at each pixel.
  virtual bool pointwise() const { return false; }
  /// The parts as circular convolutions of the whole image, where all of them are; else empty.
  virtual std::vector<Convolution> circular() const { return {}; }
  /// The largest image whose first part is `measured`, where the measurement says it.
  virtual std::optional<Box> image_of(const Box& measured) const { return std::nullopt; }
  /// Reads what belongs to this rank's pixels, and places the operator. Collective; InputError on all ranks.
  virtual std::unique_ptr<DistributedOperator> place(const OperatorContext& context) = 0;
};

/// A stack of local operators, see make_local_stack().
std::unique_ptr<OperatorPlan> plan_local_stack(std::vector<std::unique_ptr<LocalOperator>> parts);
/// Operators one after the other, as one with all of their parts.
std::unique_ptr<OperatorPlan> plan_stack(std::vector<std::unique_ptr<OperatorPlan>> members);

}  // namespace tessera
