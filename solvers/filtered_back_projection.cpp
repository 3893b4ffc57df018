// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include <string>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

Option window() {
  return {"window",
          std::string(word(RampWindow::cosine)),
          {.choices = words<RampWindow>()},
          "",
          "what the ramp is multiplied by: ram-lak by nothing, the others fall toward the highest frequency"};
}

/// Filtered back-projection of a parallel beam, Feldkamp's of a cone, in one pass:
///   x = P A^T (share obliqueness * ramp(obliqueness * y))
///
/// Samples that do not count are taken from their neighbors in the row; P keeps the bounds. The residual is
/// |x - start| / |x|, which says nothing. Shapes: (C, [D,] H, W), this rank's block, no halo. The denoiser is
///   not used.
/// Assumes: views at angles all around (physics/ramp_filter.hpp).
/// Errors: an operator that is no such scan is an InputError of step(), on all ranks.
/// Collective: step(). What `in` refers to must outlive the solver.
/// Source: Kak, Slaney, Principles of Computerized Tomographic Imaging, 1988, chapter 3; Feldkamp, Davis, Kress,
///   J. Opt. Soc. Am. A 1 (1984) 612.
class FilteredBackProjection final : public Solver {
 public:
  explicit FilteredBackProjection(const SolverInput& in)
      : in_(in),
        window_(from_word<RampWindow>(in.options.own.get<std::string>(window())).value()),
        x_(in.start),
        next_(at::empty_like(x_)) {}

  const at::Tensor& image() const override { return x_; }
  const at::Tensor& previous() const override { return next_; }

  IterationRecord step(int) override {
    const DataSamples s = in_.data.samples();
    TESSERA_VALIDATE(s.linear,
                     "a direct reconstruction is of linear samples (problem.likelihood.type is another than "
                     "gaussian) leave it out, or take another solver");
    for (std::size_t i = 0; i < s.y.size(); ++i) s.left[i].copy_(s.y[i]);
    s.A.direct(s.left, s.weights, window_, next_);
    in_.options.bound(next_);
    in_.data.measure(next_);
    x_.sub_(next_);
    Deferred movement = in_.space.relative_norm(x_, next_);
    std::swap(x_, next_);
    return {.residual = std::move(movement)};
  }

  std::vector<StateField> state() override { return {{.name = "x", .image = &x_}}; }

 private:
  SolverInput in_;
  RampWindow window_;
  at::Tensor x_, next_;
};

}  // namespace

SolverRow filtered_back_projection() {
  return {.name = "fbp",
          .make = make<FilteredBackProjection>,
          .data_step = DataStep::gradient,
          .images = 2,
          .options = {window()},
          .bare = true,
          .once = true};
}

}  // namespace tessera
