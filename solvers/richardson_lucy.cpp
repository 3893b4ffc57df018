// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sub.h>

#include <utility>

#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

/// Richardson and Lucy's iteration, which is expectation maximization for counts c over a background b:
///   x = P (x / (A^T W 1)) A^T W (c / (A x + b))
///
/// Goes up on the likelihood of Poisson counts in every step, so that its image follows their noise in the end:
///   its prior is that it begins smooth, with each pixel's mean of the counts that see it, and is stopped early,
///   by its number of iterations or by solver.stop.chi2. The image stays where it is not below 0, pixels that no
///   sample sees stay as they were; P keeps the bounds. W: 1 where a sample counts, else 0.
/// Shapes: (C, [D,] H, W), this rank's block, no halo. The denoiser is not used.
/// Assumes: no entry of A is below zero, and no count.
/// Errors: a model or data that are no counts' are an InputError of the constructor, on all ranks.
/// Collective: construction and step(). What `in` refers to must outlive the solver.
/// Source: Richardson, J. Opt. Soc. Am. 62 (1972) 55; Lucy, Astron. J. 79 (1974) 745; as expectation
///   maximization, with a background: Shepp, Vardi, IEEE Trans. Med. Imaging 1 (1982) 113.
class RichardsonLucy final : public Solver {
 public:
  explicit RichardsonLucy(const SolverInput& in)
      : in_(in),
        x_(in.start),
        next_(at::empty_like(x_)),
        work_(at::empty_like(x_)),
        seen_(at::empty_like(x_)) {
    in_.data.seen_by_counts(seen_);
    unseen_ = seen_.le(0);
    seen_.masked_fill_(unseen_, 1);
    // What is 0 stays 0: a factor never lifts it.
    constexpr double kLeast = 1e-3;  // of the root mean square
    const double size = in_.space.norm(x_) / in_.space.norm(at::ones_like(x_));
    x_.clamp_min_(kLeast * (size > 0 ? size : 1));
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int) override {
    in_.data.count_ratio(x_, next_);  // A^T W (c / (A x + b))
    next_.masked_fill_(unseen_, 1);
    next_.mul_(x_).div_(seen_);
    in_.options.bound(next_);
    at::sub_out(work_, next_, x_);
    Deferred movement = in_.space.relative_norm(work_, next_);
    std::swap(x_, next_);
    return {.residual = std::move(movement)};
  }

  std::vector<StateField> state() override { return {{.name = "x", .image = &x_}}; }

 private:
  SolverInput in_;
  at::Tensor x_, next_, work_;
  at::Tensor seen_, unseen_;  // A^T W 1, 1 where it is 0; where that is
};

}  // namespace

SolverRow richardson_lucy() {
  return {.name = "richardson_lucy",
          .make = make<RichardsonLucy>,
          .data_step = DataStep::gradient,
          .images = 5,
          .bare = true,
          .counts = true};
}

}  // namespace tessera
