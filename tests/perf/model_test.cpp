// SPDX-License-Identifier: BSD-3-Clause
// The cost model against sums done by hand.
#include "tessera/perf/model.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>

#include "../../src/perf/flight.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_traffic.hpp"
#include "tessera/denoise/windows.hpp"
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/fourier.hpp"
#include "tessera/perf/disk.hpp"
#include "tessera/perf/published.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

// One second per million products, copies at 1 GB/s, messages of 10 us and 1 ns per byte.
Machine plain() {
  Machine m;
  m.name = "plain";
  m.precisions[Precision::float32] = {{}, 2e6, 1.0};
  m.copy = m.pack = {{{1e9, 1.0}}};
  m.transform = {{{1e6, 1.0}}};
  m.direct = 1e6;
  m.state = {{{1e6, 1.0}}};
  m.reduction = {{{2, 1e-3}, {4, 2e-3}}};
  m.ranks_per_node = 2;
  m.links[TransportKind::mpi] = {{1e-5, 2e-6, 3e-6, 1e-9, true}, {1e-4, 2e-6, 3e-6, 1e-8, true}};
  return m;
}

NetworkWork dncnn(std::int64_t depth, std::int64_t width = 8) {
  NetworkOptions o;
  o.name = "dncnn";
  o.channels = 1;
  o.depth = depth;
  o.widths = {width};
  return network_work(random_network(o, 1), at::kFloat, false);
}

struct Parts {
  std::unique_ptr<OperatorPlan> op;
  DataWork data;
  explicit Parts(std::unique_ptr<LocalOperator> part) {
    std::vector<std::unique_ptr<LocalOperator>> list;
    list.push_back(std::move(part));
    op = plan_local_stack(std::move(list));
    data.op = op.get();
  }
};

// Of one apply and one adjoint.
std::int64_t operator_bytes(const Decomposition& d, const OperatorPlan& op, std::int64_t channels, int rank) {
  std::int64_t pixels = 0;
  for (const PlannedExchange& e : op.exchanges(ProductSpace(ImageSpace(d.image()), d), rank))
    pixels += e.plan.pixels_sent() + e.plan.pixels_received();
  return pixels * channels * 4;
}

BlurOptions box_blur(std::int64_t taps, BlurMethod method, Boundary boundary = Boundary::circular) {
  BlurOptions b;
  b.kernel = gaussian_kernel({0.3 * static_cast<double>(taps / 2 - 1) + 0.1, 0.1}, 0);
  b.method = method;
  b.boundary = boundary;
  return b;
}

TEST(NetworkWork, counts_what_the_runner_computes) {
  const NetworkWork work = dncnn(4);
  double products = 0;
  for (const auto& layer : work.layers)
    if (layer.passed == 0)
      products +=
          static_cast<double>(layer.kernel * layer.kernel) * static_cast<double>(layer.in * layer.out);
  EXPECT_EQ(products, 9.0 * (8 + 64 + 64 + 8));
  EXPECT_EQ(work.halo, (Index3{0, 4, 4}));
  NetworkOptions o;
  o.widths = {8, 16};
  o.blocks = 1;
  const Network drunet = random_network(o, 1);
  products = 0;
  for (const auto& layer : network_work(drunet, at::kFloat, false).layers) {
    if (layer.passed > 0) continue;
    products += layer.products() / std::pow(4.0, layer.level);
  }
  EXPECT_DOUBLE_EQ(products, drunet.graph.macs_per_pixel());
}

