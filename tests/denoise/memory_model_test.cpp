// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/memory_model.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "random_list.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

// Peak of a call less the weights, which is what the model claims to know.
std::int64_t measured(Runner& runner, std::int64_t items, std::int64_t height, std::int64_t width,
                      at::ScalarType type = at::kFloat) {
  const at::Tensor x = at::rand({items, 3, height, width}, type);
  const std::int64_t others = memory_now() - memory_now(MemoryUse::activations);
  memory_reset_peak();
  const at::Tensor y = runner.run(x, 0.1);
  return memory_peak() - others;
}

Network full(const char* name) {
  NetworkOptions o;
  o.name = name;
  return random_network(o, 1);
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

// The published sweep, widths in steps of 64 and of 68 at height 2048, by the model, and an eighth as wide
// and 64 high by measurement; full channels. A width off the alignment is padded to it once, as every image
// is.
TEST(MemoryModel, follows_every_width_without_spikes) {
  track_tensor_memory();
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = full(name);
    Runner runner(network, {});
    const MemoryModel model(network, at::kFloat, true, {});
    const std::int64_t a = network.alignment()[1];
    double least = 1e30, most = 0;  // per pixel, at the published height
    for (const std::int64_t step : {64, 68})
      for (std::int64_t width = 1024; width <= 2048; width += step) {
        const std::int64_t padded = (width + a - 1) / a * a;
        const double pixel = ratio(model.bytes(1, {1, 2048, padded}), 2048 * padded);
        least = std::min(least, pixel);
        most = std::max(most, pixel);
      }
    EXPECT_LT(most, 1.02 * least) << name;
    // What ffdnet's last layer copies counts beside features of half the image's sides.
    const double most_waste = name == std::string("ffdnet") ? 1.3 : 1.2;
    EXPECT_LT(ratio(model.bytes(1, {1, 2048, 1024}), model.least_bytes(1, {1, 2048, 1024})), most_waste)
        << name;

    for (const std::int64_t width : {128, 204}) {  // of both grids, the second not aligned; growing
      const std::int64_t padded = (width + a - 1) / a * a;
      const double r = ratio(measured(runner, 1, 64, padded), model.bytes(1, {1, 64, padded}));
      // oneDNN orders the weights of some 1 x 1 convolutions anew where the image is as small as here, and
      // of restormer's, which are larger than its features then; ffdnet's last layer takes less with one
      // thread.
      const bool matrices = name == std::string("restormer"),
                 some = matrices || name == std::string("scunet") ||
                        (name == std::string("ffdnet") && at::get_num_threads() == 1);
      EXPECT_GT(r, matrices ? 0.8 : some ? 0.95 : 0.98) << name << ' ' << width;
      EXPECT_LE(r, 1.0) << name << ' ' << width;
    }
  }
}

// Networks that nobody has written: skips over several levels, sums of sums, what is read twice.
TEST(MemoryModel, covers_any_list_of_layers) {
  track_tensor_memory();
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::string layers = test::random_list(seed, 3);
    const Network network = random_network({.name = "traced", .channels = 3, .layers = layers}, seed);
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{64, 192}, {128, 136}}) {
      Runner runner(network, {});
      const double r = ratio(measured(runner, 1, height, width), runner.bytes(1, {1, height, width}));
      EXPECT_LE(r, 1.0) << "seed " << seed << ", " << height << " x " << width << ": " << layers;
      EXPECT_GT(r, 0.9) << "seed " << seed << ", " << height << " x " << width << ": " << layers;
    }
  }
}

TEST(MemoryModel, shapes_in_turn_do_not_pile_up) {
  track_tensor_memory();
  const Network network = random_network({.widths = {16, 32, 64, 64}, .blocks = 1}, 1);
  Runner runner(network, {});
  std::int64_t largest = 0;
  for (const std::int64_t side : {64, 40, 64, 48, 56, 64, 32}) {
    largest = std::max(largest, runner.bytes(1, {1, side, 64}));
    EXPECT_LE(measured(runner, 1, side, 64), largest) << side;
  }
  const std::int64_t kept = memory_now(MemoryUse::activations);
  for (int k = 0; k < 3; ++k) measured(runner, 1, 32, 64);
  EXPECT_EQ(memory_now(MemoryUse::activations), kept);  // the same shape again needs no new memory
  EXPECT_LE(kept, runner.bytes(1, {1, 32, 64}));        // nor does it keep that of larger ones
}

TEST(MemoryModel, windows_in_turn_keep_the_largest_arena) {
  track_tensor_memory();
  const Network network = full("unet");
  const MemoryModel model(network, at::kFloat, true, {});
  Runner runner(network, {.in_turn = true}), fitting(network, {});
  const at::Tensor small = at::rand({1, 3, 32, 32});
  const at::Tensor want = fitting.run(small, 0.1).clone();
  const std::int64_t before = memory_now(MemoryUse::activations);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_LE(measured(runner, 1, 64, 96) - before, model.bytes(1, {1, 64, 96})) << "turn " << turn;
    EXPECT_TRUE(runner.run(small, 0.1).equal(want)) << "turn " << turn;
    EXPECT_GT(memory_now(MemoryUse::activations) - before, model.least_bytes(1, {1, 64, 96}) / 2)
        << "turn " << turn;
  }
}

TEST(MemoryModel, covers_batches_and_types) {
  track_tensor_memory();
  for (const char* name : {"drunet", "unet"}) {
    const Network network = random_network({.name = name, .widths = {16, 32, 64, 64}, .blocks = 1}, 1);
    struct Case {
      at::ScalarType type;
      std::int64_t items;
      double at_least;
    };
    for (const Case& c :
         {Case{at::kFloat, 3, 0.98}, {at::kBFloat16, 2, 0.5}, {at::kHalf, 1, 0.5}, {at::kDouble, 1, 0.4}}) {
      SCOPED_TRACE(testing::Message() << name << ' ' << c10::toString(c.type));
      Runner runner(network, {.type = c.type});
      const double r =
          ratio(measured(runner, c.items, 64, 64, c.type == at::kDouble ? at::kDouble : at::kFloat),
                runner.bytes(c.items, {1, 64, 64}));
      EXPECT_LE(r, 1.0);
      EXPECT_GT(r, c.at_least);
      EXPECT_EQ(runner.bytes(c.items, {1, 64, 64}),
                MemoryModel(network, c.type, true, {}).bytes(c.items, {1, 64, 64}));
    }
  }
}

}  // namespace
}  // namespace tessera
