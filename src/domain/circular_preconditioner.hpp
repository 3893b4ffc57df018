// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "tessera/domain/fourier.hpp"
#include "tessera/domain/prox_plan.hpp"
#include "tessera/domain/space.hpp"

namespace tessera {

/// About the inverse of gamma A^T W A + 1 for stacks of convolutions with any boundary, decimation and
/// weights.
///
/// Near pixel j the matrix acts as gamma lambda(j) |K|^2 + 1 in Fourier space, K the kernels as if the image
/// were a torus, lambda(j) the weight of the samples that see pixel j (0 where nothing is measured, the rim
/// of boundary valid for example). Its inverse is interpolated, pixel by pixel, between the one at a typical
/// weight, C = gamma lambda_0 |K|^2 + 1, and the one without data, 1:
///   P = (1 - a) + sqrt(a) C^-1 sqrt(a),   a(j) such that P is right where |K| is largest.
/// Symmetric, positive, at most 1. One distributed transform forth and back per use, a few images of memory.
/// Collective: construction, apply.
/// Source: interpolated inverses of J. Fessler, S. Booth, IEEE Trans. Image Process. 8 (1999) 688, with the
///   levels 0 and lambda_0; the interpolation in a is ours.
class CircularPreconditioner final : public Preconditioner {
 public:
  /// `root_weights`: per part, square roots, undefined where 1. Null where a part is neither a convolution
  /// nor a mask, and where nothing is measured. Collective.
  static std::unique_ptr<CircularPreconditioner> make(const DistributedOperator& A,
                                                      const Tensors& root_weights, const Space& space);

  bool pays(double gamma) const override;
  void prepare(double gamma) override;
  void apply(const at::Tensor& r, at::Tensor& z) override;

  /// Largest eigenvalue of A^T W A, about: what lambda_0 |K|^2 reaches.
  double curvature() const { return level_; }
  /// The same where a decimation folds the spectrum; 0 without one. P ignores that it couples aliases there.
  double aliased() const { return level_ * folded_; }

 private:
  explicit CircularPreconditioner(DistributedFourier fourier);
  void look(const DistributedOperator& A, const std::vector<Convolution>& kernels, const Tensors& observed,
            const Tensors& root_weights, const Space& space);

  DistributedFourier fourier_;
  double level_ = 0;   // lambda_0, kernels scaled to a largest |K| of about 1
  double folded_ = 0;  // |K|^2 / largest at the edge of a decimated spectrum
  at::Tensor shape_;   // |K|^2 / largest at this rank's columns, (1 or C, [depth,] height, columns)
  at::Tensor local_;   // lambda / lambda_0, at most 1, this rank's block; (1 or C, [depth,] height, width)
  double gamma_ = 0;
  at::Tensor root_;  // sqrt(a), like local_
};

/// Its row: stacks of convolutions and masks.
PreconditionerRow circular_preconditioner();

}  // namespace tessera