TEST(Model, one_convolution_by_hand) {
  Machine m = plain();
  const NetworkWork::Layer layer{Op::conv, 3, 4, 8};
  // 9 * 32 products * 100 pixels at 1e6 per second.
  EXPECT_DOUBLE_EQ(convolution_seconds(m, Precision::float32, layer, 100), 0.0288);
  m.call = 0.5;
  EXPECT_DOUBLE_EQ(convolution_seconds(m, Precision::float32, layer, 100), 0.5288);
  m.call = 0;
  m.copy = {{{1.0, 1.0}}};  // now the bytes bind: 12 channels * 100 pixels * 4 bytes
  EXPECT_DOUBLE_EQ(convolution_seconds(m, Precision::float32, layer, 100), 4800);
  m = plain();
  m.processors = 3;  // 8 * 100 values: 4 tiles of 200 are 2 rounds of 3 tiles; 8 of 100 are 3, and cost 1.15
  m.tile = 200;
  EXPECT_DOUBLE_EQ(convolution_seconds(m, Precision::float32, layer, 100), 0.0288 * 1.15 * 9 / 8);
  m.processors = 4;  // 4 tiles of 200: one full round
  EXPECT_DOUBLE_EQ(convolution_seconds(m, Precision::float32, layer, 100), 0.0288);
  // Measured shapes: the same one, and one of twice the channels from it.
  m.precisions[Precision::float32] = {
      {{Op::conv, 3, 4, 8, {{{100, 2.0}}}}, {Op::conv, 3, 64, 64, {{{100, 9.0}}}}}, 0, 0};
  EXPECT_DOUBLE_EQ(convolution_seconds(m, Precision::float32, layer, 50), 1.0);
  EXPECT_DOUBLE_EQ(convolution_seconds(m, Precision::float32, {Op::conv, 3, 8, 8}, 100), 4.0);
  EXPECT_THROW(convolution_seconds(m, Precision::bfloat16, layer, 100), InputError);
}

TEST(Model, layers_without_arithmetic_take_what_was_measured) {
  Machine m = plain();
  const NetworkWork::Layer pool{.op = Op::max_pool, .in = 8, .out = 8, .level = 1, .passed = 40};
  EXPECT_DOUBLE_EQ(layer_seconds(m, Precision::float32, pool, 100),
                   100 * 40 * 4 * 1e-9);  // passes, as described
  m.precisions[Precision::float32].layers = {{Op::max_pool, 1, 8, 8, {{{100, 0.5}}}},
                                             {Op::conv, 3, 8, 8, {{{100, 2.0}}}}};
  EXPECT_DOUBLE_EQ(layer_seconds(m, Precision::float32, pool, 100), 0.5);
  const NetworkWork::Layer wider{.op = Op::max_pool, .in = 16, .out = 16, .level = 1, .passed = 80};
  EXPECT_DOUBLE_EQ(layer_seconds(m, Precision::float32, wider, 100), 100 * 80 * 4 * 1e-9);
  EXPECT_DOUBLE_EQ(layer_seconds(m, Precision::float32, {Op::conv, 3, 8, 8}, 100), 2.0);

  // A pass is its layers, each at its level's pixels; a machine knows a network when it has them all.
  NetworkWork work;
  work.layers = {{Op::conv, 3, 8, 8}, pool};
  EXPECT_DOUBLE_EQ(pass_seconds(m, work, Precision::float32, {1, 10, 10}, 4), 4 * 2.0 + 0.5);
  EXPECT_TRUE(knows(m, work, Precision::float32));
  // Tiles of 4 x 4: 10 x 9 pixels are computed as 12 x 12.
  NetworkWork tiled = work;
  tiled.layers = {{Op::conv, 3, 8, 8}};
  tiled.layers[0].tile = 4;
  EXPECT_DOUBLE_EQ(pass_seconds(m, tiled, Precision::float32, {1, 10, 9}, 1), 1.44 * 2.0);
  work.layers.push_back(wider);
  EXPECT_FALSE(knows(m, work, Precision::float32));
}

