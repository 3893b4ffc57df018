// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gradients.hpp"
#include "small_training.hpp"
#include "support/groups.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::Folder, test::largest_difference, test::small;

/// Trains on one rank and on groups of ranks; the weights may differ by `tolerance`.
void expect_the_same_network(const JacobianOptions& jacobian, OptimizerKind optimizer, double tolerance,
                             const char* name = "drunet", std::int64_t steps = 10) {
  const bool first = Communicator::world().rank() == 0;
  std::optional<Folder> alone;
  if (first) alone.emplace("alone");
  TrainOptions options = small((fs::current_path() / "train_alone" / "w.safetensors").string());
  options.steps = steps;
  options.jacobian = jacobian;
  options.optimizer = optimizer;
  options.network.widths = {4, 8};
  options.network.name = name;
  if (first) {
    ASSERT_EQ(train(options, Communicator{}), 0);
  }
  test::on_groups([&](const Communicator& comm) {
    std::optional<Folder> folder;
    if (comm.rank() == 0) folder.emplace("ranks");
    comm.barrier();
    TrainOptions shared = options;
    shared.output = (fs::current_path() / "train_ranks" / "w.safetensors").string();
    ASSERT_EQ(train(shared, comm), 0);
    if (comm.rank() == 0) {
      EXPECT_LT(
          largest_difference(load_network(name, options.output, 1), load_network(name, shared.output, 1)),
          tolerance);
    }
  });
}

TEST(Train, any_number_of_ranks_trains_the_same_network) {
  expect_the_same_network({}, OptimizerKind::adam, 1e-5);
  expect_the_same_network({}, OptimizerKind::muon, 1e-5);
}

TEST(Train, any_number_of_ranks_trains_the_same_network_of_volumes) {
  expect_the_same_network({}, OptimizerKind::muon, 1e-5, "drunet3d");
  // Two steps: with the penalty rounding grows by a factor of about two in each, sums of 27 taps more than of 9.
  expect_the_same_network({.weight = 1e-2, .orbits = 5, .batch = 3, .length = 4, .sigma = {0.05, 0.2}},
                          OptimizerKind::adam, 5e-5, "drunet3d", 2);
}

TEST(Train, any_number_of_ranks_visits_the_same_orbits) {
  // Quotients of differences carry more rounding than the loss: 1e-7 of the image over a step of 0.1.
  expect_the_same_network({.weight = 1e-2, .orbits = 5, .batch = 3, .length = 4, .sigma = {0.05, 0.2}},
                          OptimizerKind::adam, 5e-5);
}

using training::GradientSums, training::Optimizer;

Optimizer::Tensors leaves() {
  Optimizer::Tensors t;
  std::int64_t size = 2;
  for (const char* name : {"d", "c", "b", "a"})
    t[name] = at::arange(size, at::kFloat).add_(static_cast<double>(size)).requires_grad_(true), size += 3;
  t["unused"] = at::zeros({3}, at::kFloat).requires_grad_(true);
  return t;
}

/// The loss of items first, first + step, ...: the parameters one after the other, as layers.
at::Tensor loss_of(const Optimizer::Tensors& t, std::int64_t first, std::int64_t step, std::int64_t items) {
  const at::AutoGradMode on(true);
  at::Tensor sum = at::zeros({}, at::kFloat);
  for (std::int64_t i = first; i < items; i += step) {
    at::Tensor x = at::zeros({}, at::kFloat).add_(0.25 * static_cast<double>(i + 1));
    for (const char* name : {"d", "c", "b", "a"}) x = (t.at(name) * x).square().mean().sqrt();
    sum = sum + x;
  }
  return sum;
}

// Six items, so that ranks beyond have none; a bucket of 9 numbers: {unused}, {a}, {b}, {c, d}, {extra}.
TEST(GradientSums, are_those_of_all_items) {
  constexpr std::int64_t kItems = 6;
  const std::vector<std::string> order{"d", "c", "b", "a", "unused"};
  const Optimizer::Tensors whole = leaves();
  loss_of(whole, 0, 1, kItems).backward();
  test::on_groups([&](const Communicator& comm) {
    const Optimizer::Tensors mine = leaves();
    GradientSums sums(mine, order, comm, 9);
    EXPECT_EQ(sums.buckets(), 5U);
    for (int step = 0; step < 2; ++step) {
      // A penalty's gradient, there before: counted once per rank that has it.
      if (comm.rank() == 0) mine.at("b").mutable_grad() = at::zeros({8}, at::kFloat).add_(0.5);
      sums.begin();
      double extra = comm.rank() + 1;
      if (comm.rank() < kItems) loss_of(mine, comm.rank(), comm.size(), kItems).backward();
      // What no pass comes to is known at the end only; it stands first and holds the others back.
      EXPECT_EQ(sums.sent(), 0U);
      const std::vector<at::Tensor> got = sums.finish(extra);
      EXPECT_EQ(sums.sent(), 5U);
      EXPECT_EQ(extra, comm.size() * (comm.size() + 1) / 2.0);
      std::size_t i = 0;
      for (const auto& [name, leaf] : whole) {
        SCOPED_TRACE(name);
        EXPECT_FALSE(mine.at(name).grad().defined());
        at::Tensor expected = leaf.grad().defined() ? leaf.grad().clone() : at::zeros_like(leaf);
        if (name == "b") expected.add_(0.5);
        EXPECT_LT((got[i++] - expected).abs().max().item<float>(),
                  1e-5F * expected.abs().max().item<float>() + 1e-12F);
      }
    }
  });
}

TEST(GradientSums, go_before_the_pass_has_ended) {
  test::on_groups([&](const Communicator& comm) {
    Optimizer::Tensors mine = leaves();
    mine.erase("unused");
    GradientSums sums(mine, {"d", "c", "b", "a"}, comm, 9);
    std::size_t sent_at_last = 0;
    // The first layer's gradient comes last.
    const unsigned hook =
        mine.at("d").register_hook([&](const at::Tensor& /*gradient*/) { sent_at_last = sums.sent(); });
    sums.begin();
    loss_of(mine, 0, 1, 1).backward();
    mine.at("d").remove_hook(hook);
    EXPECT_EQ(sent_at_last, 3U);  // this hook runs after that of the sums, which had {a}, {b} and now {c, d}
    double extra = 0;
    static_cast<void>(sums.finish(extra));
  });
}

}  // namespace
}  // namespace tessera
