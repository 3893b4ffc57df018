// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/domain/fourier.hpp"
#include "tessera/domain/operator_plan.hpp"

namespace tessera {

/// About the inverse of gamma A^T W A + 1, for conjugate gradients: symmetric, positive. Collective.
class Preconditioner {
 public:
  virtual ~Preconditioner() = default;
  /// Whether it saves time at this gamma.
  virtual bool pays(double gamma) const = 0;
  /// For this gamma from now on.
  virtual void prepare(double gamma) = 0;
  /// z <- P r.
  virtual void apply(const at::Tensor& r, at::Tensor& z) = 0;
};

/// A preconditioner: all that is known of it. The first row that fits an operator is its preconditioner.
struct PreconditionerRow {
  std::string name;
  std::function<bool(const OperatorTraits&, const ProductSpace& domain)> fits;
  /// What it transforms forth and back at each use; nullopt: nothing.
  std::function<std::optional<FourierArray>(const OperatorTraits&, const ProductSpace& domain)> transformed;
  /// Bytes that it keeps on `rank` beside the transform. `weighted`: samples have weights.
  std::function<double(const ProductSpace& domain, bool weighted, int rank)> memory;
  /// `root_weights`: per part, square roots, undefined where 1. Null where nothing is measured. Collective.
  std::function<std::unique_ptr<Preconditioner>(DistributedOperator& A, const Tensors& root_weights,
                                                const Space& space)>
      make;
};

/// src/domain/prox_plan.cpp: a program may add rows before its first job.
std::vector<PreconditionerRow>& preconditioner_table();

/// How u = argmin gamma/2 |A u - y|^2_W + 1/2 |u - z|^2 is computed. Decided here alone: QuadraticProx runs it,
/// the models of time and memory ask it. Host arithmetic, equal on all ranks.
struct ProxPlan {
  enum class Kind {
    pointwise,  // A^T W A is a product at each pixel (identity, mask)
    fourier,    // all parts are circular convolutions, W = 1: divided in Fourier space
    coarse,  // one circular convolution with a decimation that divides the image, W = 1: the same on the grid
             // of the samples, where A A^T is circulant, between an apply and an adjoint
    iterative  // conjugate gradients
  };
  Kind kind = Kind::pointwise;
  const PreconditionerRow* preconditioner = nullptr;  // of conjugate gradients
  std::optional<FourierArray> transformed{};          // what is transformed forth and back, if anything

  /// Whether A and A^T are used, in each iteration or once.
  bool uses_operator() const { return kind == Kind::coarse || kind == Kind::iterative; }
  /// Of a solution in closed form, or of one iteration.
  std::vector<PlannedExchange> exchanges(const OperatorPlan& A, const ProductSpace& domain, int rank) const;
  /// Bytes kept on `rank`: transforms, what conjugate gradients and their preconditioner have.
  double memory(const ProductSpace& domain, bool weighted, int rank) const;
};

ProxPlan plan_prox(const OperatorTraits& A, const ProductSpace& domain, const ProductSpace& range,
                   bool weighted);

}  // namespace tessera
