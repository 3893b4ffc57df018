// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/fill.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

constexpr double kMu = 0.05;
constexpr int kIterations = 200;
constexpr double kTolerance = 0.01;

// -x[i - 1] + 2 x[i] - x[i + 1] along each axis, x going on beyond the border as it ends there: grad^T grad.
std::vector<std::unique_ptr<LocalOperator>> laplacian(Axes axes) {
  std::vector<std::unique_ptr<LocalOperator>> parts;
  if (axes == Axes::volume) {
    for (const std::size_t axis : {0, 1, 2}) {
      SeparableKernel kernel;
      kernel.taps[axis] = {-1.0, 2.0, -1.0};
      kernel.origin[axis] = 1;
      parts.push_back(make_separable_blur(std::move(kernel), Boundary::replicate));
    }
    return parts;
  }
  BlurOptions options;
  options.kernel = at::tensor({0.0, -1.0, 0.0, -1.0, 4.0, -1.0, 0.0, -1.0, 0.0}, at::kDouble).reshape({3, 3});
  options.boundary = Boundary::replicate;
  options.method = BlurMethod::direct;
  parts.push_back(make_blur(std::move(options)));
  return parts;
}

}  // namespace

void fill_unmeasured(const DistributedOperator& A, const at::Tensor& diagonal, double least, at::Tensor& x,
                     const Space& space) {
  const Axes axes = A.image().space.axes;
  const auto L = make_local_stack({A.domain(), A.options(), A.transport(), A.comm()}, laplacian(axes));
  Measurement parts = L->make_measurement();
  const at::Tensor b = x.clone(), known = diagonal.ge(least);
  at::Tensor inverse = known.to(diagonal.options());
  // Of known pixels: A^T W y, the diagonal, their number.
  std::array<double, 3> sums{local_dot(b, inverse).item<double>(),
                             local_dot(diagonal, inverse).item<double>(),
                             static_cast<double>(known.sum().item<std::int64_t>())};
  A.comm().all_reduce(sums, Reduce::sum);
  const double mu = kMu * sums[1] / std::max(1.0, sums[2]);
  // The diagonal of M inside of the image, inverted; 0 where pixels are to stay, so that they do.
  inverse.copy_(diagonal).add_(mu * (axes == Axes::volume ? 6 : 4)).reciprocal_().masked_fill_(known, 0);
  const LinearMap M = [&](const at::Tensor& in, at::Tensor& out) {
    L->apply(in, parts);
    at::mul_out(out, diagonal, in);
    for (const at::Tensor& part : parts) out.add_(part, mu);
  };
  const LinearMap residual = [&](const at::Tensor& in, at::Tensor& out) {
    M(in, out);
    out.neg_().add_(b);
  };
  const LinearMap precondition = [&](const at::Tensor& in, at::Tensor& out) {
    at::mul_out(out, in, inverse);
  };

  x.div_(diagonal).masked_fill_(known.logical_not(), sums[0] / std::max(sums[1], least));
  const auto first = [&] {
    at::Tensor r = at::empty_like(x);
    residual(x, r);
    return std::sqrt(space.dot(r, r.mul(inverse)));
  }();
  ConjugateGradients().solve({M, residual, precondition}, x, space, kIterations, kTolerance * first);
}

}  // namespace tessera
