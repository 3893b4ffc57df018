// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/operator_algebra.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using Plans = std::vector<std::unique_ptr<OperatorPlan>>;
using Operators = std::vector<std::unique_ptr<DistributedOperator>>;

template <class List>
void append(List& to, List from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

Tensors part_of(const Tensors& all, std::size_t first, std::size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

void add(Tensors& to, const Tensors& what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].add_(what[i]);
}

// Of a pointwise A^T A: its largest value.
std::optional<double> largest_of(const std::optional<Tensors>& diagonal, const Communicator& comm) {
  if (!diagonal) return std::nullopt;
  double largest = 0;
  for (const at::Tensor& d : *diagonal)
    if (d.numel() > 0) largest = std::max(largest, d.max().item<double>());
  comm.all_reduce({&largest, 1}, Reduce::max);
  return largest;
}

class Stack final : public DistributedOperator {
 public:
  Stack(const OperatorPlan& plan, const OperatorContext& context, Operators members)
      : DistributedOperator(plan, context), members_(std::move(members)) {}

  void apply(const Tensors& x, Tensors& y) override {
    std::size_t first = 0;
    for (const auto& m : members_) {
      Tensors own = part_of(y, first, m->range().parts());
      m->apply(x, own);  // into the same memory
      first += own.size();
    }
  }
  void adjoint(const Tensors& y, Tensors& x) override {
    if (work_.empty()) work_ = make_domain();
    std::size_t first = 0;
    for (const auto& m : members_) {
      const Tensors own = part_of(y, first, m->range().parts());
      m->adjoint(own, first == 0 ? x : work_);
      if (first > 0) add(x, work_);
      first += own.size();
    }
  }
  std::optional<double> norm_squared() const override { return largest_of(diagonal({}), comm()); }
  std::optional<Tensors> diagonal(const Tensors& weights) const override {
    std::optional<Tensors> sum;
    std::size_t first = 0;
    for (const auto& m : members_) {
      auto d = m->diagonal(weights.empty() ? weights : part_of(weights, first, m->range().parts()));
      if (!d) return std::nullopt;
      if (sum)
        add(*sum, *d);
      else
        sum = std::move(d);
      first += m->range().parts();
    }
    return sum;
  }
  Tensors observed() const override {
    Tensors all;
    for (const auto& m : members_) append(all, m->observed());
    return all;
  }

 private:
  Operators members_;
  Tensors work_;  // one member's adjoint
};

class StackPlan final : public OperatorPlan {
 public:
  explicit StackPlan(Plans members) : members_(std::move(members)) {}

  ProductSpace range(const ProductSpace& domain) const override {
    ProductSpace all;
    for (const auto& m : members_) all.append(m->range(domain));
    return all;
  }
  std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const override {
    std::vector<PlannedExchange> all;
    for (const auto& m : members_) append(all, m->exchanges(domain, rank));
    return all;
  }
  OperatorWork work(const ProductSpace& domain, int rank) const override {
    OperatorWork sum;
    for (const auto& m : members_) sum.add(m->work(domain, rank));
    return sum;
  }
  std::int64_t memory(const ProductSpace& domain, int rank) const override {
    std::int64_t sum = 0;  // and one member's adjoint
    for (std::size_t i = 0; i < domain.parts(); ++i) sum += domain.part(i).space.bytes(domain.block(i, rank));
    for (const auto& m : members_) sum += m->memory(domain, rank);
    return sum;
  }
  OperatorTraits traits(const ProductSpace& domain) const override {
    OperatorTraits all{.not_negative = true};
    for (const auto& m : members_) {
      OperatorTraits own = m->traits(domain);
      all.reach = all.reach.max(own.reach);
      all.not_negative = all.not_negative && own.not_negative;
      append(all.parts, std::move(own.parts));
    }
    return all;
  }
  std::optional<Box> image_of(const Box& measured) const override {
    return members_.front()->image_of(measured);
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    Operators placed;
    for (const auto& m : members_) placed.push_back(m->place(context));
    return std::make_unique<Stack>(*this, context, std::move(placed));
  }

 private:
  Plans members_;
};

class Composition final : public DistributedOperator {
 public:
  Composition(const OperatorPlan& plan, const OperatorContext& context,
              std::unique_ptr<DistributedOperator> B, std::unique_ptr<DistributedOperator> A)
      : DistributedOperator(plan, context),
        B_(std::move(B)),
        A_(std::move(A)),
        between_(A_->make_measurement()) {}

  void apply(const Tensors& x, Tensors& y) override {
    A_->apply(x, between_);
    B_->apply(between_, y);
  }
  void adjoint(const Tensors& y, Tensors& x) override {
    B_->adjoint(y, between_);
    A_->adjoint(between_, x);
  }
  std::optional<double> norm_squared() const override { return largest_of(diagonal({}), comm()); }
  // A^T (B^T W B) A.
  std::optional<Tensors> diagonal(const Tensors& weights) const override {
    const std::optional<Tensors> inner = B_->diagonal(weights);
    return inner ? A_->diagonal(*inner) : std::nullopt;
  }
  Tensors observed() const override { return B_->observed(); }

 private:
  std::unique_ptr<DistributedOperator> B_, A_;
  Tensors between_;  // A x
};

class CompositionPlan final : public OperatorPlan {
 public:
  CompositionPlan(std::unique_ptr<OperatorPlan> B, std::unique_ptr<OperatorPlan> A)
      : B_(std::move(B)), A_(std::move(A)) {}

  ProductSpace range(const ProductSpace& domain) const override { return B_->range(A_->range(domain)); }
  std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const override {
    std::vector<PlannedExchange> all = A_->exchanges(domain, rank);
    append(all, B_->exchanges(A_->range(domain), rank));
    return all;
  }
  OperatorWork work(const ProductSpace& domain, int rank) const override {
    OperatorWork sum = A_->work(domain, rank);
    sum.add(B_->work(A_->range(domain), rank));
    return sum;
  }
  std::int64_t memory(const ProductSpace& domain, int rank) const override {
    const ProductSpace between = A_->range(domain);
    std::int64_t sum = A_->memory(domain, rank) + B_->memory(between, rank);
    for (std::size_t i = 0; i < between.parts(); ++i)
      sum += between.part(i).space.bytes(between.block(i, rank));
    return sum;
  }
  OperatorTraits traits(const ProductSpace& domain) const override {
    const OperatorTraits inner = A_->traits(domain), outer = B_->traits(A_->range(domain));
    OperatorTraits both{.not_negative = inner.not_negative && outer.not_negative};
    for (const OperatorTraits::Part& p : outer.parts)
      both.parts.push_back({.pointwise = p.pointwise && inner.pointwise()});
    for (std::size_t d = 0; d < 3; ++d) {
      both.reach.lo[d] = inner.reach.lo[d] + outer.reach.lo[d];
      both.reach.hi[d] = inner.reach.hi[d] + outer.reach.hi[d];
    }
    return both;
  }
  std::optional<Box> image_of(const Box& measured) const override {
    const std::optional<Box> between = B_->image_of(measured);
    return between ? A_->image_of(*between) : std::nullopt;
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    std::unique_ptr<DistributedOperator> A = A_->place(context);
    std::unique_ptr<DistributedOperator> B =
        B_->place({A->range(), context.options, context.transport, context.comm});
    return std::make_unique<Composition>(*this, context, std::move(B), std::move(A));
  }

 private:
  std::unique_ptr<OperatorPlan> B_, A_;
};

// Whether each member has a part of the domain to itself, or all see all of it.
enum class Sees { own, all };

class Sum final : public DistributedOperator {
 public:
  Sum(const OperatorPlan& plan, const OperatorContext& context, Sees sees, Operators members)
      : DistributedOperator(plan, context),
        sees_(sees),
        members_(std::move(members)),
        work_(make_measurement()) {}

  void apply(const Tensors& x, Tensors& y) override {
    for (std::size_t m = 0; m < members_.size(); ++m) {
      members_[m]->apply(sees_ == Sees::own ? part_of(x, m, 1) : x, m == 0 ? y : work_);
      if (m > 0) add(y, work_);
    }
  }
  void adjoint(const Tensors& y, Tensors& x) override {
    if (sees_ == Sees::all && members_.size() > 1 && image_.empty()) image_ = make_domain();
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (sees_ == Sees::own) {
        Tensors own = part_of(x, m, 1);
        members_[m]->adjoint(y, own);
      } else {
        members_[m]->adjoint(y, m == 0 ? x : image_);
        if (m > 0) add(x, image_);
      }
    }
  }
  std::optional<double> norm_squared() const override {
    return members_.size() == 1 ? members_.front()->norm_squared() : std::nullopt;
  }
  std::optional<Tensors> diagonal(const Tensors& weights) const override {
    return members_.size() == 1 ? members_.front()->diagonal(weights) : std::nullopt;
  }

 private:
  Sees sees_;
  Operators members_;
  Tensors work_, image_;  // of one member
};

