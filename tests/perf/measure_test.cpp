// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/measure.hpp"

#include <gtest/gtest.h>

#include "support/groups.hpp"

namespace tessera {
namespace {

TEST(Measure, links_are_positive_and_equal_on_all_ranks) {
  test::on_groups([](const Communicator& comm) {
    if (comm.size() > 3) return;  // alone, a pair, a pair and a rank left over: more say the same, slowly
    const auto transport = make_transport(comm, {}, TransportKind::mpi);
    Machine m = guessed_machine(false);
    measure_links(m, comm, transport, {});
    const Link& link = m.links.at(TransportKind::mpi).node;
    EXPECT_GT(link.L, 0);
    EXPECT_GT(link.o, 0);
    EXPECT_GT(link.G, 0);
    for (const double v : {link.L, link.o, link.g, link.G, m.reduction.points.begin()->second})
      for (const double other : comm.all_gather(v)) EXPECT_EQ(other, v);
    if (comm.size() > 1) {
      EXPECT_FALSE(link.overlaps) << "ranks of a host copy themselves";
    }
  });
}

TEST(Measure, a_small_network_on_two_ranks) {
  const Communicator world = Communicator::world();
  const Communicator pair = world.split(world.rank() < 2 ? 0 : -1, world.rank());
  if (world.rank() < 2) {
    NetworkOptions o;
    o.widths = {8, 16};
    o.blocks = 1;
    o.channels = 1;
    MeasureOptions options;
    const Network network = random_network(o, 1);
    const NetworkWork work = network_work(network, at::kFloat, false);
    options.networks = {&network};
    options.longest = 0.005;
    options.seconds = 0.001;
    const Machine m = measure_machine(pair, make_transport(pair, {}, TransportKind::mpi), {}, options);
    EXPECT_TRUE(m.measured);
    EXPECT_TRUE(knows(m, work, Precision::float32));
    EXPECT_FALSE(knows(m, work, Precision::bfloat16));
    for (const double other : pair.all_gather(m.state.at(1e6))) EXPECT_EQ(other, m.state.at(1e6));
    EXPECT_EQ(parse_machine(write_machine(m), "again"), m);
    for (const LayerRate& rate : m.precisions.at(Precision::float32).layers) {
      EXPECT_GE(rate.seconds.points.size(), 3u) << word(rate.op);
      for (const auto& [pixels, seconds] : rate.seconds.points)
        EXPECT_GT(seconds, 0) << word(rate.op) << " of " << pixels << " pixels";
    }
    // Sizes far apart: times of microseconds on a busy machine order no others.
    EXPECT_GT(pass_seconds(m, work, Precision::float32, {1, 1024, 1024}, 1),
              pass_seconds(m, work, Precision::float32, {1, 16, 16}, 1));
  }
  test::meet(world);
}

}  // namespace
}  // namespace tessera
