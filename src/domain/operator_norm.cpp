// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "largest_eigenvalue.hpp"
#include "tessera/core/random.hpp"

namespace tessera {
namespace {

// Uniform in (0, 1) by the global pixel index. Positive on purpose: the eigenvector of most kernels is nearly
// flat, and a start without mean would take long to find it.
void fill_start(const DistributedOperator& A, std::uint64_t seed, at::Tensor& x) {
  const Random random(seed, RandomStream::power_iteration);
  const Box &all = A.image().box(), &block = A.image().block(A.comm().rank());
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

double largest(const at::Tensor& t, const Communicator& comm) {
  double value = t.numel() > 0 ? t.max().item<double>() : -std::numeric_limits<double>::infinity();
  comm.all_reduce({&value, 1}, Reduce::max);
  return value;
}

// For a map M without negative entries: with any x > 0 the largest eigenvalue is at most the largest ratio of
// (M x)_j to x_j, and at least |M x| / |x|. x goes toward the eigenvector; a floor keeps it positive where
// the data say nothing.
double bound_by_ratios(const DistributedOperator& A, const LinearMap& normal, const Space& space,
                       double relative_tolerance, int max_iterations) {
  constexpr double kFloor = 1e-2;
  const double rounding = A.options().dtype() == at::kDouble ? 1e-14 : 1e-6;  // of M x, to its largest value
  at::Tensor x = A.make_image().fill_(1.0), next = A.make_image();
  double upper = std::numeric_limits<double>::infinity();
  for (int k = 0; k < max_iterations; ++k) {
    normal(x, next);
    const std::vector<double> norms = space.dots({{x, x}, {next, next}});
    const double peak = largest(next, A.comm());
    if (!(norms[1] > 0 && peak > 0)) return 0;
    upper = std::min(upper, largest(next.add(rounding * peak).div_(x), A.comm()));
    if (upper - std::sqrt(norms[1] / norms[0]) <= relative_tolerance * upper) break;
    std::swap(x, next);
    x.div_(peak).clamp_min_(0.0).add_(kFloor);
  }
  return upper;
}

// From below, by repeated use of M; how far below is not known.
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

}  // namespace

double largest_eigenvalue(const DistributedOperator& A, const LinearMap& normal, const Space& space,
                          std::uint64_t seed) {
  constexpr double kTolerance = 1e-3, kTight = 1e-5, kMargin = 1.02;
  if (A.traits().not_negative) return bound_by_ratios(A, normal, space, kTolerance, 50);
  return kMargin * power_iteration(A, normal, space, seed, kTight, 300);
}

double operator_norm_squared(DistributedOperator& A, const Space& space, std::uint64_t seed) {
  if (const auto known = A.norm_squared()) return *known;
  Measurement y = A.make_measurement();
  const LinearMap normal = [&](const at::Tensor& in, at::Tensor& out) {
    A.apply(in, y);
    A.adjoint(y, out);
  };
  return largest_eigenvalue(A, normal, space, seed);
}

}  // namespace tessera
