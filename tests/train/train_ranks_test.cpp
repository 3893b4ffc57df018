// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "small_training.hpp"
#include "support/groups.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::Folder, test::largest_difference, test::small;

/// Trains on one rank and on groups of ranks; the weights may differ by `tolerance`.
void expect_the_same_network(const JacobianOptions& jacobian, OptimizerKind optimizer, double tolerance) {
  const bool first = Communicator::world().rank() == 0;
  std::optional<Folder> alone;
  if (first) alone.emplace("alone");
  TrainOptions options = small((fs::current_path() / "train_alone" / "w.safetensors").string());
  options.steps = 10;
  options.jacobian = jacobian;
  options.optimizer = optimizer;
  options.network.widths = {4, 8};
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
      EXPECT_LT(largest_difference(load_network("drunet", options.output, 1),
                                   load_network("drunet", shared.output, 1)),
                tolerance);
    }
  });
}

TEST(Train, any_number_of_ranks_trains_the_same_network) {
  expect_the_same_network({}, OptimizerKind::adam, 1e-5);
  expect_the_same_network({}, OptimizerKind::muon, 1e-5);
}

TEST(Train, any_number_of_ranks_visits_the_same_orbits) {
  // Quotients of differences carry more rounding than the loss: 1e-7 of the image over a step of 0.1.
  expect_the_same_network({.weight = 1e-2, .orbits = 5, .batch = 3, .length = 4, .sigma = {0.05, 0.2}},
                          OptimizerKind::adam, 5e-5);
}

}  // namespace
}  // namespace tessera