TEST(Model, an_exchange_by_hand) {
  const Machine m = plain();
  // Four ranks in a row, two per host: rank 1 has a neighbor on its host and one beyond the network.
  const Decomposition d(Box::image2d(10, 40), {1, 1, 1}, {1, 1, 4});
  const ExchangePlan plan(d.layout(), d.layout().grow({{0, 0, 2}, {0, 0, 2}}), d.image(), Border::none, 1);
  const double bytes = 12;  // 20 pixels: 240 bytes to each side
  const Flight f = fly(m, TransportKind::mpi, plan, 1, bytes, {.local = false});
  EXPECT_DOUBLE_EQ(f.sent, 480);
  EXPECT_DOUBLE_EQ(f.busy, 4 * 2e-6 + 480e-9 + 480e-9);  // four overheads, packing, unpacking
  EXPECT_DOUBLE_EQ(f.transit, 1e-4 + 3e-6);              // the network is slower; 240 bytes take less than g
  EXPECT_DOUBLE_EQ(f.exposed(0), f.busy + f.transit);
  EXPECT_DOUBLE_EQ(f.exposed(1e-4), f.busy + 3e-6);
  EXPECT_DOUBLE_EQ(f.exposed(1), f.busy);
  EXPECT_DOUBLE_EQ(f.hidden(1e-4), 1e-4);
  const Flight with_block = fly(m, TransportKind::mpi, plan, 1, bytes);
  EXPECT_DOUBLE_EQ(with_block.busy - f.busy, 100 * 12e-9);  // the block is copied too
  Machine slow = m;
  slow.links[TransportKind::mpi].node.overlaps = slow.links[TransportKind::mpi].network.overlaps = false;
  EXPECT_DOUBLE_EQ(fly(slow, TransportKind::mpi, plan, 1, bytes, {.local = false}).busy - f.busy,
                   240e-9 + 2400e-9);
  EXPECT_THROW(fly(m, TransportKind::nccl, plan, 1, bytes), InputError);
}

TEST(Model, one_rank_by_hand) {
  const Machine m = plain();
  const NetworkWork work = dncnn(3);
  const Parts blur(make_blur(box_blur(5, BlurMethod::direct)));
  const Decomposition d(Box::image2d(20, 30), {1, 1, 1}, {1, 1, 1});
  const Prediction p = predict(m, &work, blur.data, d, {.mode = ExecutionMode::whole});
  const double passes = (1 + 1 + 0) * 600 * 4 * 0;  // the last addition rides on its convolution
  EXPECT_NEAR(p.denoise, 9e-6 * (8 + 64 + 8) * 600 + passes, 1e-3 * p.denoise);
  const auto kernel = blur.op->traits(ProductSpace(ImageSpace(d.image()), d)).reach;
  const double taps =
      static_cast<double>((kernel.lo[1] + kernel.hi[1] + 1) * (kernel.lo[2] + kernel.hi[2] + 1));
  EXPECT_NEAR(p.data, 600e-6 + 2 * taps * 600 / 1e6 + 20 * 600 * 1e-9, 1e-9);
  EXPECT_EQ(p.sent, 0);
  EXPECT_EQ(p.reduce, 0);
  EXPECT_GT(p.memory, p.data_bytes);
}

