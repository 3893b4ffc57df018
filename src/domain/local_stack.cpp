// SPDX-License-Identifier: BSD-3-Clause
// A stack of local operators on a distributed image.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "circular_norm.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/operator_plan.hpp"
#include "tessera/domain/precision.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

using Parts = std::vector<std::unique_ptr<LocalOperator>>;

MeasurementLayout lay_out(const Decomposition& decomposition, const Parts& parts, std::int64_t channels) {
  std::vector<MeasurementLayout::Part> list;
  for (const auto& p : parts) list.push_back(anchored_part(decomposition, *p, channels));
  return MeasurementLayout(std::move(list));
}

// The pixels that these samples need.
Box needed(const Box& samples, const Anchor& anchor, const Reach& reach) {
  if (samples.empty()) return {};
  Index3 lo{}, hi{};
  for (std::size_t d = 0; d < 3; ++d) {
    lo[d] = anchor.factor[d] * samples.lo()[d] + anchor.offset[d] - reach.lo[d];
    hi[d] = anchor.factor[d] * (samples.hi()[d] - 1) + anchor.offset[d] + reach.hi[d] + 1;
  }
  return {lo, hi};
}

// What every rank needs for the samples of some parts.
Layout needed_layout(const Decomposition& decomposition, const MeasurementLayout& layout, const Parts& parts,
                     const std::vector<std::size_t>& chosen, Border border) {
  std::vector<Box> inputs;
  for (int r = 0; r < decomposition.ranks(); ++r) {
    Box input;
    for (const std::size_t i : chosen)
      input = input.hull(needed(layout.block(i, r), parts[i]->anchor(), parts[i]->reach()));
    inputs.push_back(border == Border::none ? input.intersect(decomposition.image()) : input);
  }
  return Layout(std::move(inputs));
}

// One rank that owns all that its samples see, as with boundary valid, needs no second image for them.
bool own_blocks(const Layout& inputs, const Decomposition& decomposition) {
  for (int r = 0; r < decomposition.ranks(); ++r)
    if (inputs.box(r) != decomposition.block(r)) return false;
  return true;
}

// Operators that work on one tensor of pixels.
struct OperatorGroup {
  std::vector<std::size_t> parts;  // their places in the stack
  std::unique_ptr<PlacedOperator> op;
  Measurement samples;  // handles of the parts' tensors during a call
};

// Operators that see the image through one exchange, or (without one) the rank's own block.
struct ExchangeGroup {
  Border border = Border::none;
  bool exchanged = false;
  std::vector<std::size_t> parts;
  Box input;
  std::unique_ptr<Exchange> exchange;
  at::Tensor padded;  // (C, [D,] H, W) over input
  std::vector<OperatorGroup> operators;
};

// Parts that share an exchange, in the order of their first ones.
std::vector<ExchangeGroup> make_groups(const Parts& parts) {
  std::vector<ExchangeGroup> groups;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool exchanged = !(parts[i]->reach() == Reach{});
    const Border border = parts[i]->border();
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ExchangeGroup& r) {
      return r.exchanged == exchanged && (!exchanged || r.border == border);
    });
    if (group == groups.end()) {
      group = groups.emplace(groups.end());
      group->border = border;
      group->exchanged = exchanged;
    }
    group->parts.push_back(i);
  }
  return groups;
}

// Of these parts, those that are better placed together.
std::vector<std::vector<std::size_t>> shared_work(const Parts& parts,
                                                  const std::vector<std::size_t>& chosen) {
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t i : chosen) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<std::size_t>& g) {
      return parts[g.front()]->shares_with(*parts[i]);
    });
    if (group == groups.end())
      groups.push_back({i});
    else
      group->push_back(i);
  }
  return groups;
}

class LocalStack final : public DistributedOperator {
 public:
  LocalStack(const Decomposition& decomposition, const Parts& parts, std::int64_t channels,
             at::TensorOptions options, std::shared_ptr<Transport> transport, const Communicator& comm)
      : decomposition_(decomposition),
        layout_(lay_out(decomposition, parts, channels)),
        channels_(channels),
        options_(options),
        transport_(std::move(transport)),
        comm_(comm) {
    TESSERA_VALIDATE(!parts.empty(), "the operator stack is empty (there is nothing to measure) add a part");
    TESSERA_EXPECT(decomposition.ranks() == comm.size(), "a decomposition for ", decomposition.ranks(),
                   " ranks on ", comm.size());
    for (const auto& p : parts) {
      convolutions_.push_back(p->convolution());
      circular_ = circular_ && p->circular();
      not_negative_ = not_negative_ && p->not_negative();
    }
    groups_ = make_groups(parts);
    for (ExchangeGroup& group : groups_) build(group, parts);
  }

  const MeasurementLayout& layout() const override { return layout_; }
  at::TensorOptions options() const override { return options_; }
  std::int64_t image_channels() const override { return channels_; }
  const Decomposition& decomposition() const override { return decomposition_; }
  const Communicator& comm() const override { return comm_; }
  std::shared_ptr<Transport> transport() const override { return transport_; }