class SumPlan final : public OperatorPlan {
 public:
  SumPlan(Sees sees, Plans members) : sees_(sees), members_(std::move(members)) {}

  ProductSpace range(const ProductSpace& domain) const override {
    TESSERA_EXPECT(sees_ == Sees::all || domain.parts() == members_.size(), "a row of ", members_.size(),
                   " operators on ", domain.parts(), " parts (each takes one)");
    const ProductSpace first = members_.front()->range(part(domain, 0));
    for (std::size_t m = 1; m < members_.size(); ++m) {
      const ProductSpace other = members_[m]->range(part(domain, m));
      TESSERA_EXPECT(other.parts() == first.parts(), "operators are added whose ranges have ", other.parts(),
                     " and ", first.parts(), " parts");
      for (std::size_t i = 0; i < first.parts(); ++i)
        TESSERA_EXPECT(other.part(i).box() == first.part(i).box() && other.layout(i) == first.layout(i) &&
                           other.part(i).space.planes() == first.part(i).space.planes(),
                       "operators are added whose ranges differ in part ", i);
    }
    return first;
  }
  std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const override {
    std::vector<PlannedExchange> all;
    for (std::size_t m = 0; m < members_.size(); ++m)
      append(all, members_[m]->exchanges(part(domain, m), rank));
    return all;
  }
  OperatorWork work(const ProductSpace& domain, int rank) const override {
    OperatorWork sum;
    for (std::size_t m = 0; m < members_.size(); ++m) sum.add(members_[m]->work(part(domain, m), rank));
    return sum;
  }
  std::int64_t memory(const ProductSpace& domain, int rank) const override {
    const ProductSpace range = this->range(domain);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < range.parts(); ++i) sum += range.part(i).space.bytes(range.block(i, rank));
    for (std::size_t i = 0; sees_ == Sees::all && members_.size() > 1 && i < domain.parts(); ++i)
      sum += domain.part(i).space.bytes(domain.block(i, rank));
    for (std::size_t m = 0; m < members_.size(); ++m) sum += members_[m]->memory(part(domain, m), rank);
    return sum;
  }
  OperatorTraits traits(const ProductSpace& domain) const override {
    OperatorTraits all = members_.front()->traits(part(domain, 0));
    all.not_direct = OperatorTraits().not_direct;
    if (members_.size() == 1) return all;
    for (OperatorTraits::Part& p : all.parts) p = {};
    all.radial.reset();
    for (std::size_t m = 1; m < members_.size(); ++m) {
      const OperatorTraits own = members_[m]->traits(part(domain, m));
      all.not_negative = all.not_negative && own.not_negative;
      all.reach = all.reach.max(own.reach);
    }
    return all;
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    Operators placed;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      OperatorContext own = context;
      own.domain = part(context.domain, m);
      placed.push_back(members_[m]->place(own));
    }
    return std::make_unique<Sum>(*this, context, sees_, std::move(placed));
  }

 private:
  ProductSpace part(const ProductSpace& domain, std::size_t m) const {
    return sees_ == Sees::own ? domain.slice(m, 1) : domain;
  }
  Sees sees_;
  Plans members_;
};

