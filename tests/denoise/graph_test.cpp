// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/graph.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {
namespace {

struct Figures {
  std::string scenario;
  NetworkOptions options;
  std::int64_t alignment, reach, halo;
  double mega_macs;  // per pixel, as counted from the published networks; 0: not known
  std::int64_t parameters;
};

NetworkOptions drunet(std::int64_t channels, std::vector<std::int64_t> widths = {}, std::int64_t blocks = 4) {
  return {.name = "drunet", .channels = channels, .widths = std::move(widths), .blocks = blocks};
}
NetworkOptions unet(std::int64_t channels, std::vector<std::int64_t> widths = {}) {
  return {.name = "unet", .channels = channels, .widths = std::move(widths)};
}
NetworkOptions ffdnet(std::int64_t channels) { return {.name = "ffdnet", .channels = channels, .depth = 15}; }

NetworkOptions published(const std::string& name, std::int64_t channels) {
  NetworkOptions o = published_network(name);
  o.channels = channels;
  return o;
}
constexpr std::int64_t kEverywhere = std::int64_t{1} << 30;

const std::vector<Figures>& table() {
  static const std::vector<Figures> figures{
      {"drunet color", drunet(3), 8, 185, 192, 2.118, 32640960},
      {"drunet gray", drunet(1), 8, 185, 192, 2.115, 32638656},
      {"drunet, 2 blocks", drunet(3, {}, 2), 8, 93, 96, 1.085, 17010624},
      {"dncnn color", {.name = "dncnn", .channels = 3}, 1, 20, 20, 0.667, 668227},
      {"dncnn gray", {.name = "dncnn", .channels = 1}, 1, 20, 20, 0.665, 665921},
      {"dncnn, 17 layers", {.name = "dncnn", .channels = 1, .depth = 17}, 1, 17, 17, 0, 0},
      // Batch norm: two parameters and two running statistics per channel, all of them are read.
      {"gsdrunet color", {.name = "gsdrunet", .channels = 3, .blocks = 2}, 8, 189, 192, 2.17, 17010624},
      {"gsdrunet gray", {.name = "gsdrunet", .channels = 1, .blocks = 2}, 8, 189, 192, 0, 17008320},
      // Besides, a last bias, running statistics, and the 2 x 2 kernels between pixels and channels.
      {"ffdnet gray", ffdnet(1), 2, 30, 30, 0.122, 488704 + 4 + 2 * 13 * 64 + 64 + 16},
      {"ffdnet color", ffdnet(3), 2, 30, 30, 0.124, 497920 + 12 + 2 * 13 * 64 + 256 + 144},
      // Besides, the 2 x 2 kernels between pixels and channels.
      {"restormer gray", published("restormer", 1), 8, kEverywhere, kEverywhere, 0, 26109076 + 967680},
      {"restormer color", published("restormer", 3), 8, kEverywhere, kEverywhere, 0, 26111668 + 967680},
      {"scunet color", {.name = "scunet", .channels = 3}, 64, 305, 320, 0, 17946072},
      {"unet gray", unet(1), 8, 54, 56, 0.756, 8562881 + 2 * 3264},
      {"unet color", unet(3), 8, 54, 56, 0.758, 8564163 + 2 * 3264},
      {"dncnn3d gray",
       {.name = "dncnn3d", .channels = 1},
       1,
       20,
       20,
       0,
       20 * 64 + 1 + 27 * (2 * 64 + 18 * 4096) - 64},
      {"unet, 2 scales", unet(1, {64, 128}), 2, 10, 10, 0, 444737 + 2 * 576},
      {"unet, 3 scales", unet(1, {64, 128, 256}), 4, 0, 28, 0, 2069441 + 2 * 1472},
      {"unet, 5 scales", unet(1, {64, 128, 256, 512, 1024}), 16, 0, 112, 0, 34525889 + 2 * 6848},
  };
  return figures;
}

TEST(Graph, alignment_halo_and_cost_are_those_of_the_published_networks) {
  for (const Figures& f : table()) {
    SCOPED_TRACE(f.scenario);
    const Graph graph = make_graph(f.options);
    EXPECT_EQ(graph.alignment()[1], f.alignment);
    EXPECT_EQ(graph.halo()[1], f.halo);
    if (f.reach > 0) {
      EXPECT_EQ(graph.reach()[1], f.reach);
    }
    if (f.mega_macs > 0) {
      EXPECT_NEAR(graph.macs_per_pixel() / 1e6, f.mega_macs, 6e-4);
    }
    if (f.parameters > 0) {
      std::int64_t count = 0;
      for (const auto& [name, shape] : weight_shapes(graph)) {
        std::int64_t size = 1;
        for (const std::int64_t extent : shape) size *= extent;
        count += size;
      }
      EXPECT_EQ(count, f.parameters);
    }
  }
}

/// All weights 1, so that a pulse reaches every pixel that it can: nothing cancels.
std::map<std::string, at::Tensor> ones_for(const Graph& graph) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, shape] : weight_shapes(graph)) {
    const bool neutral = name.ends_with(".bias") || name.ends_with("running_mean");
    weights[name] = neutral ? at::zeros(shape, at::kDouble) : at::ones(shape, at::kDouble);
  }
  return weights;
}

