// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/quadratic_prox.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "circular_norm.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/domain/fourier.hpp"
#include "tessera/domain/prox_plan.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

// With the preconditioner the solver's estimate of the error is no bound; the error was up to 1.25 times as
// large in the cases of tests/domain/quadratic_prox_test.cpp.
constexpr double kMargin = 2;

constexpr double kShare = 0.01;

Measurement squares(const Measurement& roots) {
  Measurement w(roots.size());
  for (std::size_t i = 0; i < roots.size(); ++i)
    if (roots[i].defined()) w[i] = roots[i].square();
  return w;
}

}  // namespace

// Division by gamma S + 1 in Fourier space, on the image's grid or on that of a decimated measurement.
struct QuadraticProx::Closed {
  DistributedFourier fourier;
  at::Tensor symbol;  // S at this rank's columns, (1 or C, [depth,] height, columns)
  bool coarse;

  static std::unique_ptr<Closed> make(const DistributedOperator& A, const ProxPlan& plan) {
    const Index3 size = A.image().box().extents(), coarse = plan.transformed->part.box().extents();
    auto closed = std::make_unique<Closed>(
        Closed{DistributedFourier(*plan.transformed, A.options(), A.transport(), A.comm().rank()),
               {},
               plan.kind == ProxPlan::Kind::coarse});
    const std::int64_t begin = closed->fourier.first_column(), end = closed->fourier.last_column();
    const std::vector<Convolution> parts = A.traits().circular();
    std::int64_t kinds = 1;  // channels that differ
    for (const Convolution& p : parts) kinds = std::max(kinds, p.taps.size(0));
    at::Tensor symbol = at::empty({kinds, coarse[0], coarse[1], end - begin}, A.options());
    const std::int64_t most = columns_at_once(size);
    for (std::int64_t c = begin; c < end; c += most) {  // in float64: a few columns at a time
      const std::int64_t stop = std::min(end, c + most);
      at::Tensor sum = at::zeros({1, coarse[0], coarse[1], stop - c}, at::kDouble);
      for (const Convolution& p : parts) sum = sum + alias_mean(p, size, c, stop);
      symbol.slice(3, c - begin, stop - begin).copy_(sum);
    }
    closed->symbol = plan.transformed->part.space.volume() ? symbol : symbol.squeeze(1);
    return closed;
  }
};

struct QuadraticProx::Iterative {
  Measurement root_weights;
  Space space;
  ProxOptions options;
  const PreconditionerRow* row;
  double noise = 0;
  std::unique_ptr<Preconditioner> preconditioner{};  // made at the first solve; may stay null
  bool looked = false;                               // whether there is one
  ConjugateGradients solver{};

  // For this gamma where it pays, else null.
  Preconditioner* prepared(DistributedOperator& A, double gamma) {
    if (options.preconditioning == Preconditioning::never || !row) return nullptr;
    if (!std::exchange(looked, true)) preconditioner = row->make(A, root_weights, space);
    if (!preconditioner) return nullptr;
    if (options.preconditioning == Preconditioning::automatic && !preconditioner->pays(gamma)) return nullptr;
    preconditioner->prepare(gamma);
    return preconditioner.get();
  }
  // Allowed rms error: a share of the deviation sqrt(gamma) noise that u has about z where nothing is
  // measured.
  double tolerance(double gamma) const {
    if (options.tolerance > 0) return options.tolerance;
    return noise > 0 ? kShare * std::sqrt(gamma) * noise : 1e-5;
  }
  void weigh(Measurement& y) const {
    for (std::size_t i = 0; i < y.size(); ++i)
      if (root_weights[i].defined())
        by_bands([](at::Tensor r, const at::Tensor& root) { r.mul_(root).mul_(root); }, y[i],
                 root_weights[i]);
  }
};

QuadraticProx::QuadraticProx(std::shared_ptr<DistributedOperator> A, Measurement root_weights, bool weighted,
                             const Space& space, const ProxOptions& options, double noise_sigma)
    : A_(std::move(A)) {
  const ProxPlan plan = plan_prox(A_->traits(), A_->domain(), A_->range(), weighted);
  switch (plan.kind) {
    case ProxPlan::Kind::pointwise:
      diagonal_ = A_->diagonal(squares(root_weights)).value().front();
      break;
    case ProxPlan::Kind::fourier:
    case ProxPlan::Kind::coarse:
      closed_ = Closed::make(*A_, plan);
      break;
    case ProxPlan::Kind::iterative:
      iterative_ = std::make_unique<Iterative>(
          Iterative{std::move(root_weights), space, options, plan.preconditioner});
      iterative_->noise = noise_sigma;
  }
}

QuadraticProx::~QuadraticProx() = default;

bool QuadraticProx::iterative() const { return iterative_ != nullptr; }

bool QuadraticProx::wants_adjoint() const { return !iterative_ && !(closed_ && closed_->coarse); }

at::Tensor QuadraticProx::solve(const Measurement& y, const at::Tensor& adjoint, const at::Tensor& z,
                                double gamma, at::Tensor& out, Measurement& work) {
  if (wants_adjoint()) {
    if (diagonal_) {
      overwritten_soon(out);
      by_bands([&](at::Tensor to, const at::Tensor& at, const at::Tensor& toward,
                   const at::Tensor& d) { at::add_out(to, at, toward, gamma).div_(d.mul(gamma).add_(1)); },
               out, z, adjoint, *diagonal_);
    } else {
      closed_->fourier.divide({z, adjoint, gamma}, closed_->symbol, gamma, out);
    }
    return {};
  }
  if (closed_) {
    A_->apply(z, work);
    at::sub_out(work[0], y[0], work[0]);
    closed_->fourier.divide({work[0]}, closed_->symbol, gamma, work[0]);  // now y - A u
    A_->adjoint(work, out);
    at::add_out(out, z, out, gamma);
    return {};
  }
  Iterative& it = *iterative_;
  LinearSystem system;
  system.M = [&](const at::Tensor& in, at::Tensor& to) {
    A_->apply(in, work);
    it.weigh(work);
    A_->adjoint(work, to);
    at::add_out(to, in, to, gamma);
  };
  // z + gamma A^T W (y - A u) - u: the difference first, since with a large gamma A^T W y alone has a
  // rounding error above the tolerance.
  system.residual = [&](const at::Tensor& in, at::Tensor& to) {
    A_->apply(in, work);
    for (std::size_t i = 0; i < y.size(); ++i) at::sub_out(work[i], y[i], work[i]);
    it.weigh(work);
    A_->adjoint(work, to);
    by_bands([&](at::Tensor r, const at::Tensor& at,
                 const at::Tensor& x) { at::add_out(r, at, r, gamma).sub_(x); },
             to, z, in);
  };
  double margin = 1;
  if (Preconditioner* P = it.prepared(*A_, gamma)) {
    system.precondition = [P](const at::Tensor& r, at::Tensor& to) { P->apply(r, to); };
    margin = kMargin;
  }
  // |error| of this rms, all ranks and channels.
  const double root = std::sqrt(static_cast<double>(A_->domain().values()));
  const auto result =
      it.solver.solve(system, out, it.space, it.options.max_iterations, it.tolerance(gamma) * root / margin);
  ++report_.calls;
  report_.iterations += result.iterations;
  report_.missed += result.reached ? 0 : 1;
  report_.worst = std::max(report_.worst, margin * result.error / root);
  return it.solver.residual();
}

}  // namespace tessera
