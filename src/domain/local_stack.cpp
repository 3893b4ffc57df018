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
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

using Parts = std::vector<std::unique_ptr<LocalOperator>>;

ProductSpace lay_out(const ProductSpace& domain, const Parts& parts) {
  TESSERA_VALIDATE(!parts.empty(), "the operator stack is empty (there is nothing to measure) add a part");
  TESSERA_EXPECT(domain.parts() == 1, "a stack of local operators on ", domain.parts(),
                 " images (it looks at one)");
  std::vector<ProductSpace::Part> list;
  for (const auto& p : parts) list.push_back(anchored_part(domain.part(0), *p));
  return ProductSpace(std::move(list));
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
Layout needed_layout(const ProductSpace::Part& image, const ProductSpace& range, const Parts& parts,
                     const std::vector<std::size_t>& chosen, Border border) {
  std::vector<Box> inputs;
  for (int r = 0; r < range.ranks(); ++r) {
    Box input;
    for (const std::size_t i : chosen)
      input = input.hull(needed(range.block(i, r), parts[i]->anchor(), parts[i]->reach()));
    inputs.push_back(border == Border::none ? input.intersect(image.box()) : input);
  }
  return Layout(std::move(inputs));
}

// One rank that owns all that its samples see, as with boundary valid, needs no second image for them.
bool own_blocks(const Layout& inputs, const ProductSpace::Part& image) { return inputs == image.owners; }

// Operators that work on one tensor of pixels.
struct OperatorGroup {
  std::vector<std::size_t> parts;  // their places in the stack
  std::unique_ptr<PlacedOperator> op;
  Tensors samples;  // handles of the parts' tensors during a call
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

OperatorTraits traits_of(const Parts& parts) {
  OperatorTraits traits{.not_negative = true};
  for (const auto& p : parts) {
    traits.parts.push_back({p->pointwise(), p->circular().has_value(), p->convolution()});
    traits.not_negative = traits.not_negative && p->not_negative();
    traits.reach = traits.reach.max(p->reach());
  }
  return traits;
}

class LocalStack final : public DistributedOperator {
 public:
  LocalStack(const OperatorPlan& plan, const OperatorContext& context, const Parts& parts)
      : DistributedOperator(plan, context) {
    use_ieee_products();
    TESSERA_EXPECT(domain().ranks() == comm().size(), "a decomposition for ", domain().ranks(), " ranks on ",
                   comm().size());
    groups_ = make_groups(parts);
    for (ExchangeGroup& group : groups_) build(group, parts);
  }

  void apply(const Tensors& in, Tensors& y) override {
    const PhaseScope phase(Phase::op);
    const at::Tensor& x = in[0];
    const Box& block = image().block(rank());
    std::vector<Exchange::Pending> pending;
    {
      const PhaseScope halo(Phase::halo);
      for (ExchangeGroup& group : groups_)
        if (group.exchanged) {
          overwritten_soon(group.padded);
          pending.push_back(group.exchange->begin(view(x, block), view(group.padded, group.input)));
        }
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

  void adjoint(const Tensors& y, Tensors& out) override {
    const PhaseScope phase(Phase::adjoint);
    at::Tensor& x = out[0];
    const Box& block = image().block(rank());
    const auto clear = [](at::Tensor& t) {
      overwritten_soon(t);
      t.zero_();
    };
    clear(x);
    for (ExchangeGroup& group : groups_) {
      if (group.exchanged) clear(group.padded);
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
      double largest = d->front().numel() > 0 ? d->front().max().item<double>() : 0.0;
      comm().all_reduce({&largest, 1}, Reduce::max);
      norm_ = largest;
    } else if (const std::vector<Convolution> circular = traits().circular(); !circular.empty()) {
      norm_ = circular_norm_squared(circular, image().box(), comm());
    }
    return norm_;
  }

  std::optional<Tensors> diagonal(const Tensors& weights) const override {
    for (const ExchangeGroup& group : groups_)
      for (const OperatorGroup& members : group.operators)
        if (group.exchanged || !traits().parts[members.parts.front()].pointwise) return std::nullopt;
    at::Tensor sum = at::zeros(make_image().sizes(), options());
    for (const ExchangeGroup& group : groups_)
      for (const OperatorGroup& members : group.operators)
        sum.add_(members.op->diagonal(weights.empty() ? at::Tensor() : weights[members.parts.front()]));
    return Tensors{sum};
  }

  Tensors observed() const override {
    Tensors masks(range().parts());
    for (const ExchangeGroup& group : groups_)
      for (const OperatorGroup& members : group.operators)
        masks[members.parts.front()] = members.op->observed();
    return masks;
  }

 private:
  void build(ExchangeGroup& group, const Parts& parts) {
    group.input = image().block(rank());
    if (group.exchanged) {
      const Layout inputs = needed_layout(image(), range(), parts, group.parts, group.border);
      group.input = inputs.box(rank());
      group.exchanged = !own_blocks(inputs, image());
      if (group.exchanged) {
        group.exchange = std::make_unique<Exchange>(
            ExchangePlan(image().owners, inputs, image().box(), group.border, rank()), transport(),
            image().space.planes(), element_type(options().dtype().toScalarType()));
        group.padded = empty_block(image().space, group.input, options());
      }
    }
    for (std::vector<std::size_t>& chosen : shared_work(parts, group.parts)) {
      OperatorGroup members;
      std::vector<const LocalOperator*> operators;
      LocalOperator::Placement placement{image().space, group.input, {}, options()};
      for (const std::size_t i : chosen) {
        operators.push_back(parts[i].get());
        placement.samples.push_back(range().block(i, rank()));
      }
      members.op = operators.front()->place(operators, placement);
      members.parts = std::move(chosen);
      members.samples.resize(members.parts.size());
      group.operators.push_back(std::move(members));
    }
  }

  static void gather(OperatorGroup& members, const Tensors& y) {
    for (std::size_t k = 0; k < members.parts.size(); ++k) members.samples[k] = y[members.parts[k]];
  }
  static void run(ExchangeGroup& group, const at::Tensor& x, const Tensors& y) {
    for (OperatorGroup& members : group.operators) {
      gather(members, y);
      members.op->apply(x, members.samples);
    }
  }

  std::vector<ExchangeGroup> groups_;   // in the order of their first parts
  mutable std::optional<double> norm_;  // once asked for
};

// Of parts that somebody else keeps.
class LocalStackPlan : public OperatorPlan {
 public:
  explicit LocalStackPlan(const Parts& parts) : parts_(parts) {}

  ProductSpace range(const ProductSpace& domain) const override { return lay_out(domain, parts_); }
  std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const override {
    const ProductSpace range = lay_out(domain, parts_);
    const ProductSpace::Part& image = domain.part(0);
    std::vector<PlannedExchange> plans;
    for (const ExchangeGroup& group : make_groups(parts_))
      if (group.exchanged)
        if (const Layout inputs = needed_layout(image, range, parts_, group.parts, group.border);
            !own_blocks(inputs, image))
          plans.push_back({ExchangePlan(image.owners, inputs, image.box(), group.border, rank),
                           image.space.planes(), image.space.element_bytes});
    return plans;
  }
  OperatorWork work(const ProductSpace& domain, int rank) const override {
    const ProductSpace range = lay_out(domain, parts_);
    OperatorWork sum;
    for (const ExchangeGroup& group : make_groups(parts_))
      for (const std::vector<std::size_t>& chosen : shared_work(parts_, group.parts)) {
        std::vector<const LocalOperator*> operators;
        std::vector<Box> samples;
        for (const std::size_t i : chosen) {
          operators.push_back(parts_[i].get());
          samples.push_back(range.block(i, rank));
        }
        sum.add(operators.front()->work(operators, samples, domain.part(0).space.planes()));
      }
    return sum;
  }
  OperatorTraits traits(const ProductSpace&) const override { return traits_of(parts_); }
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
    for (const auto& p : parts_) p->load(c.domain.layout(0), c.comm);
    return std::make_unique<LocalStack>(*this, c, parts_);
  }

 private:
  const Parts& parts_;
};

struct OwnedParts {
  Parts parts;
};
class OwningPlan final : private OwnedParts, public LocalStackPlan {
 public:
  explicit OwningPlan(Parts parts) : OwnedParts{std::move(parts)}, LocalStackPlan(OwnedParts::parts) {}
};

}  // namespace

std::unique_ptr<OperatorPlan> plan_local_stack(Parts parts) {
  return std::make_unique<OwningPlan>(std::move(parts));
}

std::unique_ptr<DistributedOperator> make_local_stack(const OperatorContext& context, const Parts& parts) {
  return std::make_unique<LocalStack>(LocalStackPlan(parts), context, parts);
}

}  // namespace tessera
