// SPDX-License-Identifier: BSD-3-Clause
// Lists of layers as they come from files: any that is accepted is computed alike in every way.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "random_list.hpp"
#include "support/groups.hpp"
#include "support/once.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "whole_image.hpp"

namespace tessera {
namespace {

using test::difference;
using test::kSigma;
using test::once;
using test::picture;
using test::random_list;
using test::whole;

Network traced(const std::string& layers, std::int64_t channels, std::uint64_t seed = 1) {
  return random_network({.name = "traced", .channels = channels, .layers = layers}, seed);
}

TEST(Traced, random_lists_equal_the_whole_image_in_every_mode_on_any_ranks) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    const std::int64_t channels = seed % 3 + 1;
    const std::string text = random_list(seed, channels);
    const Network network = traced(text, channels, seed);
    const at::Tensor image = picture(channels, 37, 26, at::kDouble);
    const at::Tensor want = once([&] { return whole(network, image, kSigma); });
    // Of 1, 2, 3 and of 4, 5, 7 ranks one each: every number has six lists or more, with any channels.
    constexpr int kMany[] = {4, 5, 7};
    const int few = 1 + static_cast<int>(seed / 3 % 3), many = kMany[seed / 9 % 3];
    test::on_groups({few, many}, [&](const Communicator& comm) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << text);
      const test::Blocks s(comm, network, image);
      for (const ExecutionMode mode :
           {ExecutionMode::automatic, ExecutionMode::patch, ExecutionMode::layer}) {
        const std::int64_t patch = mode == ExecutionMode::patch ? 8 : 0;
        const int depth = mode == ExecutionMode::layer ? 1 + static_cast<int>(seed) % 3 : 0;
        const auto d = make_network_denoiser(
            network, {.mode = mode, .patch = patch, .type = at::kDouble, .halo_depth = depth}, s.context);
        EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << word(mode);
        EXPECT_LT(difference(s, *d, image, kSigma, want), 1e-10) << word(mode) << ", second call";
      }
      const auto single = make_network_denoiser(network, {.mode = ExecutionMode::layer}, s.context);
      EXPECT_LT(difference(s, *single, image.to(at::kFloat), kSigma, want.to(at::kFloat)), 1e-4);
    });
  }
}

TEST(Traced, goes_through_its_weights_file) {
  if (test::other_rank()) return;
  const Network network = traced(random_list(5, 3), 3);
  const std::string path =
      std::filesystem::temp_directory_path() / ("traced" + std::to_string(getpid()) + ".safetensors");
  save_network(network, path, {});
  const Network read = load_network("traced", path, 3);
  EXPECT_EQ(read.options.layers, network.options.layers);
  const at::Tensor image = picture(3, 16, 16, at::kDouble);
  EXPECT_EQ(whole(read, image, kSigma).equal(whole(network, image, kSigma)), true);
  EXPECT_THROW(load_network("drunet", path, 3), InputError);
  std::filesystem::remove(path);
}

TEST(Traced, refuses_what_is_no_list_of_layers) {
  if (test::other_rank()) return;
  const auto message = [](const std::string& layers) {
    try {
      traced(layers, 1);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string image = R"([{"op":"input","channels":1},)";
  const auto conv = [&](const std::string& more) {
    return image + R"({"op":"conv","inputs":[0],"weight":"w","channels":1)" + more + "}]";
  };
  EXPECT_EQ(message(conv(R"(,"kernel":3)")), "accepted");
  for (
      const auto& [layers, part] : std::vector<std::pair<std::string, std::string>>{
          {"", "no layers of its own"},
          {"[", "no list"},
          {"{}", "no list"},
          {"[]", "no list"},
          {"[3]", "no object"},
          {image + "{}]", "no operation"},
          {R"([{"op":"input","channels":1}])", "an image of 1 channels goes in and comes out"},
          {R"([{"op":"input","channels":2}])", "an image of 2 channels (the file says 1)"},
          {conv(R"(,"kernel":2)"), "odd kernel"},
          {conv(R"(,"kernel":65535)"), "kernels of 65535"},
          {conv(R"(,"kernel":-1)"), "kernel is -1 (a whole number"},
          {conv(R"(,"kernel":1e99)"), "kernel is 1e+99"},
          {conv(R"(,"kernel":)" + std::string(100000, '[') + std::string(100000, ']')), "kernel is array"},
          {conv(R"(,"kernel":3,"stride":2)"), "unknown key"},
          {image + R"({"op":"conv","inputs":[0],"channels":1}])", "names no weight"},
          {image + R"({"op":"conv","inputs":[1],"weight":"w","channels":1}])", "reads node 1"},
          {image + R"({"op":"conv","inputs":[7],"weight":"w","channels":1}])", "reads node 7"},
          {image + R"({"op":"conv","inputs":0,"weight":"w","channels":1}])", "inputs is no list"},
          {conv(R"(,"kernel":3,"bias":"w")"), "w is another layer's"},
          {image +
               R"({"op":"conv","inputs":[0],"weight":"w","channels":1},{"op":"conv","inputs":[1],"weight":"w","channels":1}])",
           "w is another layer's"},
          {image + R"({"op":"add","inputs":[0]}])", "a sum has two or more"},
          {image + R"({"op":"relu","inputs":[0,0]}])", "relu has 2 inputs"},
          {image + R"({"op":"sigma_map"},{"op":"conv","inputs":[1],"weight":"w","channels":1}])",
           "reads the noise level"},
          {image + R"({"op":"mean","inputs":[0]}])", "operation \"mean\""},
          {image + R"({"op":"batch_norm","inputs":[0],"weight":"w"}])", "operation \"batch_norm\""},
          {image + R"({"op":"upsample","inputs":[0]}])", "finer than the image"},
          {image + R"({"op":"max_pool","inputs":[0]}])", "at level 1"},
          {image + R"({"op":"relu","inputs":[0]},{"op":"relu","inputs":[0]}])",
           "a layer that nobody reads (layer 1)"},
          {image + R"({"op":"channel_attention","inputs":[0],"heads":0,"weight":"w"}])",
           "attention of 0 heads"},
      })
    EXPECT_NE(message(layers).find(part), std::string::npos)
        << layers.substr(0, 300) << ": " << message(layers);
}

}  // namespace
}  // namespace tessera
