// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/total_variation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/domain/tensor.hpp"
#include "tv/total_variation_step.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kSteps = 8;          // steps between two exchanges
constexpr std::int64_t kHalo = kSteps + 1;  // each step uses up one pixel, the primal image the last one

class TotalVariation final : public Denoiser {
 public:
  TotalVariation(const TotalVariationOptions& options, const DenoiserContext& context,
                 at::TensorOptions tensor)
      : options_(options),
        comm_(context.comm),
        channels_(context.image.planes()),
        axes_(context.image.axes),
        components_(axes_ == Axes::volume ? 3 : 2),
        tensor_(tensor) {
    TESSERA_VALIDATE(options.weight >= 0, "denoiser.tv.weight is ", options.weight,
                     " (a negative one rewards variation) use 0 or more");
    TESSERA_VALIDATE(options.iterations > 0, "denoiser.tv.iterations is ", options.iterations,
                     " (tv needs at least one) use 100");
    const Decomposition& d = context.decomposition;
    std::vector<Box> boxes;
    for (int r = 0; r < d.ranks(); ++r) boxes.push_back(d.block(r).grow(halo(kHalo)).intersect(d.image()));
    const ExchangePlan plan(d.layout(), Layout(boxes), d.image(), Border::none, comm_.rank());
    own_ = plan.own();
    box_ = plan.need();
    const ElementType type = element_type(c10::typeMetaToScalarType(tensor.dtype()));
    bytes_per_exchange_ = plan.pixels_sent() * channels_ * element_bytes(type);
    image_exchange_.emplace(plan, context.transport, channels_, type);
    state_exchange_.emplace(plan, context.transport, 2 * components_ * channels_, type);
  }

  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    const PhaseScope phase(Phase::denoise);
    const at::NoGradGuard no_grad;
    const double strength = this->strength(sigma);
    if (strength <= 0) {
      out.copy_(in);
      return;
    }
    allocate();
    if (!options_.warm_start) state_.zero_();
    image_exchange_->begin(view(in, own_), view(image_, box_)).wait();