TEST(Model, bytes_are_those_of_the_plans) {
  const Machine m = plain();
  NetworkOptions o;
  o.name = "dncnn";
  o.channels = 1;
  o.depth = 5;
  o.widths = {8};
  const Graph graph = make_graph(o);
  const NetworkWork work = dncnn(5);
  for (const int ranks : {2, 3, 5, 7, 12}) {
    const Parts blur(make_blur(box_blur(9, BlurMethod::fft)));
    const Decomposition d = Decomposition::choose(Box::image2d(101, 83), {1, 1, 1}, ranks, [](const Box& b) {
      return static_cast<double>(b.pixels());
    });
    std::int64_t sent = 0, prox = 0;
    for (int r = 0; r < ranks; ++r) {
      sent += network_bytes_sent(d, work.halo, 1, r) + operator_bytes(d, *blur.op, 1, r);
      prox += network_bytes_sent(d, work.halo, 1, r) +
              DistributedFourier::bytes_sent({ProductSpace(ImageSpace(d.image()), d).part(0)}, r);
    }
    const Execution e{.mode = ExecutionMode::patch};
    EXPECT_EQ(predict(m, &work, blur.data, d, e).sent, static_cast<double>(sent));
    const Execution layers{.mode = ExecutionMode::layer, .halo_depth = 2};
    std::int64_t by_layer = 0;
    const LayerTraffic traffic(graph, d, {.mode = ExecutionMode::layer, .halo_depth = 2}, 1);
    for (int r = 0; r < ranks; ++r) by_layer += traffic.bytes_sent(r) + operator_bytes(d, *blur.op, 1, r);
    EXPECT_EQ(predict(m, &work, blur.data, d, layers).sent, static_cast<double>(by_layer));
    Parts split(make_blur(box_blur(9, BlurMethod::fft)));
    split.data.solver = "hqs";
    EXPECT_EQ(predict(m, &work, split.data, d, e).sent, static_cast<double>(prox));
  }
}

TEST(Model, conjugate_gradients_cost_what_is_counted) {
  // A border that no transform knows. Each one costs the same, and so does the residual they begin with.
  const Machine m = plain();
  Parts parts(make_blur(box_blur(5, BlurMethod::direct, Boundary::valid)));
  parts.data.solver = "hqs";
  const Decomposition d(Box::image2d(64, 64), {1, 1, 1}, {1, 2, 2});
  ASSERT_TRUE(data_traffic(d, parts.data, 0).iterative());
  const auto taken = [&](double inner) {
    parts.data.inner = inner;
    const Prediction p = predict(m, nullptr, parts.data, d, {});
    return std::array{p.data, p.exposed, p.reduce};
  };
  const auto none = taken(0), some = taken(7.5), more = taken(15);
  const double around = m.state.at(32 * 32) * state_images("hqs") / state_images("pgd");
  EXPECT_NEAR((some[0] - around) / (none[0] - around), 8.5, 1e-9);
  EXPECT_NEAR(some[1] / none[1], 8.5, 1e-9);
  EXPECT_NEAR(more[0] - some[0], some[0] - none[0], 1e-12);
  EXPECT_GT(some[2], 7.5 * 2 * m.reduction.at(4));
}

TEST(Model, beyond_64_ranks_one_of_each_kind_stands_for_all) {
  for (const Grid3 grid : {Grid3{1, 8, 8}, Grid3{1, 10, 10}, Grid3{1, 300, 300}}) {
    const Decomposition d(Box::image2d(4096, 4000), {1, 8, 8}, grid);
    const auto chosen = representatives(d, 64);
    int stands_for = 0;
    for (const auto& [rank, count] : chosen) stands_for += count;
    EXPECT_EQ(stands_for, d.ranks());
    if (d.ranks() <= 64) {
      EXPECT_EQ(chosen.size(), 64u);
    }
    if (d.ranks() > 64) {
      EXPECT_LT(chosen.size(), 1000u);
    }
    if (d.ranks() > 1000) continue;
    const Parts blur(make_blur(box_blur(9, BlurMethod::direct)));
    std::int64_t all = 0, by_kind = 0;
    const auto sent = [&](int rank) { return operator_bytes(d, *blur.op, 3, rank); };
    for (int r = 0; r < d.ranks(); ++r) all += sent(r);
    for (const auto& [rank, count] : chosen) by_kind += count * sent(rank);
    EXPECT_EQ(by_kind, all);
  }
}