/// True where a pulse at `distance` pixels before (negative) or behind an aligned core changes it.
bool reaches(const Graph& graph, std::size_t axis, std::int64_t distance) {
  const Index3 units = graph.alignment();
  const std::int64_t unit = units[axis];
  const std::int64_t core = 2 * graph.halo()[axis] + 2 * unit;  // far from the borders
  const bool volume = graph.axes() == Axes::volume;
  std::vector<std::int64_t> sizes{1, 1, units[1], units[2]};
  if (volume) sizes.insert(sizes.begin() + 2, units[0]);
  const auto along = static_cast<std::int64_t>(axis) - 3;
  sizes[sizes.size() - 3 + axis] = 2 * core + unit;
  at::Tensor x = at::zeros(sizes, at::kDouble);
  const std::int64_t pulse = distance < 0 ? core + distance : core + unit - 1 + distance;
  x.select(along, pulse).fill_(1);
  const at::Tensor y = evaluate(graph, ones_for(graph), x, at::zeros({1}, at::kDouble));
  return y.narrow(along, core, unit).abs().max().item<double>() > 0;
}

TEST(Graph, farthest_pixel_that_matters_lies_exactly_at_the_reach) {
  for (const NetworkOptions& options :
       {drunet(1, {1, 1, 1, 1}), drunet(1, {1, 1, 1, 1}, 2), drunet(1, {1, 1, 1}, 2), drunet(1, {1, 1}, 1),
        NetworkOptions{.name = "gsdrunet", .channels = 1, .widths = {1, 1, 1}, .blocks = 1},
        NetworkOptions{.name = "ffdnet", .channels = 1, .widths = {1}, .depth = 4},
        NetworkOptions{.name = "dncnn", .channels = 1, .widths = {1}}, unet(1, {1, 1}), unet(1, {1, 1, 1}),
        unet(1, {1, 1, 1, 1}), NetworkOptions{.name = "dncnn3d", .channels = 1, .widths = {1}, .depth = 6},
        NetworkOptions{.name = "drunet3d", .channels = 1, .widths = {1, 1, 1}, .blocks = 1}}) {
    const Graph graph = make_graph(options);
    for (std::size_t axis = first_axis(graph.axes()); axis < 3; ++axis) {
      const std::int64_t reach = graph.reach()[axis];
      SCOPED_TRACE(::testing::Message() << options.name << ", " << options.widths.size() << " widths, "
                                        << options.blocks << " blocks, axis " << axis << ", reach " << reach);
      const bool below = reaches(graph, axis, -reach), above = reaches(graph, axis, reach);
      EXPECT_TRUE(below || above) << "the reach is too large";
      EXPECT_FALSE(reaches(graph, axis, -reach - 1)) << "the reach is too small below";
      EXPECT_FALSE(reaches(graph, axis, reach + 1)) << "the reach is too small above";
      EXPECT_GT(reach, graph.halo()[axis] - graph.alignment()[axis]) << "one unit less would be enough";
    }
    if (graph.axes() == Axes::picture) {
      EXPECT_EQ(graph.reach()[0], 0);
      EXPECT_EQ(graph.alignment()[0], 1);
    }
  }
}

TEST(Graph, one_image_has_one_kind_of_axes) {
  Graph g;
  const int volume = g.add({.op = Op::input, .channels = 1, .axes = Axes::volume});
  EXPECT_EQ(g.nodes()[static_cast<std::size_t>(g.add({.op = Op::relu, .inputs = {volume}}))].axes,
            Axes::volume);
  Node picture{.op = Op::input, .channels = 1};
  EXPECT_NE(g.complete(picture).find("one kind of axes"), std::string::npos);
  const int qkv = g.add({.op = Op::conv, .inputs = {volume}, .channels = 3, .weight = "qkv"});
  Node attention{.op = Op::window_attention, .inputs = {qkv}, .weight = "r", .window = 4};
  EXPECT_NE(g.complete(attention).find("its windows are squares"), std::string::npos);
}

