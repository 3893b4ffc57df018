// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "parts.hpp"
#include "tessera/domain/distributed_operator.hpp"

namespace tessera::binding {

/// What an operator of this module is.
struct Described {
  ImageSpace image;
  std::shared_ptr<OperatorPlan> plan;
  Communicator comm;
};

/// An operator, placed on this rank's block at its first use. apply, adjoint and norm are collective.
class Operator {
 public:
  /// `grid`: blocks along (depth, height, width) and the multiples that they end on, as those of a denoiser; none: even.
  Operator(Described described, const std::optional<std::vector<std::int64_t>>& grid);

  Tensors apply(const at::Tensor& x);
  at::Tensor adjoint(const Tensors& y);
  double norm();

  nb::list block_ends() const;
  nb::list range_ends(std::size_t part) const;
  std::size_t parts() const { return range_.parts(); }
  std::vector<std::int64_t> shape(std::size_t part) const;  // of all samples of a part, channels first

  const Described described;

 private:
  ProductSpace domain() const { return {described.image, decomposition_}; }
  int rank() const { return described.comm.rank(); }
  Box block() const { return decomposition_.block(rank()); }
  DistributedOperator& placed(at::ScalarType type);

  Decomposition decomposition_;
  ProductSpace range_;
  std::shared_ptr<Transport> transport_;
  std::unique_ptr<DistributedOperator> op_;
};

}  // namespace tessera::binding