class Multiple final : public DistributedOperator {
 public:
  Multiple(const OperatorPlan& plan, const OperatorContext& context, double factor,
           std::unique_ptr<DistributedOperator> A)
      : DistributedOperator(plan, context), factor_(factor), A_(std::move(A)) {}

  void apply(const Tensors& x, Tensors& y) override {
    A_->apply(x, y);
    for (at::Tensor& t : y) t.mul_(factor_);
  }
  void adjoint(const Tensors& y, Tensors& x) override {
    A_->adjoint(y, x);
    for (at::Tensor& t : x) t.mul_(factor_);
  }
  std::optional<double> norm_squared() const override {
    const std::optional<double> norm = A_->norm_squared();
    return norm ? std::optional(factor_ * factor_ * *norm) : std::nullopt;
  }
  std::optional<Tensors> diagonal(const Tensors& weights) const override {
    std::optional<Tensors> d = A_->diagonal(weights);
    if (d)
      for (at::Tensor& t : *d) t = t.mul(factor_ * factor_);
    return d;
  }
  Tensors observed() const override { return A_->observed(); }

 private:
  double factor_;
  std::unique_ptr<DistributedOperator> A_;
};

class MultiplePlan final : public OperatorPlan {
 public:
  MultiplePlan(double factor, std::unique_ptr<OperatorPlan> A) : factor_(factor), A_(std::move(A)) {}