    // |x - x before| / |x|, once per round, so that one reduction serves several steps.
    double t = 1;
    out.copy_(in);
    for (int done = 0; done < options_.iterations;) {
      if (done > 0 || options_.warm_start)
        state_exchange_->begin(view(crop(state_, box_, own_), own_), view(state_, box_)).wait();
      const int steps = std::min<int>(kSteps, options_.iterations - done);
      for (int k = 0; k < steps; ++k) {
        const double next = (1 + std::sqrt(1 + 4 * t * t)) / 2;
        step(strength, (t - 1) / next, kHalo - 1 - k);
        t = next;
      }
      done += steps;
      beat();
      if (change(strength, out) <= options_.tolerance * steps) break;
    }
  }

  void set_noise(double s) override { noise_ = s; }
  at::Tensor prior(const at::Tensor& x, double sigma) override {
    const PhaseScope phase(Phase::metrics);
    allocate();
    image_exchange_->begin(view(x, own_), view(image_, box_)).wait();  // apply() has no more need of image_
    return tv_value(image_, box(0)).mul_(strength(sigma));
  }
  /// Per inner iteration, without the image's own exchange at the start of a call.
  std::int64_t bytes_sent() const override { return 2 * components_ * bytes_per_exchange_ / kSteps; }
  bool bytes_are_exact() const override { return false; }
  std::string description() const override {
    return concat("tv, weight ", options_.weight, ", at most ", options_.iterations, " iterations, halo ",
                  kHalo, options_.warm_start ? ", warm start" : "");
  }
  std::vector<StateField> state() override {
    if (!options_.warm_start) return {};
    allocate();
    own_state_ = crop(state_, box_, own_);  // a view; the next call fetches the halo
    return {{.name = "dual", .image = &own_state_}};
  }

 private:
  double strength(double sigma) const {
    return options_.weight * (noise_ > 0 ? sigma * sigma / noise_ : sigma);
  }

  void allocate() {
    if (state_.defined()) return;
    state_ = empty_block(2 * components_ * channels_, box_, tensor_, axes_).zero_();
    image_ = empty_block(channels_, box_, tensor_, axes_);
  }

  Reach halo(std::int64_t n) const {
    const std::int64_t depth = axes_ == Axes::volume ? n : 0;
    return {{depth, n, n}, {depth, n, n}};
  }

  // The own block and `around` pixels of the halo, in the stored arrays.
  Box box(std::int64_t around) const {
    const Index3& at = box_.lo();
    return own_.grow(halo(around)).intersect(box_).shift({-at[0], -at[1], -at[2]});
  }
  TvPart part(std::int64_t around) const {
    const Box b = box(around);
    return {b.lo()[1], b.hi()[1], b.lo()[2], b.hi()[2]};
  }

  void step(double strength, double momentum, std::int64_t around) {
    if (own_.empty()) return;
    if (axes_ == Axes::volume)
      tv_step_volume(state_, image_, strength, momentum, box(around));
    else if (image_.is_cpu())
      tv_step(state_, image_, strength, momentum, part(around));
    else
      tv_step_operators(state_, image_, strength, momentum, part(around));
  }

  // Writes the primal image to `out`; its relative change. Collective.
  double change(double strength, at::Tensor& out) {
    std::array<double, 2> sums{};
    if (!own_.empty()) {
      const at::Tensor x = axes_ == Axes::volume ? tv_primal_volume(state_, image_, strength, box(0))
                                                 : tv_primal(state_, image_, strength, part(0));
      const at::Tensor moved = x - out;
      sums = {local_dot(moved, moved).item<double>(), local_dot(x, x).item<double>()};
      out.copy_(x);
    }
    comm_.all_reduce(sums, Reduce::sum);
    return std::sqrt(sums[0]) / (std::sqrt(sums[1]) + 1e-12);
  }

  TotalVariationOptions options_;
  double noise_ = 0;  // level of the data; 0: not known
  Communicator comm_;
  std::int64_t channels_;
  Axes axes_;
  std::int64_t components_;  // of a gradient
  at::TensorOptions tensor_;
  Box own_, box_;                        // this rank's pixels; with halo, clipped to the image
  std::int64_t bytes_per_exchange_ = 0;  // of one image
  std::optional<Exchange> image_exchange_, state_exchange_;
  at::Tensor state_, image_;  // on box_, persistent
  at::Tensor own_state_;      // of state_, on own_
};

}  // namespace

std::unique_ptr<Denoiser> make_total_variation(const TotalVariationOptions& options,
                                               const DenoiserContext& context, at::TensorOptions tensor) {
  return std::make_unique<TotalVariation>(options, context, tensor);
}

namespace {

Option weight() {
  return {
      "tv.weight",
      1.0,
      {.least = 0, .above = true},
      "",
      "the prior is weight / noise times the total variation: at sigma = noise it weighs weight times sigma"};
}
Option iterations() {
  return {"tv.iterations", std::int64_t{100}, {.least = 1, .most = 1000000}, "", "inner iterations, at most"};
}
Option tolerance() {
  return {"tv.tolerance", 1e-5, {.least = 0}, "", "relative change that ends the inner iterations"};
}

std::unique_ptr<Denoiser> from_options(const DenoiserContext& context, const Options& o,
                                       at::TensorOptions tensor) {
  return make_total_variation({.weight = o.number(weight()),
                               .iterations = static_cast<int>(o.get<std::int64_t>(iterations())),
                               .tolerance = o.number(tolerance())},
                              context, tensor);
}

}  // namespace

DenoiserRow total_variation_row() {
  // Two dual fields per axis and the image with its halo.
  return {.name = "tv",
          .options = {weight(), iterations(), tolerance()},
          .make = from_options,
          .steady = false,
          .images = 5,
          .images_of_volume = 7};
}

}  // namespace tessera
