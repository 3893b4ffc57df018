// SPDX-License-Identifier: BSD-3-Clause
// Denoisers on 1, 2, 3, 4, 5 and 7 ranks against the network on the whole padded image.
#include "tessera/denoise/denoiser.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

// A pattern that every rank makes alike, without random state.
at::Tensor picture(std::int64_t channels, std::int64_t height, std::int64_t width, at::ScalarType type) {
  at::Tensor x = at::zeros({channels, height, width}, at::kDouble);
  auto a = x.accessor<double, 3>();
  std::uint64_t state = 1;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        a[c][i][j] = static_cast<double>(state >> 11) / 9007199254740992.0;
      }
  return x.to(type);
}

Network tiny(const std::string& name, std::int64_t channels) {
  NetworkOptions o;
  o.name = name;
  o.channels = channels;
  o.widths = name == "dncnn" ? std::vector<std::int64_t>{6} : std::vector<std::int64_t>{4, 6, 8};
  o.blocks = 1;
  o.depth = 5;
  return random_network(o, 3);
}

at::Tensor turned(const at::Tensor& x, int symmetry) {
  at::Tensor y = symmetry & 4 ? x.transpose(-2, -1) : x;
  if (symmetry & 2) y = y.flip({-2});
  return symmetry & 1 ? y.flip({-1}) : y;
}
at::Tensor turned_back(at::Tensor y, int symmetry) {
  if (symmetry & 2) y = y.flip({-2});
  if (symmetry & 1) y = y.flip({-1});
  return symmetry & 4 ? y.transpose(-2, -1) : y;
}

// The definition: pad once at the end, the mean over these symmetries of the whole image, crop.
at::Tensor whole(const Network& network, const at::Tensor& image, double sigma,
                 std::vector<int> symmetries = {0}) {
  const std::int64_t a = network.alignment(), h = image.size(1), w = image.size(2);
  at::Tensor x = at::replication_pad2d(image.unsqueeze(0), {0, (a - w % a) % a, 0, (a - h % a) % a});
  if (x.size(1) != network.channels()) x = x.expand({-1, network.channels(), -1, -1});
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, weight] : network.weights) weights[name] = weight.to(x.scalar_type());
  at::Tensor sum;
  for (const int s : symmetries) {
    const at::Tensor y =
        turned_back(evaluate(network.graph, weights, turned(x, s), at::full({1}, sigma, x.options())), s);
    sum = sum.defined() ? sum + y : y;
  }
  sum = sum / static_cast<double>(symmetries.size());
  if (image.size(0) != network.channels()) sum = sum.mean(1, true);
  return sum[0].narrow(1, 0, h).narrow(2, 0, w);
}

struct Fixture {
  DenoiserContext context;
  Box own;
  Fixture(const Communicator& comm, const Network& network, const at::Tensor& image) {
    const Box box = Box::image2d(image.size(1), image.size(2));
    const std::int64_t a = network.alignment();
    const Decomposition d = Decomposition::choose(
        box, {1, a, a}, comm.size(), [](const Box& b) { return static_cast<double>(b.pixels()); });
    context = {d, image.size(0), comm, make_transport(comm, Device{}, TransportKind::mpi)};
    own = d.block(comm.rank());
  }
  at::Tensor part(const at::Tensor& image) const {
    return crop(image, Box::image2d(image.size(1), image.size(2)), own).contiguous();
  }
};

// Largest difference on this rank's block, relative to the whole result; 0 for empty blocks.
double difference(const Fixture& s, Denoiser& d, const at::Tensor& image, double sigma,
                  const at::Tensor& want) {
  const at::Tensor in = s.part(image), before = in.clone();
  at::Tensor out = at::full_like(in, -7.0);
  d.apply(in, sigma, out);
  EXPECT_TRUE(in.equal(before));
  if (in.numel() == 0) return 0;
  return ((out - s.part(want)).abs().max() / want.abs().max()).item<double>();
}

constexpr double kSigma = 0.1;

TEST(NetworkDenoiser, equals_the_whole_image_on_any_ranks) {
  for (const char* name : {"drunet", "unet", "dncnn"}) {
    const Network network = tiny(name, 3);
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{64, 64}, {97, 45}, {9, 6}}) {
      const at::Tensor image = picture(3, height, width, at::kDouble);
      const at::Tensor want = whole(network, image, kSigma);
      ASSERT_GT((want - want.mean()).abs().max().item<double>(), 1e-6);
      test::on_groups([&](const Communicator& comm) {
        SCOPED_TRACE(testing::Message() << name << ' ' << height << " x " << width);
        const Fixture s(comm, network, image);
        for (const std::int64_t patch : {std::int64_t{0}, std::int64_t{8}, std::int64_t{24}}) {
          const auto d =
              make_network_denoiser(network, {.patch = patch, .batch = 3, .type = at::kDouble}, s.context);
          EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << patch;
          EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << "second call, patch " << patch;
        }
        const auto single = make_network_denoiser(network, {}, s.context);
        EXPECT_LT(difference(s, *single, image.to(at::kFloat), kSigma, want.to(at::kFloat)), 1e-5);
      });
    }
  }
}