TEST(Model, more_of_anything_takes_longer) {
  const NetworkWork work = dncnn(6);
  const Parts blur(make_blur(box_blur(9, BlurMethod::fft)));
  const auto at = [&](Machine m, int ranks, std::int64_t side, std::optional<std::int64_t> patch = {}) {
    m.precisions[Precision::float32].peak = 2e12;
    const Decomposition d =
        Decomposition::choose(Box::image2d(side, side), {1, 1, 1}, ranks,
                              [](const Box& b) { return static_cast<double>(b.pixels()); });
    return predict(m, &work, blur.data, d, {.mode = ExecutionMode::patch, .patch = patch});
  };
  const Machine m = plain();
  const Prediction one = at(m, 1, 256), four = at(m, 4, 256);
  EXPECT_LT(four.seconds(), one.seconds());
  EXPECT_GT(at(m, 4, 300).seconds(), four.seconds());
  EXPECT_GT(at(m, 4, 256, 32).denoise, four.denoise);  // smaller windows: more halo
  EXPECT_GT(at(m, 4, 256, 32).redundant, four.redundant);
  EXPECT_LT(at(m, 4, 256, 32).memory, four.memory);
  Machine slow = m;
  slow.links[TransportKind::mpi].network.L *= 100;
  EXPECT_GT(at(slow, 4, 256).exposed, four.exposed);
  EXPECT_EQ(at(slow, 4, 256).denoise, four.denoise);
  slow = m;
  slow.state.points[1e6] = 10;
  EXPECT_GT(at(slow, 4, 256).data, four.data);
  EXPECT_LE(one.seconds(), 4 * four.seconds());
}

TEST(Model, layers_launched_one_by_one_take_the_host_its_time) {
  const NetworkWork work = dncnn(20);
  const Parts blur(make_blur(box_blur(9, BlurMethod::fft)));
  Machine m = plain();
  m.processors = 100;
  m.precisions[Precision::float32].peak = 1e15;  // a GPU that computes and copies in no time
  m.copy = m.pack = {{{1e15, 1.0}}};
  m.links[TransportKind::nccl] = m.links[TransportKind::mpi];
  const Decomposition d(Box::image2d(64, 64), {1, 1, 1}, {1, 2, 2});
  const auto denoise = [&](TransportKind transport) {
    return predict(m, &work, blur.data, d, {.mode = ExecutionMode::layer, .transport = transport}).denoise;
  };
  EXPECT_GT(denoise(TransportKind::mpi), 19 * 1e-4);  // docs/gpu.md: 110 us per exchange
  EXPECT_LT(denoise(TransportKind::nccl), 2e-4);      // one graph
  m.processors = 0;                                   // a CPU launches nothing
  EXPECT_LT(denoise(TransportKind::mpi), 2e-4);
}

TEST(Model, choices_are_ranked_and_obey_the_job) {
  Machine m = plain();
  m.precisions[Precision::float32].peak = 2e12;
  const NetworkWork work = dncnn(6);
  const Parts blur(make_blur(box_blur(5, BlurMethod::direct)));
  const Decomposition d(Box::image2d(256, 256), {1, 1, 1}, {1, 2, 2});
  const auto ranked = rank_executions(m, work, blur.data, d, {});
  ASSERT_GT(ranked.size(), 3u);
  // Sorted, but that the first may be up to 5 % slower than the second if it computes less twice.
  for (std::size_t i = 2; i < ranked.size(); ++i) EXPECT_LE(ranked[i - 1].seconds(), ranked[i].seconds());
  EXPECT_LE(ranked[0].seconds(), 1.05 * ranked[1].seconds());
  for (const Prediction& p : ranked) {
    if (p.seconds() < 1.04 * ranked[1].seconds()) {
      EXPECT_LE(ranked[0].redundant, p.redundant);
    }
  }
  for (const Prediction& p : ranked) EXPECT_NE(p.execution.mode, ExecutionMode::whole) << "on 4 ranks";
  for (const Prediction& p : rank_executions(m, work, blur.data, d, {.mode = ExecutionMode::patch}))
    EXPECT_EQ(p.execution.mode, ExecutionMode::patch);
  for (const Prediction& p :
       rank_executions(m, work, blur.data, d, {.mode = ExecutionMode::patch, .patch = 32, .batch = 2})) {
    EXPECT_EQ(p.execution.patch, 32);
    EXPECT_EQ(p.execution.batch, 2);
  }
  const auto tight = static_cast<double>(work.memory->bytes(1, {1, 80, 80}));
  for (const Prediction& p : rank_executions(m, work, blur.data, d, {}, tight)) {
    EXPECT_EQ(p.execution.mode, ExecutionMode::patch);
    EXPECT_LE(p.execution.patch.value(), 64);
  }
  EXPECT_TRUE(rank_executions(m, work, blur.data, d, {}, 1000).empty());
}

