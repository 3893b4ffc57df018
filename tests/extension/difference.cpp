// SPDX-License-Identifier: BSD-3-Clause
// Horizontal differences: an operator whose samples need a pixel to their right.
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "tessera/app/operator_table.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr Index3 kRight{0, 0, 1};  // (depth, height, width)

Option gain() { return {"gain", 1.0, {.least = 0, .above = true}, "", "what differences are multiplied by"}; }

class PlacedDifference final : public PlacedOperator {
 public:
  PlacedDifference(double gain, LocalOperator::Placement placement) : gain_(gain), p_(std::move(placement)) {}
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    at::Tensor out = y[0];
    out.copy_(right(x)).sub_(here(x)).mul_(gain_);
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    right(x).add_(y[0], gain_);
    here(x).sub_(y[0], gain_);
  }

 private:
  at::Tensor here(const at::Tensor& x) const { return crop(x, p_.input, p_.samples[0]); }
  at::Tensor right(const at::Tensor& x) const { return crop(x, p_.input, p_.samples[0].shift(kRight)); }

  double gain_;
  LocalOperator::Placement p_;
};

/// y[i, j] = gain (x[i, j + 1] - x[i, j]), 0 in the last column.
class Difference final : public LocalOperator {
 public:
  explicit Difference(double gain) : gain_(gain) {}
  std::string name() const override { return "difference"; }
  Reach reach() const override { return {{0, 0, 0}, kRight}; }
  Border border() const override { return Border::replicate; }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const> group,
                                        const Placement& placement) const override {
    return std::make_unique<PlacedDifference>(gain_, placement);
  }

 private:
  double gain_;
};

}  // namespace

OperatorRow difference() {
  return {.choice = {.name = "difference", .options = {gain()}, .same_grid = true},
          .local = [](const OperatorRequest& in) -> std::unique_ptr<LocalOperator> {
            return std::make_unique<Difference>(in.config.options.number(gain()));
          }};
}

}  // namespace tessera
