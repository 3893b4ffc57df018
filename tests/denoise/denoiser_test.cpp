// SPDX-License-Identifier: BSD-3-Clause
// Denoisers on 1, 2, 3, 4, 5 and 7 ranks against the network on the whole padded image.
#include "tessera/denoise/denoiser.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/groups.hpp"
#include "support/once.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "whole_image.hpp"

namespace tessera {
namespace {

using test::difference;
using test::kSigma;
using test::once;
using test::picture;
using test::tiny;
using test::whole;
using Fixture = test::Blocks;

TEST(NetworkDenoiser, equals_the_whole_image_on_any_ranks) {
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = tiny(name, 3);
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{64, 64}, {97, 45}, {9, 6}}) {
      if (height == 64 && name != std::string("drunet")) continue;  // nothing is padded
      const at::Tensor image = picture(3, height, width, at::kDouble);
      const at::Tensor want = once([&] { return whole(network, image, kSigma); });
      ASSERT_GT((want - want.mean()).abs().max().item<double>(), 1e-6);
      const auto compare = [&](const Communicator& comm) {
        SCOPED_TRACE(testing::Message() << name << ' ' << height << " x " << width);
        const Fixture s(comm, network, image);
        const std::int64_t unit = std::max<std::int64_t>(8, network.alignment()[1]);
        for (const std::int64_t patch : {std::int64_t{0}, unit, 3 * unit}) {
          const bool windows = !network.graph.global();
          if (patch > 0 && (!windows || (patch > unit && patch >= height))) continue;  // as 0
          const auto d = make_network_denoiser(
              network, {.patch = patch, .batch = windows ? 3 : 0, .type = at::kDouble}, s.context);
          EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << patch;
          if (patch == unit) {
            EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << "second call";
          }
        }
        const auto single = make_network_denoiser(network, {}, s.context);
        EXPECT_LT(difference(s, *single, image.to(at::kFloat), kSigma, want.to(at::kFloat)), 1e-5);
      };
      name == std::string("drunet") ? test::on_groups(compare) : test::on_groups({1, 4, 7}, compare);
    }
  }
}

TEST(NetworkDenoiser, one_unit_less_of_halo_differs) {
  if (test::other_rank()) return;
  const Network network = tiny("drunet", 1);
  const at::Tensor image = picture(1, 96, 96, at::kDouble);
  ASSERT_LT(network.halo()[1], 48);  // a window ends inside the image
  const at::Tensor want = whole(network, image, kSigma);
  const Fixture s(Communicator(), network, image);
  const auto largest = [&](std::int64_t halo) {
    const auto d = make_network_denoiser(
        network, {.mode = ExecutionMode::patch, .patch = 8, .type = at::kDouble, .halo = halo}, s.context);
    return difference(s, *d, image, kSigma, want);
  };
  EXPECT_LT(largest(network.halo()[1]), 1e-13);
  EXPECT_GT(largest(network.halo()[1] - network.alignment()[1]), 1e-13);
  EXPECT_GT(largest(0), 1e-3);
}

TEST(NetworkDenoiser, averages_over_turns_of_the_whole_image) {
  const Network network = tiny("drunet", 1);
  const at::Tensor image = picture(1, 41, 30, at::kDouble);
  std::vector<at::Tensor> turns;  // the whole image's, by each symmetry alone
  for (const int turn : {0, 1, 2, 3, 4, 5, 6, 7})
    turns.push_back(once([&] { return whole(network, image, kSigma, {turn}); }));
  const at::Tensor flips = at::stack(at::TensorList(turns.data(), 4)).mean(0), all = at::stack(turns).mean(0);
  EXPECT_GT((flips - all).abs().max().item<double>(), 1e-6);
  test::on_groups([&](const Communicator& comm) {
    const Fixture s(comm, network, image);
    const auto with = [&](Averaging averaging) {
      return make_network_denoiser(network, {.patch = 16, .averaging = averaging, .type = at::kDouble},
                                   s.context);
    };
    EXPECT_LT(difference(s, *with(Averaging::flips), image, kSigma, flips), 1e-10);
    EXPECT_LT(difference(s, *with(Averaging::all), image, kSigma, all), 1e-10);
    const auto cycle = with(Averaging::cycle);
    for (const std::size_t turn : {0, 1, 2, 3, 4, 5, 6, 7, 0})
      EXPECT_LT(difference(s, *cycle, image, kSigma, turns[turn]), 1e-10) << turn;
  });
}

TEST(NetworkDenoiser, gray_image_through_a_color_network) {
  const Network network = tiny("drunet", 3);
  const at::Tensor image = picture(1, 24, 20, at::kDouble);
  const at::Tensor want = once([&] { return whole(network, image, kSigma); });
  test::on_groups([&](const Communicator& comm) {
    const Fixture s(comm, network, image);
    const auto d = make_network_denoiser(network, {.type = at::kDouble}, s.context);
    EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10);
    EXPECT_NE(d->notice().find("gray"), std::string::npos);
  });
}

