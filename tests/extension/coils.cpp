// SPDX-License-Identifier: BSD-3-Clause
// A composed operator: the image as several coils see it, each with a map of its own, and then a mask.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "tessera/app/operator_table.hpp"
#include "tessera/domain/operator_algebra.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

Option coil_number() { return {"coils", std::int64_t{4}, {.least = 1, .most = 64}, "", "number of maps"}; }
Option kept_share() {
  return {"kept", 0.6, {.least = 0, .most = 1, .above = true}, "", "share of pixels that is kept"};
}

// Coil k of n over a block: 1 + cos of an angle that turns once along a diagonal of the image.
at::Tensor map_of(std::int64_t k, std::int64_t n, const Box& image, const Box& block,
                  at::TensorOptions options) {
  const auto along = [&](std::size_t axis) {
    const double turn = 2 * std::numbers::pi / static_cast<double>(image.extent(axis));
    return at::arange(block.lo()[axis], block.hi()[axis], at::kDouble) * turn;
  };
  const double phase = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return ((along(1).unsqueeze(1) + along(2).unsqueeze(0) + phase).cos() * 0.5 + 0.5).to(options);
}

class PlacedCoils final : public PlacedOperator {
 public:
  PlacedCoils(std::int64_t coils, const LocalOperator::Placement& p) : channels_(p.image.planes()), p_(p) {
    for (std::int64_t k = 0; k < coils; ++k)
      maps_.push_back(map_of(k, coils, p.image.box, p.samples[0], p.options));
  }
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    for (std::size_t k = 0; k < maps_.size(); ++k)
      of_coil(y[0], k).copy_(crop(x, p_.input, p_.samples[0])).mul_(maps_[k]);
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    at::Tensor here = crop(x, p_.input, p_.samples[0]);
    for (std::size_t k = 0; k < maps_.size(); ++k) here.addcmul_(of_coil(y[0], k), maps_[k]);
  }
  at::Tensor diagonal(const at::Tensor& weights) const override {
    at::Tensor sum;
    for (std::size_t k = 0; k < maps_.size(); ++k) {
      at::Tensor d = maps_[k].square().unsqueeze(0);
      // One weight for all samples of a pixel, or one for each.
      if (weights.defined()) d = d * (weights.size(0) == 1 ? weights : of_coil(weights, k));
      sum = sum.defined() ? sum + d : d;
    }
    return sum;
  }

 private:
  at::Tensor of_coil(const at::Tensor& y, std::size_t k) const {
    return y.narrow(0, static_cast<std::int64_t>(k) * channels_, channels_);
  }
  std::int64_t channels_;
  LocalOperator::Placement p_;
  std::vector<at::Tensor> maps_;
};

/// y_k = m_k x for coils k = 1 ... n: channels of the measurement, coil after coil.
class Coils final : public LocalOperator {
 public:
  explicit Coils(std::int64_t coils) : coils_(coils) {}
  std::string name() const override { return "coils"; }
  std::int64_t channels(std::int64_t of_image) const override { return coils_ * of_image; }
  bool pointwise() const override { return true; }
  bool not_negative() const override { return true; }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const>,
                                        const Placement& placement) const override {
    return std::make_unique<PlacedCoils>(coils_, placement);
  }

 private:
  std::int64_t coils_;
};

std::unique_ptr<OperatorPlan> alone(std::unique_ptr<LocalOperator> op) {
  std::vector<std::unique_ptr<LocalOperator>> parts;
  parts.push_back(std::move(op));
  return plan_local_stack(std::move(parts));
}

}  // namespace

OperatorRow coils() {
  return {.choice = {.name = "coils", .options = {coil_number(), kept_share()}, .pointwise = true},
          .global = [](const OperatorRequest& in) {
            const Options& o = in.config.options;
            return compose(alone(make_random_mask(o.number(kept_share()), 7)),
                           alone(std::make_unique<Coils>(o.get<std::int64_t>(coil_number()))));
          }};
}

}  // namespace tessera