  ProductSpace range(const ProductSpace& domain) const override { return A_->range(domain); }
  std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const override {
    return A_->exchanges(domain, rank);
  }
  OperatorWork work(const ProductSpace& domain, int rank) const override { return A_->work(domain, rank); }
  std::int64_t memory(const ProductSpace& domain, int rank) const override {
    return A_->memory(domain, rank);
  }
  OperatorTraits traits(const ProductSpace& domain) const override {
    OperatorTraits traits = A_->traits(domain);
    traits.not_negative = traits.not_negative && factor_ >= 0;
    traits.not_direct = OperatorTraits().not_direct;
    for (OperatorTraits::Part& p : traits.parts)
      if (p.convolution) p.convolution->taps = p.convolution->taps.mul(factor_);
    return traits;
  }
  std::optional<Box> image_of(const Box& measured) const override { return A_->image_of(measured); }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    return std::make_unique<Multiple>(*this, context, factor_, A_->place(context));
  }

 private:
  double factor_;
  std::unique_ptr<OperatorPlan> A_;
};

}  // namespace

std::unique_ptr<OperatorPlan> plan_stack(Plans members) {
  TESSERA_EXPECT(!members.empty(), "a stack without operators (there is nothing to measure) add one");
  if (members.size() == 1) return std::move(members.front());
  return std::make_unique<StackPlan>(std::move(members));
}

std::unique_ptr<OperatorPlan> compose(std::unique_ptr<OperatorPlan> B, std::unique_ptr<OperatorPlan> A) {
  return std::make_unique<CompositionPlan>(std::move(B), std::move(A));
}

std::unique_ptr<OperatorPlan> plan_row(Plans members) {
  TESSERA_EXPECT(!members.empty(), "a row without operators (there is nothing to add) add one");
  return std::make_unique<SumPlan>(Sees::own, std::move(members));
}

std::unique_ptr<OperatorPlan> plan_sum(Plans members) {
  TESSERA_EXPECT(!members.empty(), "a sum without operators (there is nothing to add) add one");
  return std::make_unique<SumPlan>(Sees::all, std::move(members));
}

std::unique_ptr<OperatorPlan> scale(double factor, std::unique_ptr<OperatorPlan> A) {
  return std::make_unique<MultiplePlan>(factor, std::move(A));
}

}  // namespace tessera
