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
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/precision.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

using Parts = std::vector<std::unique_ptr<LocalOperator>>;

MeasurementLayout lay_out(const Decomposition& decomposition, const Parts& parts, std::int64_t channels) {
  std::vector<MeasurementLayout::Part> list;
  for (const auto& p : parts)
    list.push_back({p->name(), p->measurement(decomposition.image()), p->channels(channels), p->anchor()});
  return {decomposition, std::move(list)};
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

// Operators that work on one tensor of pixels.
struct Team {
  std::vector<std::size_t> parts;  // their places in the stack
  std::unique_ptr<PlacedOperator> op;
  Measurement samples;  // handles of the parts' tensors during a call
};

// Teams that see the image through one exchange, or (without one) the rank's own block.
struct Ring {
  Border border = Border::none;
  bool exchanged = false;
  std::vector<std::size_t> parts;
  Box input;
  std::unique_ptr<Exchange> exchange;
  at::Tensor padded;  // (C, [D,] H, W) over input
  std::vector<Team> teams;
};

// Parts that share an exchange, in the order of their first ones.
std::vector<Ring> make_rings(const Parts& parts) {
  std::vector<Ring> rings;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool exchanged = !(parts[i]->reach() == Reach{});
    const Border border = parts[i]->border();
    auto ring = std::find_if(rings.begin(), rings.end(), [&](const Ring& r) {
      return r.exchanged == exchanged && (!exchanged || r.border == border);
    });
    if (ring == rings.end()) {
      ring = rings.emplace(rings.end());
      ring->border = border;
      ring->exchanged = exchanged;
    }
    ring->parts.push_back(i);
  }
  return rings;
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
    }
    rings_ = make_rings(parts);
    for (Ring& ring : rings_) build(ring, parts);
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
      for (Ring& ring : rings_)
        if (ring.exchanged)
          pending.push_back(ring.exchange->begin(view(x, block), view(ring.padded, ring.input)));
    }
    for (Ring& ring : rings_)  // what needs no halo runs while it is on the way
      if (!ring.exchanged) run(ring, x, y);
    auto next = pending.begin();
    for (Ring& ring : rings_) {
      if (!ring.exchanged) continue;
      {
        const PhaseScope halo(Phase::halo);
        (next++)->wait();
      }
      run(ring, ring.padded, y);
    }
  }

  void adjoint(const Measurement& y, at::Tensor& x) override {
    const PhaseScope phase(Phase::adjoint);
    const Box block = decomposition_.block(comm_.rank());
    x.zero_();
    for (Ring& ring : rings_) {
      if (ring.exchanged) ring.padded.zero_();
      for (Team& team : ring.teams) {
        gather(team, y);
        team.op->adjoint(team.samples, ring.exchanged ? ring.padded : x);
      }
      if (!ring.exchanged) continue;
      const PhaseScope halo(Phase::halo);
      ring.exchange->begin_transposed(view(ring.padded, ring.input), view(x, block)).wait();
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
    for (const Ring& ring : rings_)
      for (const Team& team : ring.teams)
        if (ring.exchanged || !team.op->diagonal().defined()) return std::nullopt;
    at::Tensor sum = at::zeros(make_image().sizes(), options_);
    for (const Ring& ring : rings_)
      for (const Team& team : ring.teams) {
        const at::Tensor d = team.op->diagonal();
        const std::size_t part = team.parts.front();
        if (weights.empty() || !weights[part].defined())
          sum.add_(d);
        else
          sum.addcmul_(d, weights[part]);
      }
    return sum;
  }

  std::vector<std::optional<Convolution>> convolutions() const override { return convolutions_; }
  std::vector<Convolution> circular() const override {
    std::vector<Convolution> parts;
    for (std::size_t i = 0; circular_ && i < convolutions_.size(); ++i) parts.push_back(*convolutions_[i]);
    return parts;
  }

  Measurement observed() const override {
    Measurement masks(layout_.parts());
    for (const Ring& ring : rings_)
      for (const Team& team : ring.teams) masks[team.parts.front()] = team.op->observed();
    return masks;
  }

  std::int64_t bytes_sent() const override {
    std::int64_t pixels = 0;
    for (const Ring& ring : rings_)
      if (ring.exchanged)
        pixels += ring.exchange->plan().pixels_sent() + ring.exchange->plan().pixels_received();
    return pixels * channels_ * static_cast<std::int64_t>(options_.dtype().itemsize());
  }

 private:
  void build(Ring& ring, const Parts& parts) {
    const int rank = comm_.rank();
    ring.input = decomposition_.block(rank);
    if (ring.exchanged) {
      const Layout inputs = needed_layout(decomposition_, layout_, parts, ring.parts, ring.border);
      ring.input = inputs.box(rank);
      ring.exchange = std::make_unique<Exchange>(
          ExchangePlan(decomposition_.layout(), inputs, decomposition_.image(), ring.border, rank),
          transport_, channels_, element_type(options_.dtype().toScalarType()));
      ring.padded = empty_block(channels_, ring.input, options_);
    }
    std::vector<bool> placed(parts.size(), false);
    for (std::size_t n = 0; n < ring.parts.size(); ++n) {
      const std::size_t i = ring.parts[n];
      if (placed[i]) continue;
      Team team;
      std::vector<const LocalOperator*> group;
      LocalOperator::Placement placement{decomposition_.image(), ring.input, {}, channels_, options_};
      for (std::size_t m = n; m < ring.parts.size(); ++m) {
        const std::size_t j = ring.parts[m];
        if (placed[j] || (j != i && !parts[i]->shares_with(*parts[j]))) continue;
        placed[j] = true;
        team.parts.push_back(j);
        group.push_back(parts[j].get());
        placement.samples.push_back(layout_.block(j, rank));
      }
      team.op = parts[i]->place(group, placement);
      team.samples.resize(team.parts.size());
      ring.teams.push_back(std::move(team));
    }
  }

  static void gather(Team& team, const Measurement& y) {
    for (std::size_t k = 0; k < team.parts.size(); ++k) team.samples[k] = y[team.parts[k]];
  }
  static void run(Ring& ring, const at::Tensor& x, const Measurement& y) {
    for (Team& team : ring.teams) {
      gather(team, y);
      team.op->apply(x, team.samples);
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
  std::vector<Ring> rings_;                               // in the order of their first parts
  mutable std::optional<double> norm_;                    // once asked for
};

}  // namespace

std::vector<ExchangePlan> local_stack_plans(const Decomposition& decomposition, const Parts& parts,
                                            int rank) {
  const MeasurementLayout layout = lay_out(decomposition, parts, 1);
  std::vector<ExchangePlan> plans;
  for (const Ring& ring : make_rings(parts))
    if (ring.exchanged)
      plans.emplace_back(decomposition.layout(),
                         needed_layout(decomposition, layout, parts, ring.parts, ring.border),
                         decomposition.image(), ring.border, rank);
  return plans;
}

std::int64_t local_stack_bytes_sent(const Decomposition& decomposition, const Parts& parts,
                                    std::int64_t channels, std::int64_t bytes, int rank) {
  std::int64_t pixels = 0;
  for (const ExchangePlan& plan : local_stack_plans(decomposition, parts, rank))
    pixels += plan.pixels_sent() + plan.pixels_received();
  return pixels * channels * bytes;
}

Measurement DistributedOperator::make_measurement() const {
  Measurement y;
  for (std::size_t i = 0; i < layout().parts(); ++i)
    y.push_back(empty_block(layout().part(i).channels, layout().block(i, comm().rank()), options()));
  return y;
}

at::Tensor DistributedOperator::make_image() const {
  return empty_block(image_channels(), decomposition().block(comm().rank()), options());
}

std::unique_ptr<DistributedOperator> make_local_stack(
    const Decomposition& decomposition, const std::vector<std::unique_ptr<LocalOperator>>& parts,
    std::int64_t channels, at::TensorOptions options, std::shared_ptr<Transport> transport,
    const Communicator& comm) {
  use_ieee_products();
  return std::make_unique<LocalStack>(decomposition, parts, channels, options, std::move(transport), comm);
}

}  // namespace tessera