  void apply(const at::Tensor& x, Measurement& y) override {
    const PhaseScope phase(Phase::op);
    const Box block = decomposition_.block(comm_.rank());
    std::vector<Exchange::Pending> pending;
    {
      const PhaseScope halo(Phase::halo);
      for (ExchangeGroup& group : groups_)
        if (group.exchanged)
          pending.push_back(group.exchange->begin(view(x, block), view(group.padded, group.input)));
    }
    for (ExchangeGroup& group : groups_)  // what needs no halo runs while it is on the way
      if (!group.exchanged) run(group, x, y);
    auto next = pending.begin();
    for (ExchangeGroup& group : groups_) {
      if (!group.exchanged) continue;
      {
        const PhaseScope halo(Phase::halo);
        (next++)->wait();
      }
      run(group, group.padded, y);
    }
  }

  void adjoint(const Measurement& y, at::Tensor& x) override {
    const PhaseScope phase(Phase::adjoint);
    const Box block = decomposition_.block(comm_.rank());
    x.zero_();
    for (ExchangeGroup& group : groups_) {
      if (group.exchanged) group.padded.zero_();
      for (OperatorGroup& members : group.operators) {
        gather(members, y);
        members.op->adjoint(members.samples, group.exchanged ? group.padded : x);
      }
      if (!group.exchanged) continue;
      const PhaseScope halo(Phase::halo);
      group.exchange->begin_transposed(view(group.padded, group.input), view(x, block)).wait();
    }
  }

  std::optional<double> norm_squared() const override {
    if (norm_) return norm_;
    if (const auto d = diagonal({})) {
      double largest = d->numel() > 0 ? d->max().item<double>() : 0.0;
      comm_.all_reduce({&largest, 1}, Reduce::max);
      norm_ = largest;
    } else if (circular_) {
      norm_ = circular_norm_squared(circular(), decomposition_.image(), comm_);
    }
    return norm_;
  }

  std::optional<at::Tensor> diagonal(const Measurement& weights) const override {
    for (const ExchangeGroup& group : groups_)
      for (const OperatorGroup& members : group.operators)
        if (group.exchanged || !members.op->diagonal().defined()) return std::nullopt;
    at::Tensor sum = at::zeros(make_image().sizes(), options_);
    for (const ExchangeGroup& group : groups_)
      for (const OperatorGroup& members : group.operators) {
        const at::Tensor d = members.op->diagonal();
        const std::size_t part = members.parts.front();
        if (weights.empty() || !weights[part].defined())
          sum.add_(d);
        else
          sum.addcmul_(d, weights[part]);
      }
    return sum;
  }

  bool not_negative() const override { return not_negative_; }
  std::vector<std::optional<Convolution>> convolutions() const override { return convolutions_; }
  std::vector<Convolution> circular() const override {
    std::vector<Convolution> parts;
    for (std::size_t i = 0; circular_ && i < convolutions_.size(); ++i) parts.push_back(*convolutions_[i]);
    return parts;
  }

  Measurement observed() const override {
    Measurement masks(layout_.parts());
    for (const ExchangeGroup& group : groups_)
      for (const OperatorGroup& members : group.operators)
        masks[members.parts.front()] = members.op->observed();
    return masks;
  }

  std::int64_t bytes_sent() const override {
    std::int64_t pixels = 0;
    for (const ExchangeGroup& group : groups_)
      if (group.exchanged)
        pixels += group.exchange->plan().pixels_sent() + group.exchange->plan().pixels_received();
    return pixels * channels_ * static_cast<std::int64_t>(options_.dtype().itemsize());
  }

 private:
  void build(ExchangeGroup& group, const Parts& parts) {
    const int rank = comm_.rank();
    group.input = decomposition_.block(rank);
    if (group.exchanged) {
      const Layout inputs = needed_layout(decomposition_, layout_, parts, group.parts, group.border);
      group.input = inputs.box(rank);
      group.exchanged = !own_blocks(inputs, decomposition_);
      if (group.exchanged) {
        group.exchange = std::make_unique<Exchange>(
            ExchangePlan(decomposition_.layout(), inputs, decomposition_.image(), group.border, rank),
            transport_, channels_, element_type(options_.dtype().toScalarType()));
        group.padded = empty_block(channels_, group.input, options_, axes_of(decomposition_.image()));
      }
    }
    for (std::vector<std::size_t>& chosen : shared_work(parts, group.parts)) {
      OperatorGroup members;
      std::vector<const LocalOperator*> operators;
      LocalOperator::Placement placement{decomposition_.image(), group.input, {}, channels_, options_};
      for (const std::size_t i : chosen) {
        operators.push_back(parts[i].get());
        placement.samples.push_back(layout_.block(i, rank));
      }
      members.op = operators.front()->place(operators, placement);
      members.parts = std::move(chosen);
      members.samples.resize(members.parts.size());
      group.operators.push_back(std::move(members));
    }
  }

  static void gather(OperatorGroup& members, const Measurement& y) {
    for (std::size_t k = 0; k < members.parts.size(); ++k) members.samples[k] = y[members.parts[k]];
  }
  static void run(ExchangeGroup& group, const at::Tensor& x, const Measurement& y) {
    for (OperatorGroup& members : group.operators) {
      gather(members, y);
      members.op->apply(x, members.samples);
    }
  }

