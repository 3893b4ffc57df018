// SPDX-License-Identifier: BSD-3-Clause
// A series of exposures: samples on three axes (exposure, row, column) of an image that has two.
#include <ATen/core/Tensor.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

Option exposure_number() {
  return {"exposures", std::int64_t{3}, {.least = 2, .most = 100}, "", "length of the series"};
}

double brightness(std::int64_t t) { return std::exp2(static_cast<double>(-t)); }

// A block of pixels at every exposure.
Box through(const Box& pixels, std::int64_t exposures) {
  return pixels.empty()
             ? Box()
             : Box({0, pixels.lo()[1], pixels.lo()[2]}, {exposures, pixels.hi()[1], pixels.hi()[2]});
}

class Exposures final : public DistributedOperator {
 public:
  Exposures(const OperatorPlan& plan, const OperatorContext& context, std::int64_t number)
      : DistributedOperator(plan, context), number_(number) {}
  void apply(const Tensors& x, Tensors& y) override {
    const PhaseScope phase(Phase::op);
    for (std::int64_t t = 0; t < number_; ++t) y[0].select(1, t).copy_(x[0]).mul_(brightness(t));
  }
  void adjoint(const Tensors& y, Tensors& x) override {
    const PhaseScope phase(Phase::adjoint);
    x[0].zero_();
    for (std::int64_t t = 0; t < number_; ++t) x[0].add_(y[0].select(1, t), brightness(t));
  }
  std::optional<Tensors> diagonal(const Tensors& weights) const override {
    const bool weighted = !weights.empty() && weights[0].defined();
    at::Tensor sum = make_image().zero_();
    for (std::int64_t t = 0; t < number_; ++t) {
      const double square = brightness(t) * brightness(t);
      if (weighted)
        sum.add_(weights[0].select(1, t), square);
      else
        sum.add_(square);
    }
    return Tensors{sum};
  }

 private:
  std::int64_t number_;
};

class ExposuresPlan final : public OperatorPlan {
 public:
  explicit ExposuresPlan(std::int64_t number) : number_(number) {}
  ProductSpace range(const ProductSpace& domain) const override {
    const ProductSpace::Part& image = domain.part(0);
    std::vector<Box> owners;
    for (int r = 0; r < domain.ranks(); ++r) owners.push_back(through(image.block(r), number_));
    ImageSpace series(through(image.box(), number_), image.space.channels);
    series.grid[0] = {"exposure"};
    return ProductSpace({{"exposures", std::move(series), Layout(std::move(owners))}});
  }
  std::vector<PlannedExchange> exchanges(const ProductSpace&, int) const override { return {}; }
  OperatorWork work(const ProductSpace& domain, int rank) const override {
    return {.products = 2 * static_cast<double>(number_ * domain.values(rank))};
  }
  OperatorTraits traits(const ProductSpace&) const override {
    return {.parts = {{.pointwise = true}}, .not_negative = true};
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    return std::make_unique<Exposures>(*this, context, number_);
  }

 private:
  std::int64_t number_;
};

}  // namespace

OperatorRow exposures() {
  return {.choice = {.name = "exposures", .options = {exposure_number()}, .pointwise = true},
          .global = [](const OperatorRequest& in) {
            return std::make_unique<ExposuresPlan>(in.config.options.get<std::int64_t>(exposure_number()));
          }};
}

}  // namespace tessera
