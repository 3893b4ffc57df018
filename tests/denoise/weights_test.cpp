// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/io/safetensors.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string file(const std::string& name) { return (fs::current_path() / ("weights_" + name)).string(); }

const NetworkOptions& narrow() {
  static const NetworkOptions options{.name = "drunet", .channels = 3, .widths = {4, 6, 8}, .blocks = 2};
  return options;
}

std::string refusal(const std::string& name, const std::string& path, std::int64_t channels) {
  try {
    load_network(name, path, channels);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// The message with which a spoilt copy of good weights is refused.
std::string refusal_of(const std::function<void(SafeTensors&)>& spoil) {
  const std::string path = file("spoilt.safetensors");
  save_network(random_network(narrow(), 1), path, {});
  SafeTensors content = read_safetensors(path);
  spoil(content);
  write_safetensors(path, content);
  const std::string message = refusal("drunet", path, 3);
  fs::remove(path);
  return message;
}

TEST(Weights, what_is_saved_is_loaded) {
  const std::vector<NetworkOptions> networks{
      narrow(),
      {.name = "dncnn", .channels = 1, .widths = {5}, .depth = 6, .residual = false},
      {.name = "unet", .channels = 3, .widths = {4, 6}, .batch_norm = true},
      {.name = "unet", .channels = 1, .widths = {4, 6, 8}, .batch_norm = false},
      {.name = "gsdrunet", .channels = 3, .widths = {4, 6}, .blocks = 2},
      {.name = "ffdnet", .channels = 3, .widths = {4}, .depth = 5, .batch_norm = true},
      {.name = "ffdnet", .channels = 1, .widths = {4}, .depth = 6, .batch_norm = false},
      {.name = "scunet", .channels = 3, .widths = {4, 8}, .blocks = 2, .head = 2},
      {.name = "restormer",
       .channels = 3,
       .widths = {4, 8, 16, 32},
       .head = 4,
       .stages = {1, 2, 1, 1, 3},
       .expansion = 2.1,
       .norm_bias = true}};
  for (const NetworkOptions& options : networks) {
    SCOPED_TRACE(options.name);
    Network saved = random_network(options, 3);
    saved.sigma_range = {0.01, 0.2};
    const std::string path = file("roundtrip.safetensors");
    save_network(saved, path, {{"license", "BSD-3-Clause"}});
    EXPECT_EQ(read_safetensors(path).metadata.at("license"), "BSD-3-Clause");
    for (const bool with_metadata : {true, false}) {
      if (!with_metadata) {  // as a converted file comes: the shapes must tell
        SafeTensors content = read_safetensors(path);
        content.metadata.clear();
        write_safetensors(path, content);
      }
      if (options.name == "unet" && !with_metadata) {  // shapes do not tell what a UNet's residual is
        const std::string message = refusal(options.name, path, options.channels);
        EXPECT_NE(message.find("does not say whether the output of its unet is added"), std::string::npos)
            << message;
        continue;
      }
      const Network loaded = load_network(options.name, path, options.channels);
      EXPECT_EQ(loaded.options.widths, options.widths);
      EXPECT_EQ(loaded.options.channels, options.channels);
      if (options.name.ends_with("drunet")) {
        EXPECT_EQ(loaded.options.blocks, options.blocks);
      }
      if (options.depth != NetworkOptions{}.depth) {
        EXPECT_EQ(loaded.options.depth, options.depth);
      }
      if (options.name == "unet" || options.name == "ffdnet") {
        EXPECT_EQ(loaded.options.batch_norm, options.batch_norm);
      }
      EXPECT_EQ(loaded.options.residual, with_metadata ? options.residual : true);
      EXPECT_EQ(loaded.sigma_range, with_metadata ? saved.sigma_range : std::nullopt);
      EXPECT_EQ(loaded.weights.size(), saved.weights.size());
      for (const auto& [name, tensor] : saved.weights) EXPECT_TRUE(loaded.weights.at(name).equal(tensor));
    }
    fs::remove(path);
  }
}

TEST(Weights, every_tensor_that_is_wrong_is_listed) {
  const std::string message = refusal_of([](SafeTensors& f) {
    f.tensors["m_other.weight"] = f.tensors.at("m_tail.weight");
    f.tensors.erase("m_tail.weight");
    f.tensors.at("m_head.weight").shape = {4, 12, 3, 1};
  });
  EXPECT_NE(message.find("missing: m_tail.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("extra: m_other.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("misshapen: m_head.weight is 4x12x3x1 instead of 4x4x3x3"), std::string::npos)
      << message;
}

TEST(Weights, numbers_that_are_none_and_types_that_are_no_weights_are_refused) {
  EXPECT_NE(refusal_of([](SafeTensors& f) {
              const float nan = std::numeric_limits<float>::quiet_NaN();
              std::memcpy(f.tensors.at("m_tail.weight").bytes.data(), &nan, 4);
            }).find("m_tail.weight holds infinite or not-a-number"),
            std::string::npos);
  EXPECT_NE(refusal_of([](SafeTensors& f) { f.tensors.at("m_tail.weight").dtype = "I32"; }).find("is I32"),
            std::string::npos);
  EXPECT_NE(refusal_of([](SafeTensors& f) { f.metadata["sigma_range"] = "0.2,0.1"; }).find("sigma_range"),
            std::string::npos);
  EXPECT_NE(refusal_of([](SafeTensors& f) { f.metadata["blocks"] = "two"; }).find("metadata blocks is 'two'"),
            std::string::npos);
  EXPECT_NE(refusal_of([](SafeTensors& f) { f.metadata["network"] = "unet"; }).find("weights of a unet"),
            std::string::npos);
}

TEST(Weights, metadata_that_no_network_can_have_are_refused) {
  for (const auto& [key, value] : std::map<std::string, std::string>{{"blocks", "1e300"},
                                                                     {"channels", "nan"},
                                                                     {"widths", "4,6,-8"},
                                                                     {"blocks ", "2.5"},
                                                                     {"residual", "2"},
                                                                     {"sigma_range", "0.1,inf"}}) {
    const std::string name = key.substr(0, key.find(' '));
    const std::string message = refusal_of([&](SafeTensors& content) { content.metadata[name] = value; });
    EXPECT_NE(message.find("metadata " + name), std::string::npos) << value << ": " << message;
  }
}

TEST(Weights, files_of_other_libraries_are_named_with_the_command) {
  const std::string path = file("foreign.pth");
  for (const auto& [bytes, word] : std::vector<std::pair<std::string, std::string>>{
           {std::string("PK\x03\x04\0\0\x08\x08\0\0 archive", 18), "a zip archive"},
           {"\x80\x02}q\x01(X\x01.........", "a pickle"},
           {"\xdf....params...", "MessagePack"},
           {"\x89HDF\r\n\x1a\n........", "HDF5"}}) {
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string message = refusal("drunet", path, 1);
    EXPECT_NE(message.find(word), std::string::npos) << message;
    EXPECT_NE(message.find("jobs/convert_weights.py"), std::string::npos) << message;
  }
  fs::remove(path);
  EXPECT_NE(refusal("drunet", "mine.pth", 1).find("no such file"), std::string::npos);
}

TEST(Weights, half_precision_is_widened) {
  Network network = random_network(narrow(), 4);
  const std::string path = file("half.safetensors");
  save_network(network, path, {});
  SafeTensors content = read_safetensors(path);
  SafeTensor& tail = content.tensors.at("m_tail.weight");
  const at::Tensor half = network.weights.at("m_tail.weight").to(at::kHalf).contiguous();
  tail.dtype = "F16";
  const auto* bytes = static_cast<const std::uint8_t*>(half.data_ptr());
  tail.bytes.assign(bytes, bytes + 2 * half.numel());
  write_safetensors(path, content);
  const Network loaded = load_network("drunet", path, 3);
  EXPECT_TRUE(loaded.weights.at("m_tail.weight").equal(half.to(at::kFloat)));
  fs::remove(path);
}

TEST(Weights, channels_must_fit_the_image_but_gray_may_use_color) {
  const std::string path = file("channels.safetensors");
  NetworkOptions options = narrow();
  save_network(random_network(options, 1), path, {});
  EXPECT_EQ(load_network("drunet", path, 3).channels(), 3);
  EXPECT_EQ(load_network("drunet", path, 1).channels(), 3);  // replicated and averaged by the executor
  options.channels = 1;
  save_network(random_network(options, 1), path, {});
  EXPECT_EQ(load_network("drunet", path, 1).channels(), 1);
  EXPECT_NE(refusal("drunet", path, 3).find("is for images with 1 channels"), std::string::npos);
  fs::remove(path);
}

TEST(Weights, a_name_is_looked_up_and_an_unknown_one_lists_what_there_is) {
  const fs::path folder = fs::current_path() / "weights_folder";
  fs::create_directories(folder);
  save_network(random_network(narrow(), 1), (folder / "mine.safetensors").string(), {});
  ASSERT_EQ(setenv("TESSERA_WEIGHTS", folder.c_str(), 1), 0);
  EXPECT_EQ(load_network("drunet", "mine", 3).options.widths, narrow().widths);
  const std::string message = refusal("drunet", "nobodys", 3);
  EXPECT_NE(message.find("no shipped weights named 'nobodys'"), std::string::npos) << message;
  EXPECT_NE(message.find("mine"), std::string::npos) << message;
  EXPECT_NE(refusal("drunet", "./nowhere.safetensors", 3).find("no such file"), std::string::npos);
  unsetenv("TESSERA_WEIGHTS");
  fs::remove(folder / "mine.safetensors");
  fs::remove(folder);
}

TEST(Weights, shipped_weights_load_and_say_for_which_noise) {
  struct Shipped {
    std::string name;
    std::int64_t channels, halo;
  };
  for (const auto& [name, channels, halo] : {Shipped{"drunet_small_color", 3, 48},
                                             {"drunet_small_gray", 1, 48},
                                             {"drunet3d_small", 1, 24},
                                             {"drunet3d_small_stable", 1, 24},
                                             {"drunet3d_wide", 1, 24},
                                             {"drunet3d_wide_stable", 1, 24}}) {
    SCOPED_TRACE(name);
    const bool volume = name.starts_with("drunet3d");
    const Network network = load_network(volume ? "drunet3d" : "drunet", name, channels);
    EXPECT_EQ(network.channels(), channels);
    EXPECT_TRUE(network.takes_sigma());
    EXPECT_EQ(network.halo()[1], halo);
    ASSERT_TRUE(network.sigma_range);
    EXPECT_EQ(network.sigma_range->first, 0);
    EXPECT_NEAR(network.sigma_range->second, 50.0 / 255, 1e-6);
    // A constant image without noise comes back: gross damage to a file would show.
    std::vector<std::int64_t> sizes{1, channels, 64, 64};
    if (volume) sizes.insert(sizes.begin() + 2, 32);
    const at::Tensor flat = at::full(sizes, 0.5, at::kFloat);
    const at::Tensor out = evaluate(network.graph, network.weights, flat, at::zeros({1}, at::kFloat));
    EXPECT_LT(out.sub(flat).narrow(-2, 16, 32).narrow(-1, 16, 32).abs().max().item<double>(), 0.02);
  }
}

/// Weights that others trained, published for DnCNN: outside the source tree, see docs/weights_from_elsewhere.md.
TEST(Weights, dncnn_trained_by_others_loads) {
  const char* folder = std::getenv("TESSERA_DATA");
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  const fs::path data =
      folder ? fs::path(folder) : fs::path(source ? source : ".") / ".." / "shared" / "data";
  const fs::path path = data / "weights" / "dncnn_blind_gray.safetensors";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there; set TESSERA_DATA to try it";
  const Network network = load_network("dncnn", path.string(), 1);
  EXPECT_EQ(network.options.depth, 20);
  EXPECT_EQ(network.halo()[1], 20);
  const at::Tensor flat = at::full({1, 1, 64, 64}, 0.5, at::kFloat);
  const at::Tensor out = evaluate(network.graph, network.weights, flat, at::zeros({1}, at::kFloat));
  EXPECT_LT(out.sub(flat).narrow(2, 20, 24).narrow(3, 20, 24).abs().max().item<double>(), 0.02);
}

}  // namespace
}  // namespace tessera
