// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <cmath>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

/// Richardson and Lucy's iteration, which is expectation maximization for counts c over a background b:
///   x = P (x / max(s, t)) (A^T W (c / (A x + b)) + max(t - s, 0)),   s = A^T W 1,   t = max(s) / 20
///
/// Goes up on the likelihood of Poisson counts in every step, so that its image follows their noise in the end:
///   its prior is that it begins smooth, with each pixel's mean of the counts that see it, and is stopped early,
///   by its number of iterations or by solver.stop.chi2. The image stays where it is not below 0, pixels that no
///   sample sees stay as they were; P keeps the bounds. W: 1 where a sample counts, else 0. With t = 0 this is the
///   iteration as published; pixels beyond the rim of the data, which next to nothing sees, would grow by whole factors
///   in each step to explain the noise of the outermost samples. A weight t - s of ratios that are 1 slows them, and
///   leaves every fixed point.
/// Shapes: (C, [D,] H, W), this rank's block, no halo. The denoiser is not used.
/// Assumes: no entry of A is below zero, and no count but a few, within noise, which count as 0.
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
    see_counts();
    constexpr double kLittle = 0.05;
    double most = seen_.numel() > 0 ? seen_.max().item().toDouble() : 0;
    in_.space.comm().all_reduce({&most, 1}, Reduce::max);
    least_ = most > 0 ? kLittle * most : 1;
    // What is 0 stays 0: a factor never lifts it.
    constexpr double kLeast = 1e-3;  // of the root mean square
    auto pixels = static_cast<double>(x_.numel());
    in_.space.comm().all_reduce({&pixels, 1}, Reduce::sum);
    const double size = in_.space.norm(x_) / std::sqrt(pixels);
    x_.clamp_min_(kLeast * (size > 0 ? size : 1));
  }

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int) override {
    in_.data.measure(x_);  // leaves A x
    const double b = *samples_.background;
    for (std::size_t i = 0; i < samples_.y.size(); ++i) {
      by_bands(
          [&](at::Tensor mean, const at::Tensor& y, const at::Tensor& w) {
            mean.add_(b);
            const at::Tensor ratio = at::where(mean > 0, (y + b).clamp_min_(0) / mean, at::zeros_like(mean));
            mean.copy_(w.defined() ? ratio.masked_fill(w.eq(0), 0).mul_(w) : ratio);
          },
          samples_.left[i], samples_.y[i], samples_.weights[i]);
    }
    samples_.A.adjoint(samples_.left, next_);  // A^T W (c / (A x + b))
    by_bands(
        [&](at::Tensor next, const at::Tensor& x, const at::Tensor& seen) {
          next.add_(at::rsub(seen, least_).clamp_min_(0)).mul_(x).div_(seen.clamp_min(least_));
        },
        next_, x_, seen_);
    in_.options.bound(next_);
    Movement movement = in_.space.movement(next_, x_, work_);
    std::swap(x_, next_);
    return {.residual = std::move(movement.relative), .squares = std::move(movement.squares)};
  }

  std::vector<StateField> state() override { return {{.name = "x", .image = &x_}}; }

 private:
  // A^T W 1.
  void see_counts() {
    TESSERA_VALIDATE(
        samples_.background,
        "the solver is for counts (problem.likelihood.type is another than poisson) write poisson, "
        "or another solver");
    std::array<double, 5> n{samples_.A.traits().not_negative ? 0.0
                                                             : 1.0};  // then samples below zero and all,
    for (std::size_t i = 0; i < samples_.y.size(); ++i) {             // and what they add up to
      by_bands(
          [&](at::Tensor left, const at::Tensor& y, const at::Tensor& w) {
            at::Tensor c = y + *samples_.background;
            if (w.defined()) c.masked_fill_(w.eq(0).expand_as(c), 0);
            n[1] += static_cast<double>(c.lt(0).sum().item().toLong());
            n[2] += static_cast<double>(w.defined() ? w.ne(0).expand_as(c).sum().item().toLong() : c.numel());
            n[3] -= c.clamp_max(0).sum(at::kDouble).item().toDouble();
            n[4] += c.clamp_min(0).sum(at::kDouble).item().toDouble();
            if (w.defined())
              left.copy_(w.expand_as(left));
            else
              left.fill_(1);
          },
          samples_.left[i], samples_.y[i], samples_.weights[i]);
    }
    in_.space.comm().all_reduce(n, Reduce::sum);
    // A camera's noise around its offset: so few, and so little below, that they count as zero.
    constexpr double kFew = 0.05, kLittle = 0.01;
    const bool below = n[1] > kFew * n[2] || n[3] > kLittle * n[4];
    TESSERA_VALIDATE(
        n[0] == 0 && !below, n[0] > 0 ? "the operator may have entries below zero" : "",
        n[0] > 0 && below ? ", and " : "",
        below ? concat(static_cast<std::int64_t>(n[1]), " samples lie below zero") : "",
        " (the solver multiplies by ratios of counts) take 'solver: {name: admm}'",
        below ? ", or write the mean of what was subtracted as problem.likelihood.background" : "");
    samples_.A.adjoint(samples_.left, seen_);
  }

  SolverInput in_;
  DataSamples samples_ = in_.data.samples();
  at::Tensor x_, next_, work_;
  at::Tensor seen_;   // s
  double least_ = 1;  // t
};

}  // namespace

SolverRow richardson_lucy() {
  return {.name = "richardson_lucy",
          .make = make<RichardsonLucy>,
          .data_step = DataStep::gradient,
          .images = 4,
          .passes = "measure x; left y > left; adjoint > previous; previous x seen > previous; previous x",
          .bare = true,
          .counts = true};
}

}  // namespace tessera
