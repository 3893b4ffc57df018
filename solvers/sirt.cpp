// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/physics/ramp_filter.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

/// Simultaneous iterative reconstruction technique:
///   x = P (x + C A^T W R (y - A x)),   R = 1 / (A 1),   C = 1 / (A^T W R A 1)
///
/// Goes down on |A x - y|^2 weighted by W R in every step, so that its image follows the noise in the end: its prior
///   is that it begins smooth and is stopped early, by its number of iterations or by solver.stop.chi2. Pixels that
///   no sample sees stay as they were; P keeps the bounds (nonnegative: SIRT with positivity).
/// Shapes: (C, [D,] H, W), this rank's block, no halo. The denoiser is not used.
/// Assumes: no entry of A is below zero.
/// Errors: an operator with one, or another likelihood than least squares, is an InputError of the constructor, on
///   all ranks.
/// Collective: construction and step(). What `in` refers to must outlive the solver.
/// Source: Gilbert, J. Theor. Biol. 36 (1972) 105; as here: Gregor, Benson, IEEE Trans. Med. Imaging 27 (2008) 918.
class Sirt final : public Solver {
 public:
  explicit Sirt(const SolverInput& in)
      : in_(in), x_(in.start), next_(at::empty_like(x_)), seen_(at::empty_like(x_)) {
    constexpr double kHardly = 1e-6;  // of a pixel's mean
    balance_rays();
    const double mean =
        in_.space.dot(seen_, at::ones_like(seen_)) / in_.space.dot(at::ones_like(x_), at::ones_like(x_));
    TESSERA_VALIDATE(
        std::isfinite(mean) && mean > 0, "the samples see ", mean,
        " of a pixel on average (no sample that counts depends on the image) see problem.operator, its "
        "mask and kernel, and problem.weights");
    unseen_ = seen_.le(kHardly * mean);
    seen_.masked_fill_(unseen_, 1);
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int) override {
    in_.data.measure(x_);  // leaves W (A x - y)
    for (std::size_t i = 0; i < balance_.size(); ++i) samples_.left[i].mul_(balance_[i]);
    samples_.A.adjoint(samples_.left, next_);
    by_bands(
        [](at::Tensor next, const at::Tensor& seen, const at::Tensor& unseen, const at::Tensor& x) {
          next.div_(seen).masked_fill_(unseen, 0);
          at::sub_out(next, x, next);
        },
        next_, seen_, unseen_, x_);
    in_.options.bound(next_);
    Movement movement = in_.space.movement(next_, x_, work_);
    std::swap(x_, next_);
    return {.residual = std::move(movement.relative), .squares = std::move(movement.squares)};
  }

  std::vector<StateField> state() override { return {{.name = "x", .image = &x_}}; }

 private:
  // R = 1 / (A 1), 0 where that is next to nothing, and A^T W R A 1.
  void balance_rays() {
    TESSERA_VALIDATE(
        samples_.linear,
        "the solver is for linear samples (problem.likelihood.type is another than gaussian) leave "
        "it out, or take another solver");
    TESSERA_VALIDATE(
        samples_.A.traits().not_negative,
        "the solver balances rays by their lengths (an entry of the operator is below zero) take "
        "another solver, for example pgd");
    balance_ = samples_.A.make_measurement();
    samples_.A.apply(seen_.fill_(1), balance_);
    double largest = 0;
    for (const at::Tensor& sums : balance_)
      if (sums.numel() > 0) largest = std::max(largest, sums.max().item<double>());
    in_.space.comm().all_reduce({&largest, 1}, Reduce::max);
    for (std::size_t i = 0; i < balance_.size(); ++i) {
      // R A 1: 1 where a ray meets the image.
      samples_.left[i].copy_(balance_[i].gt(1e-6 * largest));
      if (samples_.weights[i].defined()) samples_.left[i].mul_(samples_.weights[i]);
      balance_[i] = sirt_scaling(balance_[i], largest);
    }
    samples_.A.adjoint(samples_.left, seen_);
    samples_.weights.clear();
  }

  SolverInput in_;
  DataSamples samples_ = in_.data.samples();
  Measurement balance_;
  at::Tensor x_, next_, work_ = at::empty_like(x_);
  at::Tensor seen_, unseen_;  // A^T W R A 1, 1 where it is next to 0; where that is
};

}  // namespace

SolverRow sirt() {
  return {
      .name = "sirt",
      .make = make<Sirt>,
      .data_step = DataStep::gradient,
      .images = 5,
      .passes = "measure x; left balance > left; adjoint > previous; previous seen x > previous; previous x",
      .bare = true,
      .balances = true};
}

}  // namespace tessera
