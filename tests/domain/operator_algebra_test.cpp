// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/operator_algebra.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "domain/operators.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/prox_plan.hpp"
#include "tessera/domain/quadratic_prox.hpp"

namespace tessera {
namespace {

using test::blur;
using test::cut;
using test::on_groups;
using test::parts_of;
using test::random_tensor;
using test::Stack;

using Made = std::unique_ptr<OperatorPlan>;

template <class... Operators>
Made stack(Operators... operators) {
  Stack parts;
  (parts.push_back(std::move(operators)), ...);
  return plan_local_stack(std::move(parts));
}
template <class... Plans>
std::vector<Made> list(Plans... plans) {
  std::vector<Made> all;
  (all.push_back(std::move(plans)), ...);
  return all;
}

std::unique_ptr<LocalOperator> small(int seed) {
  return blur(random_tensor({5, 4}, static_cast<std::uint64_t>(seed)), Boundary::reflect);
}
std::unique_ptr<LocalOperator> large(int seed) {
  return blur(random_tensor({9, 7}, static_cast<std::uint64_t>(seed)), Boundary::circular, 1,
              BlurMethod::fft);
}

struct Case {
  std::string name;
  std::size_t images;  // parts of the domain
  std::function<Made()> make;
};

std::vector<Case> cases() {
  return {
      {"a blur after a blur", 1, [] { return compose(stack(large(1)), stack(small(2))); }},
      {"a mask after a decimation", 1,
       [] {
         return compose(stack(make_random_mask(0.5, 3)),
                        stack(blur(random_tensor({5, 5}, 1), Boundary::zero, 2)));
       }},
      {"a row of two after a stack of two", 1,
       [] {
         return compose(plan_row(list(stack(small(1)), stack(large(2)))), stack(small(3), make_identity()));
       }},
      {"a row", 2, [] { return plan_row(list(stack(small(1)), stack(large(2)))); }},
      {"a sum", 1, [] { return plan_sum(list(stack(small(1)), stack(large(2)), stack(make_identity()))); }},
      {"a multiple in a stack", 1,
       [] { return plan_stack(list(scale(-2.5, stack(small(1))), stack(make_random_mask(0.5, 1)))); }},
  };
}

const Box kImage = Box::image2d(23, 31);

ProductSpace domain_of(const Decomposition& d, std::size_t images) {
  ProductSpace space;
  for (std::size_t i = 0; i < images; ++i) space.append(ProductSpace(ImageSpace(d.image(), 2), d));
  return space.held_as(8);
}

struct Placed {
  Made plan;
  std::unique_ptr<DistributedOperator> A;
  Placed(const Case& c, const Decomposition& d, const Communicator& comm)
      : plan(c.make()),
        A(plan->place({domain_of(d, c.images), at::TensorOptions(at::kDouble),
                       make_transport(comm, {}, TransportKind::mpi), comm})) {}
};

Tensors random_like(const Tensors& shapes, std::uint64_t seed) {
  Tensors all;
  for (const at::Tensor& t : shapes) all.push_back(random_tensor(t.sizes(), seed++));
  return all;
}

double product(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += test::scalar_product(a[i], b[i]);
  return sum;
}

TEST(OperatorAlgebra, EqualsOneRankPassesTheDotTestAndCountsItsBytes) {
  const Communicator self;
  for (const Case& c : cases()) {
    const Placed one(c, cut(kImage, 1), self);
    const Tensors x = random_like(one.A->make_domain(), 7), v = random_like(one.A->make_measurement(), 20);
    Tensors y1 = one.A->make_measurement(), back1 = one.A->make_domain();
    one.A->apply(x, y1);
    one.A->adjoint(v, back1);
    on_groups([&](const Communicator& comm) {
      SCOPED_TRACE(c.name);
      const Placed all(c, cut(kImage, comm.size()), comm);
      const Tensors mine = parts_of(x, all.A->domain(), comm.rank()),
                    w = parts_of(v, all.A->range(), comm.rank());
      Tensors y = all.A->make_measurement(), back = all.A->make_domain();
      take_phases();
      all.A->apply(mine, y);
      all.A->adjoint(w, back);
      std::int64_t sent = 0, planned = 0;
      for (const PhaseRecord& r : take_phases()) sent += r.bytes_sent;
      for (const PlannedExchange& e : all.plan->exchanges(all.A->domain(), comm.rank()))
        planned += e.bytes_sent();
      EXPECT_EQ(sent, all.A->bytes_sent());
      EXPECT_EQ(sent, planned);
      const Tensors wanted = parts_of(y1, all.A->range(), comm.rank()),
                    wanted_back = parts_of(back1, all.A->domain(), comm.rank());
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_LT(test::worst(comm, y[i], wanted[i], y1[i]), 1e-12);
      for (std::size_t i = 0; i < back.size(); ++i)
        EXPECT_LT(test::worst(comm, back[i], wanted_back[i], back1[i]), 1e-12);
      std::vector<double> sums{product(y, w), product(mine, back)};
      comm.all_reduce(sums, Reduce::sum);
      EXPECT_NEAR(sums[0], sums[1], 1e-10 * (1 + std::abs(sums[0])));
    });
  }
}

TEST(OperatorAlgebra, AddsAndComposesWhatItsMembersDo) {
  if (test::other_rank()) return;
  const Communicator self;
  const Decomposition d = cut(kImage, 1);
  const auto applied = [&](Made plan, const Tensors& x) {
    const auto A = plan->place({domain_of(d, x.size()), at::TensorOptions(at::kDouble),
                                make_transport(self, {}, TransportKind::mpi), self});
    Tensors y = A->make_measurement();
    A->apply(x, y);
    return y;
  };
  const at::Tensor x = random_tensor({2, 23, 31}, 5), z = random_tensor({2, 23, 31}, 6);
  const at::Tensor a = applied(stack(small(1)), {x})[0], b = applied(stack(large(2)), {x})[0];
  const auto near = [](const at::Tensor& s, const at::Tensor& t) {
    return (s - t).abs().max().item<double>() < 1e-12;
  };
  EXPECT_TRUE(near(applied(plan_sum(list(stack(small(1)), stack(large(2)))), {x})[0], a + b));
  EXPECT_TRUE(near(applied(plan_row(list(stack(small(1)), stack(large(2)))), {x, z})[0],
                   a + applied(stack(large(2)), {z})[0]));
  EXPECT_TRUE(
      near(applied(compose(stack(large(2)), stack(small(1))), {x})[0], applied(stack(large(2)), {a})[0]));
  EXPECT_TRUE(near(applied(scale(0.3, stack(small(1))), {x})[0], 0.3 * a));
  EXPECT_THROW(plan_sum(list(stack(small(1)), stack(blur(random_tensor({3, 3}, 1), Boundary::zero, 2))))
                   ->range(domain_of(d, 1)),
               ContractError);
}

TEST(OperatorAlgebra, KnowsWhatItsMembersKnow) {
  if (test::other_rank()) return;
  const Communicator self;
  const Decomposition d = cut(kImage, 1);
  const ProductSpace domain = domain_of(d, 1);
  const auto kind = [&](const Made& plan) {
    return plan_prox(plan->traits(domain), domain, plan->range(domain), false).kind;
  };
  using Kind = ProxPlan::Kind;
  EXPECT_EQ(kind(stack(make_random_mask(0.5, 1), make_identity())), Kind::pointwise);
  EXPECT_EQ(kind(compose(stack(make_random_mask(0.5, 1)), stack(make_identity()))), Kind::pointwise);
  EXPECT_EQ(kind(stack(large(1), make_identity())), Kind::fourier);
  EXPECT_EQ(kind(stack(blur(random_tensor({5, 5}, 1), Boundary::circular, 1))), Kind::fourier);
  EXPECT_EQ(kind(scale(2, stack(large(1)))), Kind::fourier);
  EXPECT_EQ(kind(compose(stack(make_random_mask(0.5, 1)), stack(large(1)))), Kind::iterative);
  EXPECT_EQ(kind(plan_sum(list(stack(make_identity()), stack(make_identity())))), Kind::iterative);
  EXPECT_EQ(kind(stack(small(1))), Kind::iterative);

  // The pointwise product of a composition is that of its whole: a mask of a mask, with weights.
  const auto A =
      compose(stack(make_random_mask(0.5, 1), make_random_mask(0.5, 2)), stack(make_random_mask(0.7, 3)))
          ->place(
              {domain, at::TensorOptions(at::kDouble), make_transport(self, {}, TransportKind::mpi), self});
  Tensors y = A->make_measurement(), ones{at::ones_like(A->make_image())}, back = A->make_domain();
  const Tensors weights = random_like(y, 3);
  A->apply(ones, y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i].mul_(weights[i]);
  A->adjoint(y, back);
  EXPECT_LT((A->diagonal(weights)->front() - back[0]).abs().max().item<double>(), 1e-12);
  EXPECT_NEAR(*A->norm_squared(), A->diagonal({})->front().max().item<double>(), 1e-12);
}

// A composition that has no closed form is solved by conjugate gradients: (gamma A^T A + 1) u = z + gamma A^T y.
TEST(OperatorAlgebra, ProximalPointsOfACompositionSolveTheirEquation) {
  on_groups([](const Communicator& comm) {
    const Case c{"", 1, [] { return compose(stack(make_random_mask(0.5, 3)), stack(small(2))); }};
    const Placed all(c, cut(kImage, comm.size()), comm);
    std::shared_ptr<DistributedOperator> A(
        all.plan->place({domain_of(cut(kImage, comm.size()), 1), at::TensorOptions(at::kDouble),
                         make_transport(comm, {}, TransportKind::mpi), comm}));
    const Space space(comm, nullptr);
    QuadraticProx prox(A, Measurement(1), false, space, {500, 1e-10}, 0.01);
    ASSERT_TRUE(prox.iterative());
    const Box &whole = A->image().box(), &block = A->image().block(comm.rank());
    const at::Tensor z = test::part_of(random_tensor({2, 23, 31}, 1), whole, block);
    Tensors y = parts_of({random_tensor({2, 23, 31}, 2)}, A->range(), comm.rank()),
            work = A->make_measurement();
    at::Tensor u = z.clone(), aty = A->make_image(), back = A->make_image();
    A->adjoint(y, aty);
    prox.solve(y, aty, z, 5.0, u, work);
    A->apply(u, work);
    A->adjoint(work, back);
    EXPECT_LT(test::worst(comm, back.mul(5.0).add(u), aty.mul(5.0).add(z), z), 1e-7);
  });
}

}  // namespace
}  // namespace tessera