TEST(Model, a_thousand_ranks_and_four_billion_pixels) {
  const Machine m = parse_machine(write_machine(guessed_machine(true)), "guessed");
  NetworkOptions o;
  const NetworkWork work = network_work(random_network(o, 1), at::kBFloat16, true);
  Parts blur(make_blur(box_blur(9, BlurMethod::fft)));
  const auto cost = [](const Box& b) { return static_cast<double>(b.pixels()); };
  const Decomposition d = Decomposition::choose(Box::image2d(65536, 65536), {1, 8, 8}, 1024, cost);
  blur.data.image.channels = 3;
  const auto ranked = rank_executions(m, work, blur.data, d,
                                      {.precision = Precision::bfloat16, .transport = TransportKind::nccl});
  ASSERT_FALSE(ranked.empty());
  const Prediction p = predict(m, &work, blur.data, d, ranked.front().execution);
  EXPECT_EQ(p.ranks, 1024);
  EXPECT_GT(p.seconds(), 0);
  // Memory per rank is that of a 2048 x 2048 block, not of the image.
  EXPECT_LT(p.data_bytes, 4.0 * 3 * 2048 * 2048 * 12);
}

TEST(Published, the_anchor_is_22_percent_at_64) {
  const Published *one = published(4096, 1), *many = published(4096, 64);
  ASSERT_TRUE(one && many);
  EXPECT_NEAR(one->seconds / many->seconds, 13.99, 0.005);
  EXPECT_NEAR(one->seconds / many->seconds / 64, 0.219, 0.0005);
  EXPECT_EQ(published(4096, 3), nullptr);
}

// One image of 1 MiB, of which everything is counted in.
TEST(Model, disk_bytes_are_the_passes_that_no_cache_holds) {
  const Box box = Box::image2d(512, 512);
  const Decomposition d(box, {1, 1, 1}, {1, 1, 1});
  const double image = 512 * 512 * 4;
  Parts mask(make_mask(at::ones({1, 512, 512}), box));
  mask.data.image = ImageSpace(box);
  const auto bytes = [&](const char* solver, double cache, bool truth) {
    mask.data.solver = solver;
    mask.data.truth = truth;
    const DiskBytes b = disk_bytes(mask.data, d, {}, {}, cache * image, 0);
    return std::array{b.read / image, b.written / image};
  };
  // x mask > left, left y > left; > z, left z mask > z; x z > z; z > next; next x; x > best.
  using Counts = std::array<double, 2>;
  EXPECT_EQ(bytes("pgd", 0, false), (Counts{2 + 2 + 3 + 2 + 1 + 2 + 1, 1.55 * (1 + 1 + 1 + 1 + 1 + 1 + 1)}));
  EXPECT_EQ(bytes("pgd", 0, true)[0], 15);
  EXPECT_EQ(bytes("pgd", 100, true), (Counts{0, 7})) << "what fits into the cache is written all the same";
  EXPECT_GT(bytes("pgd", 0, true)[0], bytes("pgd", 3, true)[0]);
  EXPECT_EQ(bytes("fbp", 0, false), (Counts{0, 0})) << "nobody knows";
}

}  // namespace
}  // namespace tessera
