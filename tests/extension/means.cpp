// SPDX-License-Identifier: BSD-3-Clause
// Means of rows and of columns: an operator whose samples belong to a detector, not to pixels.
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

// One part per axis that the image is projected along: rows (axis 2, the columns are summed) and columns.
constexpr std::size_t kAxes[] = {2, 1};

// A box seen along an axis: one sample thick.
Box shadow(const Box& box, std::size_t axis) {
  if (box.empty()) return {};
  Index3 lo = box.lo(), hi = box.hi();
  lo[axis] = 0;
  hi[axis] = 1;
  return {lo, hi};
}

// Who owns the samples, and whose pixels they are made of. An apply accumulates, the plan run backward; an
// adjoint runs it forward.
ExchangePlan travel(const ProductSpace::Part& image, std::size_t axis, int rank) {
  const Box samples = shadow(image.box(), axis);
  const int ranks = image.owners.ranks();
  std::vector<Box> shadows;
  for (int r = 0; r < ranks; ++r) shadows.push_back(shadow(image.block(r), axis));
  return {even_layout(samples, ranks), Layout(std::move(shadows)), samples, Border::none, rank};
}

class Means final : public DistributedOperator {
 public:
  Means(const OperatorPlan& plan, const OperatorContext& c) : DistributedOperator(plan, c) {
    const ElementType type = element_type(options().dtype().toScalarType());
    for (const std::size_t axis : kAxes) {
      const ExchangePlan travels = travel(image(), axis, rank());
      shadows_.push_back(empty_block(image().space, travels.need(), options()));
      exchanges_.push_back(std::make_unique<Exchange>(travels, transport(), image().space.planes(), type));
    }
  }

  void apply(const Tensors& x, Tensors& y) override {
    const PhaseScope phase(Phase::op);
    for (std::size_t i = 0; i < 2; ++i) {
      shadows_[i].copy_(x[0].sum(dim(i), /*keepdim=*/true)).div_(pixels(i));
      y[i].zero_();
      const PhaseScope halo(Phase::halo);
      exchanges_[i]->begin_transposed(shadow_view(i), sample_view(y, i)).wait();
    }
  }
  void adjoint(const Tensors& y, Tensors& x) override {
    const PhaseScope phase(Phase::adjoint);
    x[0].zero_();
    for (std::size_t i = 0; i < 2; ++i) {
      {
        const PhaseScope halo(Phase::halo);
        exchanges_[i]->begin(sample_view(y, i), shadow_view(i)).wait();
      }
      x[0].add_(shadows_[i], 1 / pixels(i));
    }
  }

 private:
  // Axes are counted from the last: a block has three of space, or two.
  static at::IntArrayRef dim(std::size_t i) {
    static constexpr std::int64_t dims[] = {-1, -2};
    return at::IntArrayRef(&dims[i], 1);
  }
  double pixels(std::size_t i) const { return static_cast<double>(image().box().extent(kAxes[i])); }
  ArrayView shadow_view(std::size_t i) const { return view(shadows_[i], exchanges_[i]->plan().need()); }
  ArrayView sample_view(const Tensors& y, std::size_t i) const {
    return view(y[i], exchanges_[i]->plan().own());
  }

  std::vector<at::Tensor> shadows_;                   // this rank's share of the sums
  std::vector<std::unique_ptr<Exchange>> exchanges_;  // one per part
};

class MeansPlan final : public OperatorPlan {
 public:
  ProductSpace range(const ProductSpace& domain) const override {
    const ProductSpace::Part& image = domain.part(0);
    std::vector<ProductSpace::Part> parts;
    for (const std::size_t axis : kAxes) {
      const Box samples = shadow(image.box(), axis);
      parts.push_back(
          {axis == 2 ? "rows" : "columns", image.space.on(samples), even_layout(samples, domain.ranks())});
    }
    return ProductSpace(std::move(parts));
  }
  std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const override {
    const ImageSpace& image = domain.part(0).space;
    std::vector<PlannedExchange> all;
    for (const std::size_t axis : kAxes)
      all.push_back({.plan = travel(domain.part(0), axis, rank),
                     .channels = image.planes(),
                     .element_bytes = image.element_bytes,
                     .accumulates = true});
    return all;
  }
  OperatorWork work(const ProductSpace& domain, int rank) const override {
    return {.products = 4 * static_cast<double>(domain.values(rank))};
  }
  OperatorTraits traits(const ProductSpace&) const override {
    return {.parts = {{}, {}}, .not_negative = true};
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    return std::make_unique<Means>(*this, context);
  }
};

}  // namespace

OperatorRow means() {
  return {.choice = {.name = "means"}, .global = [](const OperatorRequest&) -> std::unique_ptr<OperatorPlan> {
            return std::make_unique<MeansPlan>();
          }};
}

}  // namespace tessera
