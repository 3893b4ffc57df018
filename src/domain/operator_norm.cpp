// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <utility>

#include "power_iteration.hpp"
#include "tessera/core/random.hpp"

namespace tessera {
namespace {

// Uniform in (0, 1) by the global pixel index. Positive on purpose: the eigenvector of a blur with positive
// taps is nearly flat, and a start without mean would take long to find it.
void fill_start(const DistributedOperator& A, std::uint64_t seed, at::Tensor& x) {
  const Random random(seed, RandomStream::power_iteration);
  const Box &all = A.decomposition().image(), block = A.decomposition().block(A.comm().rank());
  if (block.empty()) return;
  at::Tensor host = at::empty(x.sizes(), at::kDouble);
  double* value = host.data_ptr<double>();
  const std::int64_t rows = block.extent(0) * block.extent(1), columns = block.extent(2);
  at::parallel_for(0, x.size(0) * rows, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t c = line / rows, d = line % rows / block.extent(1), h = line % block.extent(1);
      const Index3 p = Index3{d, h, 0} + block.lo() - all.lo();
      const std::int64_t first = ((c * all.extent(0) + p[0]) * all.extent(1) + p[1]) * all.extent(2) + p[2];
      for (std::int64_t w = 0; w < columns; ++w) value[line * columns + w] = random.uniform(first + w);
    }
  });
  x.copy_(host);
}

}  // namespace

double power_iteration(const DistributedOperator& A, const LinearMap& normal, const Space& space,
                       std::uint64_t seed, double relative_tolerance, int max_iterations) {
  at::Tensor x = A.make_image(), next = A.make_image();
  fill_start(A, seed, x);
  const double start = space.norm(x);
  if (!(start > 0)) return 0;
  x.div_(start);
  double estimate = 0;
  for (int k = 0; k < max_iterations; ++k) {
    normal(x, next);
    const double norm = space.norm(next);  // at least the Rayleigh quotient, at most the eigenvalue
    if (!(norm > 0)) return 0;
    const bool settled = std::abs(norm - estimate) <= relative_tolerance * norm;
    estimate = norm;
    if (settled) break;
    std::swap(x, next);
    x.div_(norm);
  }
  return estimate;
}

double operator_norm_squared(DistributedOperator& A, const Space& space, std::uint64_t seed,
                             double relative_tolerance, int max_iterations) {
  if (const auto known = A.norm_squared()) return *known;
  Measurement y = A.make_measurement();
  const LinearMap normal = [&](const at::Tensor& in, at::Tensor& out) {
    A.apply(in, y);
    A.adjoint(y, out);
  };
  return power_iteration(A, normal, space, seed, relative_tolerance, max_iterations);
}

}  // namespace tessera
