// SPDX-License-Identifier: BSD-3-Clause
// Operators of different kinds, one after the other.
#include "tessera/domain/operator_plan.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

template <class List>
void append(List& to, List from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

class OperatorStack final : public DistributedOperator {
 public:
  explicit OperatorStack(std::vector<std::unique_ptr<DistributedOperator>> members)
      : members_(std::move(members)) {
    std::vector<MeasurementLayout::Part> parts;
    for (const auto& m : members_) {
      sizes_.push_back(m->layout().parts());
      for (std::size_t i = 0; i < m->layout().parts(); ++i) parts.push_back(m->layout().part(i));
    }
    layout_ = MeasurementLayout(std::move(parts));
  }
  const MeasurementLayout& layout() const override { return layout_; }

  void apply(const at::Tensor& x, Measurement& y) override {
    std::size_t first = 0;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      Measurement own = part_of(y, first, sizes_[m]);
      members_[m]->apply(x, own);  // into the same memory
      first += sizes_[m];
    }
  }
  void adjoint(const Measurement& y, at::Tensor& x) override {
    if (!work_.defined()) work_ = make_image();
    std::size_t first = 0;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const Measurement own = part_of(y, first, sizes_[m]);
      members_[m]->adjoint(own, m == 0 ? x : work_);
      if (m > 0) x.add_(work_);
      first += sizes_[m];
    }
  }
  bool not_negative() const override {
    return std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m->not_negative(); });
  }
  std::optional<at::Tensor> diagonal(const Measurement& weights) const override {
    std::optional<at::Tensor> sum;
    std::size_t first = 0;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const auto d = members_[m]->diagonal(weights.empty() ? weights : part_of(weights, first, sizes_[m]));
      if (!d) return std::nullopt;
      sum = sum ? sum->add(*d) : *d;
      first += sizes_[m];
    }
    return sum;
  }
  std::vector<std::optional<Convolution>> convolutions() const override {
    std::vector<std::optional<Convolution>> all;
    for (const auto& m : members_) append(all, m->convolutions());
    return all;
  }
  Measurement observed() const override {
    Measurement all;
    for (const auto& m : members_) append(all, m->observed());
    return all;
  }
  std::int64_t bytes_sent() const override {
    std::int64_t sum = 0;
    for (const auto& m : members_) sum += m->bytes_sent();
    return sum;
  }
  at::TensorOptions options() const override { return members_[0]->options(); }
  std::int64_t image_channels() const override { return members_[0]->image_channels(); }
  const Decomposition& decomposition() const override { return members_[0]->decomposition(); }
  const Communicator& comm() const override { return members_[0]->comm(); }
  std::shared_ptr<Transport> transport() const override { return members_[0]->transport(); }

 private:
  static Measurement part_of(const Measurement& all, std::size_t first, std::size_t count) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  std::vector<std::unique_ptr<DistributedOperator>> members_;
  std::vector<std::size_t> sizes_;  // their parts
  MeasurementLayout layout_;
  at::Tensor work_;  // one member's adjoint
};

class StackPlan final : public OperatorPlan {
 public:
  explicit StackPlan(std::vector<std::unique_ptr<OperatorPlan>> members) : members_(std::move(members)) {}

  MeasurementLayout layout(const Decomposition& d, std::int64_t channels) const override {
    std::vector<MeasurementLayout::Part> parts;
    for (const auto& m : members_) {
      const MeasurementLayout own = m->layout(d, channels);
      for (std::size_t i = 0; i < own.parts(); ++i) parts.push_back(own.part(i));
    }
    return MeasurementLayout(std::move(parts));
  }
  std::vector<ExchangePlan> exchanges(const Decomposition& d, int rank) const override {
    std::vector<ExchangePlan> all;
    for (const auto& m : members_) append(all, m->exchanges(d, rank));
    return all;
  }
  OperatorWork work(const Decomposition& d, std::int64_t channels, int rank) const override {
    OperatorWork sum;
    for (const auto& m : members_) sum.add(m->work(d, channels, rank));
    return sum;
  }
  Reach reach() const override {
    Reach most;
    for (const auto& m : members_) most = most.max(m->reach());
    return most;
  }
  bool pointwise() const override {
    return std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m->pointwise(); });
  }
  bool convolutional() const override {
    return std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m->convolutional(); });
  }
  std::optional<Box> image_of(const Box& measured) const override {
    return members_.front()->image_of(measured);
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    std::vector<std::unique_ptr<DistributedOperator>> placed;
    for (const auto& m : members_) placed.push_back(m->place(context));
    return std::make_unique<OperatorStack>(std::move(placed));
  }

 private:
  std::vector<std::unique_ptr<OperatorPlan>> members_;
};

}  // namespace

std::unique_ptr<OperatorPlan> plan_stack(std::vector<std::unique_ptr<OperatorPlan>> members) {
  TESSERA_EXPECT(!members.empty(), "a stack without operators (there is nothing to measure) add one");
  if (members.size() == 1) return std::move(members.front());
  return std::make_unique<StackPlan>(std::move(members));
}

}  // namespace tessera