// g of the image's pixels alone: the padding is nobody's.
double potential_of(const Network& network, const at::Tensor& image, const std::vector<int>& symmetries) {
  const Network both = with_potential(network);
  const std::int64_t channels = network.channels(), a = network.alignment()[1];
  at::Tensor x = at::replication_pad2d(image.unsqueeze(0),
                                       {0, (a - image.size(2) % a) % a, 0, (a - image.size(1) % a) % a});
  x = x.expand({-1, channels, -1, -1});
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, weight] : network.weights) weights[name] = weight.to(at::kDouble);
  double sum = 0;
  for (const int s : symmetries) {
    const at::Tensor y = test::turned_back(
        evaluate(both.graph, weights, test::turned(x, s), at::full({1}, kSigma, x.options())), s);
    const at::Tensor r =
        y.narrow(1, channels, channels).narrow(2, 0, image.size(1)).narrow(3, 0, image.size(2));
    sum += 0.5 * (r * r).sum().item<double>();
  }
  return sum / static_cast<double>(symmetries.size()) * static_cast<double>(image.size(0)) /
         static_cast<double>(channels);
}

TEST(NetworkDenoiser, tells_the_potential_that_it_goes_down_on) {
  const Network network = tiny("gsdrunet", 3), both = with_potential(network);
  for (const std::int64_t channels : {3, 1}) {
    const at::Tensor image = picture(channels, 41, 30, at::kDouble);
    const at::Tensor straight = once([&] { return whole(network, image, kSigma); });
    for (const auto& [averaging, symmetries] :
         {std::pair<Averaging, std::vector<int>>{Averaging::none, {0}}, {Averaging::flips, {0, 1, 2, 3}}}) {
      const at::Tensor want = once([&] { return whole(network, image, kSigma, symmetries); });
      const auto potential = [&] {
        return at::scalar_tensor(potential_of(network, image, symmetries), at::kDouble);
      };
      const double height = once(potential).item<double>();
      ASSERT_GT(height, 1e-3);
      test::on_groups([&](const Communicator& comm) {
        const Fixture s(comm, network, image);
        for (const ExecutionMode mode : {ExecutionMode::patch, ExecutionMode::layer}) {
          const auto d = make_network_denoiser(both,
                                               {.mode = mode,
                                                .patch = mode == ExecutionMode::patch ? 16 : 0,
                                                .averaging = averaging,
                                                .type = at::kDouble},
                                               s.context);
          for (int call = 0; call < 2; ++call) {
            EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << word(mode);
            double sum = d->potential().item<double>();
            comm.all_reduce({&sum, 1}, Reduce::sum);
            EXPECT_NEAR(sum, height, 1e-10 * height) << word(mode) << ", call " << call;
          }
        }
        const auto plain = make_network_denoiser(network, {.type = at::kDouble}, s.context);
        EXPECT_LT(difference(s, *plain, image, kSigma, straight), 1e-10);
        EXPECT_FALSE(plain->potential().defined());
      });
    }
  }
}

TEST(NetworkDenoiser, is_the_gradient_step_on_its_potential) {
  if (test::other_rank()) return;
  for (const std::int64_t channels : {3, 1}) {  // without padding, where the sum is over all that g has
    const Network network = tiny("gsdrunet", 3);
    const at::Tensor x = picture(channels, 24, 16, at::kDouble);
    const at::Tensor v = picture(channels, 24, 32, at::kDouble).narrow(2, 16, 16) - 0.5;
    constexpr double kStep = 1e-5;
    const double slope =
        (potential_of(network, x + kStep * v, {0}) - potential_of(network, x - kStep * v, {0})) / (2 * kStep);
    const double wanted = ((x - whole(network, x, kSigma)) * v).sum().item<double>();
    EXPECT_NEAR(slope, wanted, 1e-6 * std::abs(wanted)) << channels;
  }
}

TEST(NetworkDenoiser, sends_the_bytes_that_it_says) {
  const Network network = tiny("dncnn", 1);
  const at::Tensor image = picture(1, 50, 34, at::kFloat);
  test::on_groups([&](const Communicator& comm) {
    const Fixture s(comm, network, image);
    const auto d = make_network_denoiser(network, {}, s.context);
    const at::Tensor in = s.part(image);
    at::Tensor out = at::zeros_like(in);
    take_phases();
    {
      const PhaseScope phase(Phase::denoise);
      d->apply(in, kSigma, out);
    }
    double sent = 0;
    for (const PhaseRecord& record : take_phases()) sent += static_cast<double>(record.bytes_sent);
    EXPECT_EQ(sent, static_cast<double>(d->bytes_sent()));
    EXPECT_TRUE(d->bytes_are_exact());
    comm.all_reduce({&sent, 1}, Reduce::sum);
    EXPECT_EQ(sent > 0, comm.size() > 1);
  });
}

