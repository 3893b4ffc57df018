// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/fill.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

constexpr double kMu = 0.05;
constexpr int kIterations = 200;
constexpr double kTolerance = 1e-4;

// x[i + 1] - x[i] along one axis of a volume; 0 at the far border.
std::unique_ptr<LocalOperator> difference(std::size_t axis) {
  SeparableKernel kernel;
  kernel.taps[axis] = {1.0, -1.0};
  kernel.origin[axis] = 1;
  return make_separable_blur(std::move(kernel), Boundary::replicate);
}

// The same of a picture, down or to the right.
std::unique_ptr<LocalOperator> difference(std::int64_t rows, std::int64_t columns) {
  BlurOptions options;
  options.kernel = at::tensor({1.0, -1.0}, at::kDouble).reshape({rows, columns});
  options.origin = std::array<std::int64_t, 2>{rows - 1, columns - 1};
  options.boundary = Boundary::replicate;
  options.method = BlurMethod::direct;
  return make_blur(std::move(options));
}

}  // namespace

void fill_unmeasured(const DistributedOperator& A, const at::Tensor& diagonal, const at::Tensor& b,
                     at::Tensor& x, const Space& space) {
  std::vector<std::unique_ptr<LocalOperator>> parts;
  if (axes_of(A.decomposition().image()) == Axes::volume) {
    for (const std::size_t axis : {0, 1, 2}) parts.push_back(difference(axis));
  } else {
    parts.push_back(difference(2, 1));
    parts.push_back(difference(1, 2));
  }
  const auto gradient =
      make_local_stack(A.decomposition(), parts, A.image_channels(), A.options(), A.transport(), A.comm());
  Measurement slopes = gradient->make_measurement();
  std::array<double, 2> sums{local_dot(diagonal, diagonal.ne(0).to(diagonal.options())).item<double>(),
                             static_cast<double>(diagonal.ne(0).sum().item<std::int64_t>())};
  A.comm().all_reduce(sums, Reduce::sum);
  const double mu = kMu * sums[0] / std::max(1.0, sums[1]);
  const LinearMap M = [&](const at::Tensor& in, at::Tensor& out) {
    gradient->apply(in, slopes);
    gradient->adjoint(slopes, out);
    out.mul_(mu).addcmul_(diagonal, in);
  };
  const LinearMap residual = [&](const at::Tensor& in, at::Tensor& out) {
    M(in, out);
    out.neg_().add_(b);
  };
  x.zero_();
  ConjugateGradients().solve({M, residual, {}}, x, space, kIterations, kTolerance * space.norm(b));
}

}  // namespace tessera
