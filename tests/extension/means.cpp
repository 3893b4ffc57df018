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
ExchangePlan travel(const Decomposition& d, std::size_t axis, int rank) {
  const Box samples = shadow(d.image(), axis);
  std::vector<Box> shadows;
  for (int r = 0; r < d.ranks(); ++r) shadows.push_back(shadow(d.block(r), axis));
  return {even_layout(samples, d.ranks()), Layout(std::move(shadows)), samples, Border::none, rank};
}

MeasurementLayout detectors(const Decomposition& d, std::int64_t channels) {
  std::vector<MeasurementLayout::Part> parts;
  for (const std::size_t axis : kAxes) {
    const Box samples = shadow(d.image(), axis);
    parts.push_back({axis == 2 ? "rows" : "columns", samples, channels, even_layout(samples, d.ranks())});
  }
  return MeasurementLayout(std::move(parts));
}

class Means final : public DistributedOperator {
 public:
  explicit Means(const OperatorContext& c) : c_(c), layout_(detectors(c.decomposition, c.channels)) {
    const ElementType type = element_type(c.options.dtype().toScalarType());
    for (const std::size_t axis : kAxes) {
      const ExchangePlan plan = travel(c_.decomposition, axis, c_.comm.rank());
      shadows_.push_back(empty_block(c_.channels, plan.need(), c_.options));
      exchanges_.push_back(std::make_unique<Exchange>(plan, c_.transport, c_.channels, type));
    }
  }

  void apply(const at::Tensor& x, Measurement& y) override {
    const PhaseScope phase(Phase::op);
    for (std::size_t i = 0; i < 2; ++i) {
      shadows_[i].copy_(x.sum(dim(i), /*keepdim=*/true)).div_(pixels(i));
      y[i].zero_();
      const PhaseScope halo(Phase::halo);
      exchanges_[i]->begin_transposed(shadow_view(i), sample_view(y, i)).wait();
    }
  }
  void adjoint(const Measurement& y, at::Tensor& x) override {
    const PhaseScope phase(Phase::adjoint);
    x.zero_();
    for (std::size_t i = 0; i < 2; ++i) {
      {
        const PhaseScope halo(Phase::halo);
        exchanges_[i]->begin(sample_view(y, i), shadow_view(i)).wait();
      }
      x.add_(shadows_[i], 1 / pixels(i));
    }
  }

  bool not_negative() const override { return true; }
  std::int64_t bytes_sent() const override {
    std::int64_t pixels = 0;
    for (const auto& e : exchanges_) pixels += e->plan().pixels_sent() + e->plan().pixels_received();
    return pixels * c_.channels * static_cast<std::int64_t>(c_.options.dtype().itemsize());
  }
  const MeasurementLayout& layout() const override { return layout_; }
  at::TensorOptions options() const override { return c_.options; }
  std::int64_t image_channels() const override { return c_.channels; }
  const Decomposition& decomposition() const override { return c_.decomposition; }
  const Communicator& comm() const override { return c_.comm; }
  std::shared_ptr<Transport> transport() const override { return c_.transport; }

 private:
  // Axes are counted from the last: a block has three of space, or two.
  static at::IntArrayRef dim(std::size_t i) {
    static constexpr std::int64_t dims[] = {-1, -2};
    return at::IntArrayRef(&dims[i], 1);
  }
  double pixels(std::size_t i) const {
    return static_cast<double>(c_.decomposition.image().extent(kAxes[i]));
  }
  ArrayView shadow_view(std::size_t i) const { return view(shadows_[i], exchanges_[i]->plan().need()); }
  ArrayView sample_view(const Measurement& y, std::size_t i) const {
    return view(y[i], exchanges_[i]->plan().own());
  }

  OperatorContext c_;
  MeasurementLayout layout_;
  std::vector<at::Tensor> shadows_;                   // this rank's share of the sums
  std::vector<std::unique_ptr<Exchange>> exchanges_;  // one per part
};

class MeansPlan final : public OperatorPlan {
 public:
  MeasurementLayout layout(const Decomposition& d, std::int64_t channels) const override {
    return detectors(d, channels);
  }
  std::vector<ExchangePlan> exchanges(const Decomposition& d, int rank) const override {
    return {travel(d, kAxes[0], rank), travel(d, kAxes[1], rank)};
  }
  OperatorWork work(const Decomposition& d, std::int64_t channels, int rank) const override {
    return {.products = 4 * static_cast<double>(d.block(rank).pixels() * channels)};
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    return std::make_unique<Means>(context);
  }
};

}  // namespace

OperatorRow means() {
  return {.choice = {.name = "means"}, .global = [](const OperatorRequest&) -> std::unique_ptr<OperatorPlan> {
            return std::make_unique<MeansPlan>();
          }};
}

}  // namespace tessera