TEST(Graph, weight_names_and_shapes_are_those_of_the_state_dict) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, shape] : weight_shapes(make_graph(drunet(3)))) shapes[name] = shape;
  EXPECT_EQ(shapes.size(), 64u);
  EXPECT_EQ(shapes.at("m_head.weight"), (std::vector<std::int64_t>{64, 4, 3, 3}));
  EXPECT_EQ(shapes.at("m_down2.4.weight"), (std::vector<std::int64_t>{256, 128, 2, 2}));
  EXPECT_EQ(shapes.at("m_up3.0.weight"), (std::vector<std::int64_t>{512, 256, 2, 2}));
  EXPECT_EQ(shapes.at("m_up1.4.res.2.weight"), (std::vector<std::int64_t>{64, 64, 3, 3}));
  EXPECT_EQ(shapes.at("m_body.3.res.0.weight"), (std::vector<std::int64_t>{512, 512, 3, 3}));
  EXPECT_EQ(shapes.at("m_tail.weight"), (std::vector<std::int64_t>{3, 64, 3, 3}));

  EXPECT_EQ(weight_shapes(make_graph({.name = "dncnn"})).size(), 40u);
  shapes.clear();
  for (const auto& [name, shape] : weight_shapes(make_graph(unet(1)))) shapes[name] = shape;
  EXPECT_EQ(shapes.size(), 121u - 17u);  // without the 17 batch counters
  EXPECT_EQ(shapes.at("Up4.1.weight"), (std::vector<std::int64_t>{256, 512, 3, 3}));
  EXPECT_EQ(shapes.at("Up4.2.running_var"), (std::vector<std::int64_t>{256}));
  EXPECT_EQ(shapes.at("Up_conv2.3.weight"), (std::vector<std::int64_t>{64, 64, 3, 3}));
  EXPECT_EQ(shapes.at("Up_conv2.0.weight"), (std::vector<std::int64_t>{64, 128, 3, 3}));
  EXPECT_EQ(shapes.at("Conv_1x1.weight"), (std::vector<std::int64_t>{1, 64, 1, 1}));
}

TEST(Graph, impossible_networks_are_refused) {
  EXPECT_THROW(make_graph({.name = "drunett"}), InputError);
  EXPECT_THROW(make_graph(drunet(3, {64})), InputError);
  EXPECT_THROW(make_graph(drunet(3, {64, 0})), InputError);
  EXPECT_THROW(make_graph(drunet(3, {}, 0)), InputError);
  EXPECT_THROW(make_graph(drunet(0)), InputError);
  EXPECT_THROW(make_graph({.name = "dncnn", .widths = {64, 64}}), InputError);
  EXPECT_THROW(make_graph({.name = "dncnn", .depth = 1}), InputError);
  EXPECT_THROW(make_graph(unet(1, {64})), InputError);
  EXPECT_THROW(make_graph({.name = "gsdrunet", .blocks = 0}), InputError);
  EXPECT_THROW(make_graph({.name = "ffdnet", .depth = 2}), InputError);
  EXPECT_THROW(make_graph({.name = "scunet", .widths = {64, 96}}), InputError);
  EXPECT_THROW(make_graph({.name = "scunet", .widths = {64, 63}}), InputError);
  EXPECT_THROW(make_graph({.name = "scunet", .blocks = 0}), InputError);
  EXPECT_THROW(make_graph({.name = "restormer", .widths = {48, 96, 192}}), InputError);
  EXPECT_THROW(make_graph({.name = "restormer", .widths = {48, 96, 192, 380}}), InputError);
  EXPECT_THROW(make_graph({.name = "restormer", .stages = {1, 1, 1, 1}}), InputError);
  EXPECT_THROW(make_graph({.name = "restormer", .expansion = 0}), InputError);
  EXPECT_THROW(make_graph({.name = "restormer", .widths = {48, 96, 192, 384}, .head = 36}), InputError);
  EXPECT_THROW(make_graph({.name = "ffdnet", .widths = {64, 64}}), InputError);
  try {
    make_graph({.name = "drunett"});
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean drunet?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