  Decomposition decomposition_;
  MeasurementLayout layout_;
  std::int64_t channels_;
  at::TensorOptions options_;
  std::shared_ptr<Transport> transport_;
  Communicator comm_;
  std::vector<std::optional<Convolution>> convolutions_;  // per part
  bool circular_ = true;                                  // all of them
  bool not_negative_ = true;                              // likewise
  std::vector<ExchangeGroup> groups_;                     // in the order of their first parts
  mutable std::optional<double> norm_;                    // once asked for
};

class LocalStackPlan final : public OperatorPlan {
 public:
  explicit LocalStackPlan(Parts parts) : parts_(std::move(parts)) {}

  MeasurementLayout layout(const Decomposition& d, std::int64_t channels) const override {
    return lay_out(d, parts_, channels);
  }
  std::vector<ExchangePlan> exchanges(const Decomposition& d, int rank) const override {
    const MeasurementLayout layout = lay_out(d, parts_, 1);
    std::vector<ExchangePlan> plans;
    for (const ExchangeGroup& group : make_groups(parts_))
      if (group.exchanged)
        if (const Layout inputs = needed_layout(d, layout, parts_, group.parts, group.border);
            !own_blocks(inputs, d))
          plans.emplace_back(d.layout(), inputs, d.image(), group.border, rank);
    return plans;
  }
  OperatorWork work(const Decomposition& d, std::int64_t channels, int rank) const override {
    const MeasurementLayout layout = lay_out(d, parts_, channels);
    OperatorWork sum;
    for (const ExchangeGroup& group : make_groups(parts_))
      for (const std::vector<std::size_t>& chosen : shared_work(parts_, group.parts)) {
        std::vector<const LocalOperator*> operators;
        std::vector<Box> samples;
        for (const std::size_t i : chosen) {
          operators.push_back(parts_[i].get());
          samples.push_back(layout.block(i, rank));
        }
        sum.add(operators.front()->work(operators, samples, channels));
      }
    return sum;
  }
  Reach reach() const override {
    Reach most;
    for (const auto& p : parts_) most = most.max(p->reach());
    return most;
  }
  bool pointwise() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& p) { return p->pointwise(); });
  }
  bool convolutional() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const auto& p) { return p->pointwise() || p->convolution().has_value(); });
  }
  std::vector<Convolution> circular() const override {
    std::vector<Convolution> all;
    for (const auto& p : parts_)
      if (const auto one = p->circular())
        all.push_back(*one);
      else
        return {};
    return all;
  }
  std::optional<Box> image_of(const Box& measured) const override {
    const LocalOperator& part = *parts_.front();
    const Anchor anchor = part.anchor();
    const Reach reach = part.reach();
    Index3 hi{}, large{};
    for (std::size_t d = 0; d < 3; ++d)
      large[d] = hi[d] = measured.extent(d) * anchor.factor[d] + reach.lo[d] + reach.hi[d];
    for (std::size_t d = 0; d < 3; ++d) {
      const auto made = [&](std::int64_t size) {
        Index3 probe = large;
        probe[d] = size;
        return part.measurement(Box({0, 0, 0}, probe)).extent(d);
      };
      while (hi[d] > 1 && made(hi[d]) > measured.extent(d)) --hi[d];
      // A sample for so many pixels; beyond them, where a border rule says what is there, none more is meant.
      if (part.border() != Border::none) hi[d] = std::min(hi[d], measured.extent(d) * anchor.factor[d]);
      if (made(hi[d]) != measured.extent(d)) return std::nullopt;
    }
    return Box({0, 0, 0}, hi);
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& c) override {
    for (const auto& p : parts_) p->load(c.decomposition.layout(), c.comm);
    return make_local_stack(c.decomposition, parts_, c.channels, c.options, c.transport, c.comm);
  }

 private:
  Parts parts_;
};

}  // namespace

std::unique_ptr<OperatorPlan> plan_local_stack(Parts parts) {
  return std::make_unique<LocalStackPlan>(std::move(parts));
}

Measurement DistributedOperator::make_measurement() const {
  Measurement y;
  for (std::size_t i = 0; i < layout().parts(); ++i)
    y.push_back(empty_block(layout().part(i).channels, layout().block(i, comm().rank()), options(),
                            layout().part(i).axes()));
  return y;
}

at::Tensor DistributedOperator::make_image() const {
  return empty_block(image_channels(), decomposition().block(comm().rank()), options(),
                     axes_of(decomposition().image()));
}

std::unique_ptr<DistributedOperator> make_local_stack(
    const Decomposition& decomposition, const std::vector<std::unique_ptr<LocalOperator>>& parts,
    std::int64_t channels, at::TensorOptions options, std::shared_ptr<Transport> transport,
    const Communicator& comm) {
  use_ieee_products();
  return std::make_unique<LocalStack>(decomposition, parts, channels, options, std::move(transport), comm);
}

}  // namespace tessera