/// Memory that gives out, as a device's does: the next allocation fails, those after it do not.
class Scarce final : public c10::Allocator {
 public:
  Scarce() { c10::SetAllocator(c10::kCPU, this, kPriority); }
  ~Scarce() override { c10::SetAllocator(c10::kCPU, rest_, kPriority); }
  c10::DataPtr allocate(std::size_t bytes) override {
    if (std::exchange(empty, false)) TORCH_CHECK_WITH(OutOfMemoryError, false, "no more memory");
    return rest_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return rest_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    rest_->copy_data(to, from, bytes);
  }
  bool empty = false;

 private:
  static constexpr std::uint8_t kPriority = 255;
  c10::Allocator* rest_ = c10::GetAllocator(c10::kCPU);
};

TEST(NetworkDenoiser, goes_on_with_smaller_windows_where_memory_gives_out) {
  if (test::other_rank()) return;
  const Network network = tiny("unet", 3);
  const at::Tensor image = picture(3, 96, 80, at::kDouble), want = whole(network, image, kSigma);
  const Fixture s(Communicator(), network, image);
  const auto d = make_network_denoiser(
      network, {.mode = ExecutionMode::patch, .patch = 64, .batch = 1, .type = at::kDouble}, s.context);
  EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-12);
  const auto windows = [&] {
    const std::string text = d->description(), mark = "batch 1, ";
    return std::stoi(text.substr(text.find(mark) + mark.size()));
  };
  const int before = windows();
  Scarce memory;
  at::Tensor out = at::empty_like(image);
  testing::internal::CaptureStderr();
  memory.empty = true;
  d->apply(image, kSigma, out);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(memory.empty);
  EXPECT_EQ(said.substr(0, said.find(", goes on")),
            "warning: rank 0 is out of device memory with patch 64, batch 1");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  EXPECT_LT(d->choices()[0].second, 64);
  EXPECT_GT(windows(), before);
  EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-12);
  EXPECT_LT((out - want).abs().max().item<double>(), 1e-12);
}

TEST(NetworkDenoiser, takes_the_fewest_windows_that_fit_the_memory) {
  if (test::other_rank()) return;
  const Network network = tiny("drunet", 1);
  const at::Tensor image = picture(1, 128, 128, at::kDouble);
  const at::Tensor want = whole(network, image, kSigma);
  const Fixture s(Communicator(), network, image);
  const auto all = make_network_denoiser(network, {.type = at::kDouble}, s.context);
  EXPECT_NE(all->description().find("whole"), std::string::npos);
  const auto some = make_network_denoiser(network, {.type = at::kDouble, .memory_bytes = 8000000}, s.context);
  EXPECT_NE(some->description().find("patch, patch"), std::string::npos) << some->description();
  EXPECT_LT(difference(s, *some, image, kSigma, want), 1e-10);
  EXPECT_THROW(make_network_denoiser(network, {.memory_bytes = 1000}, s.context), InputError);
}

TEST(NetworkDenoiser, refuses_what_it_cannot_do) {
  const Network network = tiny("drunet", 3);
  const at::Tensor image = picture(3, 32, 32, at::kFloat);
  const auto message = [&](const ExecutionOptions& options, const Communicator& comm, std::int64_t channels) {
    const Fixture s(comm, network, image.narrow(0, 0, channels));
    try {
      make_network_denoiser(network, options, s.context);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const Communicator world = Communicator::world();
  EXPECT_EQ(message({.mode = ExecutionMode::layer, .patch = 4}, Communicator(), 3),
            "denoiser.patch or batch is set in mode layer (blocks are run as a whole) leave them out");
  EXPECT_EQ(
      message({.halo_depth = 2}, Communicator(), 3),
      "denoiser.halo_depth is 2 (windows bring their whole halo at once) write 'mode: layer', or leave it "
      "out");
  EXPECT_NE(
      message({.mode = ExecutionMode::layer, .memory_bytes = 1000}, Communicator(), 3).find("mode: patch"),
      std::string::npos);
  EXPECT_EQ(message({.patch = 102}, Communicator(), 3),
            "denoiser.patch is 102 (drunet needs a multiple of 4) use 100 or 104");
  EXPECT_NE(message({}, Communicator(), 2).find("2 channels"), std::string::npos);
  EXPECT_NE(message({.tf32 = true}, Communicator(), 3).find("tf32"), std::string::npos);
  if (world.size() > 1) {
    EXPECT_NE(message({.mode = ExecutionMode::whole}, world, 3).find("use layer, patch or auto"),
              std::string::npos);
  } else {
    EXPECT_EQ(message({.mode = ExecutionMode::whole}, world, 3), "accepted");
  }
}

TEST(IdentityDenoiser, copies) {
  if (test::other_rank()) return;
  const at::Tensor x = picture(1, 3, 4, at::kFloat);
  at::Tensor y = at::zeros_like(x);
  const auto d = make_identity_denoiser();
  d->apply(x, 0.1, y);
  EXPECT_TRUE(x.equal(y));
  EXPECT_EQ(d->bytes_sent(), 0);
}

}  // namespace
}  // namespace tessera