TEST(NetworkDenoiser, one_unit_less_of_halo_differs) {
  const Network network = tiny("drunet", 1);
  const at::Tensor image = picture(1, 96, 96, at::kDouble);
  ASSERT_LT(network.halo(), 48);  // a window ends inside the image
  const at::Tensor want = whole(network, image, kSigma);
  const Fixture s(Communicator(), network, image);
  const auto largest = [&](std::int64_t halo) {
    const auto d = make_network_denoiser(
        network, {.mode = ExecutionMode::patch, .patch = 8, .type = at::kDouble, .halo = halo}, s.context);
    return difference(s, *d, image, kSigma, want);
  };
  EXPECT_LT(largest(network.halo()), 1e-13);
  EXPECT_GT(largest(network.halo() - network.alignment()), 1e-13);
  EXPECT_GT(largest(0), 1e-3);
}

TEST(NetworkDenoiser, averages_over_turns_of_the_whole_image) {
  const Network network = tiny("drunet", 1);
  const at::Tensor image = picture(1, 41, 30, at::kDouble);
  test::on_groups([&](const Communicator& comm) {
    const Fixture s(comm, network, image);
    const auto with = [&](Averaging averaging) {
      return make_network_denoiser(network, {.patch = 16, .averaging = averaging, .type = at::kDouble},
                                   s.context);
    };
    const at::Tensor flips = whole(network, image, kSigma, {0, 1, 2, 3});
    const at::Tensor all = whole(network, image, kSigma, {0, 1, 2, 3, 4, 5, 6, 7});
    EXPECT_GT((flips - all).abs().max().item<double>(), 1e-6);
    EXPECT_LT(difference(s, *with(Averaging::flips4), image, kSigma, flips), 1e-10);
    EXPECT_LT(difference(s, *with(Averaging::all8), image, kSigma, all), 1e-10);
    const auto cycle = with(Averaging::cycle);
    for (int call = 0; call < 9; ++call)
      EXPECT_LT(difference(s, *cycle, image, kSigma, whole(network, image, kSigma, {call % 8})), 1e-10)
          << call;
  });
}

TEST(NetworkDenoiser, gray_image_through_a_color_network) {
  const Network network = tiny("drunet", 3);
  const at::Tensor image = picture(1, 24, 20, at::kDouble);
  const at::Tensor want = whole(network, image, kSigma);
  test::on_groups([&](const Communicator& comm) {
    const Fixture s(comm, network, image);
    const auto d = make_network_denoiser(network, {.type = at::kDouble}, s.context);
    EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10);
    EXPECT_NE(d->notice().find("gray"), std::string::npos);
  });
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

TEST(NetworkDenoiser, takes_the_fewest_windows_that_fit_the_memory) {
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
  EXPECT_EQ(message({.mode = ExecutionMode::layer}, Communicator(), 3),
            "denoiser.mode is layer (this version has no layer-wise execution) use patch");
  EXPECT_EQ(message({.patch = 102}, Communicator(), 3),
            "denoiser.patch is 102 (drunet needs a multiple of 4) use 100 or 104");
  EXPECT_NE(message({}, Communicator(), 2).find("2 channels"), std::string::npos);
  EXPECT_NE(message({.tf32 = true}, Communicator(), 3).find("tf32"), std::string::npos);
  if (world.size() > 1) {
    EXPECT_NE(message({.mode = ExecutionMode::whole}, world, 3).find("use patch"), std::string::npos);
  } else {
    EXPECT_EQ(message({.mode = ExecutionMode::whole}, world, 3), "accepted");
  }
}

TEST(IdentityDenoiser, copies) {
  const at::Tensor x = picture(1, 3, 4, at::kFloat);
  at::Tensor y = at::zeros_like(x);
  const auto d = make_identity_denoiser();
  d->apply(x, 0.1, y);
  EXPECT_TRUE(x.equal(y));
  EXPECT_EQ(d->bytes_sent(), 0);
}

}  // namespace
}  // namespace tessera
