// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/fill.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "tessera/domain/bands.hpp"
#include "tessera/domain/conjugate_gradients.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

constexpr double kMu = 0.05;
constexpr int kIterations = 200;
constexpr double kTolerance = 0.01;

// The sum over axes of -x[i - 1] + 2 x[i] - x[i + 1], x going on beyond the border as it ends there: grad^T grad.
std::unique_ptr<LocalOperator> laplacian(Axes axes) {
  const bool volume = axes == Axes::volume;
  at::Tensor kernel = at::zeros({volume ? 3 : 1, 3, 3}, at::kDouble);
  kernel[volume ? 1 : 0][1][1] = volume ? 6.0 : 4.0;
  for (const int at : {0, 2}) {
    if (volume) kernel[at][1][1] = -1.0;
    kernel[volume ? 1 : 0][at][1] = -1.0;
    kernel[volume ? 1 : 0][1][at] = -1.0;
  }
  if (volume)
    return make_volume_blur(
        {.kernel = kernel, .boundary = Boundary::replicate, .method = BlurMethod::direct});
  BlurOptions options;
  options.kernel = kernel[0];
  options.boundary = Boundary::replicate;
  options.method = BlurMethod::direct;
  return make_blur(std::move(options));
}

}  // namespace

void fill_unmeasured(const DistributedOperator& A, const at::Tensor& diagonal, double least, at::Tensor& x,
                     const Space& space) {
  const Axes axes = A.image().space.axes;
  std::vector<std::unique_ptr<LocalOperator>> parts;
  parts.push_back(laplacian(axes));
  const auto L = make_local_stack({A.domain(), A.options(), A.transport(), A.comm()}, std::move(parts));
  Measurement curved = L->make_measurement();
  const at::Tensor b = x.clone();
  // Of known pixels: A^T W y, the diagonal, their number.
  std::array<BandSum, 3> found;
  read_by_bands(
      [&](const at::Tensor& y, const at::Tensor& d) {
        const at::Tensor known = d.ge(least).to(d.scalar_type());
        found[0].add(local_dot(y, known));
        found[1].add(local_dot(d, known));
        found[2].add(known.sum(at::kDouble));
      },
      b, diagonal);
  std::array<double, 3> sums{};
  for (std::size_t k = 0; k < sums.size(); ++k)
    if (found[k].value().defined()) sums[k] = found[k].value().item<double>();
  A.comm().all_reduce(sums, Reduce::sum);
  const double mu = kMu * sums[1] / std::max(1.0, sums[2]);
  // The diagonal of M inside of the image, inverted; 0 where pixels are to stay, so that they do.
  const at::Tensor inverse = at::empty_like(diagonal);
  by_bands(
      [&](at::Tensor out, const at::Tensor& d) {
        out.copy_(d).add_(mu * (axes == Axes::volume ? 6 : 4)).reciprocal_().masked_fill_(d.ge(least), 0);
      },
      inverse, diagonal);
  const auto apply_M = [&](const at::Tensor& in, at::Tensor& out, const at::Tensor& from) {
    L->apply(in, curved);
    by_bands(
        [&](at::Tensor to, const at::Tensor& v, const at::Tensor& d, const at::Tensor& c,
            const at::Tensor& less) {
          at::mul_out(to, d, v);
          to.add_(c, mu);
          if (less.defined()) to.neg_().add_(less);
        },
        out, in, diagonal, curved[0], from);
  };
  const LinearMap M = [&](const at::Tensor& in, at::Tensor& out) { apply_M(in, out, {}); };
  const LinearMap residual = [&](const at::Tensor& in, at::Tensor& out) { apply_M(in, out, b); };
  const LinearMap precondition = [&](const at::Tensor& in, at::Tensor& out) {
    by_bands([](at::Tensor to, const at::Tensor& v, const at::Tensor& w) { at::mul_out(to, v, w); }, out, in,
             inverse);
  };

  by_bands(
      [&](at::Tensor to, const at::Tensor& d) {
        to.div_(d).masked_fill_(d.lt(least), sums[0] / std::max(sums[1], least));
      },
      x, diagonal);
  const auto first = [&] {
    at::Tensor r = at::empty_like(x);
    residual(x, r);
    BandSum sum;
    read_by_bands([&](const at::Tensor& v, const at::Tensor& w) { sum.add(local_dot(v, v.mul(w))); }, r,
                  inverse);
    double all = sum.value().defined() ? sum.value().item<double>() : 0;
    A.comm().all_reduce({&all, 1}, Reduce::sum);
    return std::sqrt(all);
  }();
  ConjugateGradients().solve({M, residual, precondition}, x, space, kIterations, kTolerance * first);
}

}  // namespace tessera
