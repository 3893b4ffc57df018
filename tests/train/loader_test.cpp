// SPDX-License-Identifier: BSD-3-Clause
#include "loader.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "small_training.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using test::Folder, test::largest_difference, test::small;
using training::Batch;
using training::Loader;
using training::make_batch;

Batch numbered(std::int64_t step) { return {{}, {}, at::full({1}, static_cast<double>(step), at::kFloat)}; }

std::int64_t number(const Batch& batch) { return batch.sigma.item<std::int64_t>(); }

void rest(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

TEST(Loader, batches_are_the_same_bits_with_any_workers_from_any_step_and_on_any_ranks) {
  TrainOptions options = small("");
  options.batch = 5;
  options.dead_leaves = 0.5;  // both kinds of crops
  std::vector<training::Picture> pictures{{"stripes", 1, 40, 50, {}}};
  for (int i = 0; i < 40 * 50; ++i) pictures[0].values.push_back(static_cast<std::uint8_t>(i % 251));
  const auto make = [&](std::int64_t step) { return make_batch(options, pictures, step, 0, 1); };
  for (const std::int64_t workers : {0, 1, 3}) {
    for (const std::int64_t begin : {0, 4}) {
      Loader loader(make, begin, 9, workers, 2);
      for (std::int64_t step = begin; step < 9; ++step) {
        const Batch batch = loader.next(), expected = make(step);
        EXPECT_TRUE(at::equal(batch.clean, expected.clean));
        EXPECT_TRUE(at::equal(batch.noisy, expected.noisy));
        EXPECT_TRUE(at::equal(batch.sigma, expected.sigma));
        EXPECT_FALSE(at::equal(batch.noisy, make(step + 1).noisy)) << "all steps alike: nothing is compared";
      }
    }
  }
  const Batch whole = make(3);
  for (int rank = 0; rank < 7; ++rank) {  // two of them have nothing to do
    const Batch part = make_batch(options, pictures, 3, rank, 7);
    ASSERT_EQ(part.noisy.size(0), rank < 5 ? 1 : 0);
    if (rank < 5) {
      EXPECT_TRUE(at::equal(part.noisy.select(0, 0), whole.noisy.select(0, rank)));
    }
  }
}

TEST(Loader, batches_come_in_order_and_no_more_are_made_ahead_than_was_said) {
  std::atomic<std::int64_t> taken = 10, furthest = 0;
  Loader loader(
      [&](std::int64_t step) {
        const std::int64_t ahead = step + 1 - taken;
        std::int64_t seen = furthest;
        while (ahead > seen && !furthest.compare_exchange_weak(seen, ahead)) continue;
        rest(step % 3 == 0 ? 6 : 1);  // later ones are ready before earlier ones
        return numbered(step);
      },
      10, 40, 3, 2);
  for (std::int64_t step = 10; step < 40; ++step) {
    for (int k = 0; step == 20 && k < 20000 && furthest < 6; ++k)
      rest(1);  // nobody takes: the queue fills up
    EXPECT_EQ(number(loader.next()), step);
    taken = step + 1;
  }
  EXPECT_GE(furthest, 6) << "the queue was never full: its bound was not met";
  EXPECT_LE(furthest, 7);  // the loader gives one away before the test counts it
}

TEST(Loader, an_error_of_a_worker_is_thrown_where_its_batch_is_taken) {
  for (const std::int64_t workers : {0, 1, 3}) {
    Loader loader(
        [](std::int64_t step) {
          if (step == 3) throw InputError("step 3 (as the test wants it) go on");
          return numbered(step);
        },
        0, 100, workers, 2);
    for (std::int64_t step = 0; step < 3; ++step) EXPECT_EQ(number(loader.next()), step);
    try {
      loader.next();
      ADD_FAILURE() << "no error with " << workers << " workers";
    } catch (const InputError& error) {
      EXPECT_STREQ(error.what(), "step 3 (as the test wants it) go on");
    }
  }
}

TEST(Loader, ends_while_workers_wait_work_or_have_no_step_left) {
  for (const std::int64_t steps : {0, 1, 1000}) {
    for (const int pause : {0, 20}) {
      std::atomic<int> made = 0;
      {
        Loader loader(
            [&](std::int64_t step) {
              rest(2);
              ++made;
              return numbered(step);
            },
            0, steps, 3, 1);
        rest(pause);  // 0: they begin; 20: the queue is full
      }
      EXPECT_LE(made, std::min<std::int64_t>(steps, 3));
    }
  }
}

TEST(Train, any_number_of_workers_trains_the_same_bits_resumed_or_not) {
  const Folder folder("workers");
  TrainOptions options = small(folder.file("0.safetensors"));
  options.steps = 12;
  options.workers = 0;
  ASSERT_EQ(train(options, Communicator{}), 0);
  const Network expected = load_network("drunet", options.output, 1);
  for (const std::int64_t workers : {1, 3}) {
    for (const double seconds : {0.0, 1e-9}) {  // in one go; stopped after every step
      TrainOptions other = options;
      other.workers = workers;
      other.seconds = seconds;
      other.output =
          folder.file(std::to_string(workers) + (seconds > 0 ? "parts" : "whole") + ".safetensors");
      int calls = 1;
      while (train(other, Communicator{}) == 85 && calls < 13) ++calls;
      EXPECT_EQ(calls, seconds > 0 ? 12 : 1);
      EXPECT_EQ(largest_difference(expected, load_network("drunet", other.output, 1)), 0.0);
    }
  }
}

}  // namespace
}  // namespace tessera
