// SPDX-License-Identifier: BSD-3-Clause
// How an exchange runs: order of messages, progress, counts, several at once.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "transport.hpp"

namespace tessera::test {
namespace {

const Reach kOne{{0, 1, 1}, {0, 1, 1}};

TEST(ExchangeRun, CountsBytesMessagesAndMemory) {
  on_groups([](const Communicator& comm) {
    const Layout own = grid_layout(Box::image2d(24, 24), square_grid(comm.size()));
    const int r = comm.rank();
    const std::int64_t before = memory_now(MemoryUse::data);
    {
      const ExchangePlan plan(own, own.grow(kOne), Box::image2d(24, 24), Border::circular, r);
      Exchange exchange(plan, make_transport(comm, Device{}, TransportKind::mpi), 3, ElementType::float32);
      EXPECT_EQ(memory_now(MemoryUse::data) - before, (plan.pixels_sent() + plan.pixels_received()) * 3 * 4);
      Block<float> x(own.box(r), 2, ElementType::float32, 1), y(plan.need(), 2, ElementType::float32, 0);
      take_phases();
      {
        const PhaseScope phase(Phase::halo);
        exchange.begin(x.view(), y.view()).wait();
      }
      const auto records = take_phases();
      ASSERT_EQ(records.size(), 1U);
      EXPECT_EQ(records[0].bytes_sent, plan.pixels_sent() * 2 * 4);
      EXPECT_EQ(records[0].bytes_received, plan.pixels_received() * 2 * 4);
      EXPECT_EQ(records[0].messages, static_cast<std::int64_t>(plan.sends().size()));
      EXPECT_EQ(records[0].bytes_sent == 0, comm.size() == 1);
    }
    EXPECT_EQ(memory_now(MemoryUse::data), before);
  });
}

TEST(ExchangeRun, SeveralInFlightEndInAnyOrder) {
  on_groups([](const Communicator& comm) {
    const Box image = Box::image2d(10, 10);
    const Layout own = grid_layout(image, square_grid(comm.size()));
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    std::vector<Exchange> exchanges;
    std::vector<Exchange::Pending> flights;
    std::vector<Block<float>> sources, targets;
    for (int i = 0; i < 3; ++i) {
      const ExchangePlan plan(own, own.grow(kOne), image, Border::circular, comm.rank());
      exchanges.emplace_back(plan, transport, 1, ElementType::float32);
      sources.emplace_back(plan.own(), 1, ElementType::float32, static_cast<float>(i + 1));
      targets.emplace_back(plan.need(), 1, ElementType::float32, 0.0F);
    }
    for (std::size_t i = 0; i < 3; ++i)
      flights.push_back(exchanges[i].begin(sources[i].view(), targets[i].view()));
    for (const std::size_t i : {2U, 0U, 1U}) flights[(i + static_cast<std::size_t>(comm.rank())) % 3].wait();
    for (std::size_t i = 0; i < 3; ++i)
      targets[i].for_each([&](auto, const Index3&, float& v) { EXPECT_EQ(v, static_cast<float>(i + 1)); });
  });
}

TEST(ExchangeRun, ManyRunsKeepTheirOrder) {
  on_groups([](const Communicator& comm) {
    const Box image = Box::image2d(6, 6);
    const Layout own = grid_layout(image, {1, comm.size(), 1});
    const ExchangePlan plan(own, own.grow(kOne), image, Border::reflect, comm.rank());
    Exchange exchange(plan, make_transport(comm, Device{}, TransportKind::mpi), 1, ElementType::float64);
    Block<double> x(plan.own(), 1, ElementType::float64, 0), y(plan.need(), 1, ElementType::float64, 0);
    for (int run = 0; run < 50; ++run) {  // nothing but the exchange itself holds the ranks together
      x.for_each([run](auto, const Index3&, double& v) { v = run; });
      exchange.begin(x.view(), y.view()).wait();
      y.for_each([run](auto, const Index3&, double& v) { ASSERT_EQ(v, run); });
      exchange.begin_transposed(y.view(), x.view()).wait();
    }
  });
}

TEST(ExchangeRun, ProgressNeverBlocksAndEndsTrue) {
  on_groups([](const Communicator& comm) {
    const Box image = Box::image2d(8, 8);
    const Layout own = grid_layout(image, {1, comm.size(), 1});
    const ExchangePlan plan(own, own.grow(kOne), image, Border::circular, comm.rank());
    Exchange exchange(plan, make_transport(comm, Device{}, TransportKind::mpi), 1, ElementType::float32);
    Block<float> x(plan.own(), 1, ElementType::float32, 3), y(plan.need(), 1, ElementType::float32, 0);
    comm.barrier();
    // The last rank begins only after the others have looked a hundred times: had one of them blocked, this
    // would never end.
    const bool last = comm.rank() == comm.size() - 1;
    if (!last) {
      auto pending = exchange.begin(x.view(), y.view());
      for (int i = 0; i < 100; ++i) pending.progress();
      comm.barrier();
      while (!pending.progress()) {
      }
      pending.wait();
    } else {
      comm.barrier();
      auto pending = exchange.begin(x.view(), y.view());
      while (!pending.progress()) {
      }
      pending.wait();
      EXPECT_TRUE(pending.progress());  // over: nothing to wait for
    }
    y.for_each([](auto, const Index3&, float& v) { EXPECT_EQ(v, 3.0F); });
  });
}

TEST(ExchangeRun, CountsTheTimeUnderWayUntilItIsSeenComplete) {
  on_groups([](const Communicator& comm) {
    const Box image = Box::image2d(8, 8);
    const Layout own = grid_layout(image, {1, comm.size(), 1});
    const ExchangePlan plan(own, own.grow(kOne), image, Border::zero, comm.rank());
    Exchange exchange(plan, make_transport(comm, Device{}, TransportKind::mpi), 1, ElementType::float32);
    Block<float> x(plan.own(), 1, ElementType::float32, 3), y(plan.need(), 1, ElementType::float32, 0);
    constexpr double kNap = 0.02;
    const auto nap = [kNap] { std::this_thread::sleep_for(std::chrono::duration<double>(kNap)); };
    take_phases();
    {
      const PhaseScope phase(Phase::halo);  // nobody looks before wait()
      auto pending = exchange.begin(x.view(), y.view());
      nap();
      pending.wait();
    }
    {
      const PhaseScope phase(Phase::halo);  // seen complete before the nap
      auto pending = exchange.begin(x.view(), y.view());
      while (!pending.progress()) {
      }
      nap();
      pending.wait();
    }
    const auto phases = take_phases();
    ASSERT_EQ(phases.size(), 2U);
    if (plan.sends().empty() && plan.receives().empty()) {
      EXPECT_EQ(phases[0].flight_seconds, 0) << "nothing travels";
    } else {
      EXPECT_GE(phases[0].flight_seconds, kNap);
      EXPECT_GT(phases[1].flight_seconds, 0);
    }
    EXPECT_LE(phases[1].flight_seconds, phases[1].seconds - kNap);
    for (const PhaseRecord& p : phases) EXPECT_LE(p.wait_seconds, p.flight_seconds);
  });
}

TEST(ExchangeRun, AForgottenHandleWaits) {
  on_groups([](const Communicator& comm) {
    const Box image = Box::image2d(8, 8);
    const Layout own = grid_layout(image, {1, comm.size(), 1});
    const ExchangePlan plan(own, own.grow(kOne), image, Border::circular, comm.rank());
    Exchange exchange(plan, make_transport(comm, Device{}, TransportKind::mpi), 1, ElementType::float32);
    Block<float> x(plan.own(), 1, ElementType::float32, 3), y(plan.need(), 1, ElementType::float32, 0);
    { const auto pending = exchange.begin(x.view(), y.view()); }
    y.for_each([](auto, const Index3&, float& v) { EXPECT_EQ(v, 3.0F); });
#ifdef TESSERA_CHECKED
    Block<float> other(Box::image2d(2, 2), 1, ElementType::float32, 0);
    EXPECT_THROW((void)exchange.begin(other.view(), y.view()), ContractError);
#endif
  });
}

TEST(ExchangeRun, AMessageBeyondTwoToThe31Bytes) {
  if (!std::getenv("TESSERA_LARGE"))
    GTEST_SKIP() << "TESSERA_LARGE=1 runs it, with 10 GB of memory on 2 ranks";
  const Communicator world = Communicator::world();
  ASSERT_EQ(world.size(), 2);
  const Box image = Box::image2d(23200, 23203);  // all of it goes to the other rank
  static_assert(4LL * 23200 * 23203 > std::int64_t{1} << 31);
  const Layout own({image, Box()}), need({Box(), image});
  const ExchangePlan plan(own, need, image, Border::zero, world.rank());
  Exchange exchange(plan, make_transport(world, Device{}, TransportKind::mpi), 1, ElementType::float32);
  Block<float> x(plan.own(), 1, ElementType::float32, 0), y(plan.need(), 1, ElementType::float32, -1);
  const auto value = [](const Index3& p) { return static_cast<float>((p[1] * 31 + p[2] * 7) % 8191); };
  x.for_each([&](auto, const Index3& p, float& v) { v = value(p); });
  exchange.begin(x.view(), y.view()).wait();
  std::int64_t wrong = 0;
  y.for_each([&](auto, const Index3& p, float v) { wrong += v != value(p); });
  EXPECT_EQ(wrong, 0);
}

TEST(Transport, PartsAreSplitBelowTheLimit) {
  const std::int64_t big = (std::int64_t{5} << 30) + 7;  // more bytes than a 32-bit count holds
  const auto parts =
      split_parts({{3, 100, big}, {4, 100 + big, 1}, {5, 101 + big, 0}}, std::int64_t{1} << 30);
  ASSERT_EQ(parts.size(), 7U);
  std::int64_t at = 100;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(parts[i].peer, 3);
    EXPECT_EQ(parts[i].offset, at);
    EXPECT_LE(parts[i].bytes, std::int64_t{1} << 30);
    at += parts[i].bytes;
  }
  EXPECT_EQ(at, 100 + big);
  EXPECT_EQ(parts[6].bytes, 1);
}

TEST(Transport, IsChosenAlikeOnAllRanks) {
  using K = TransportKind;
  const Endpoint cpu{"a", "", false}, gpu0{"a", "0", false}, gpu1{"a", "1", false}, far0{"b", "0", false};
  const Endpoint aware0{"a", "0", true};
  EXPECT_EQ(choose_transport(K::automatic, {cpu, cpu}), K::mpi);
  EXPECT_EQ(choose_transport(K::automatic, {gpu0, gpu1, far0}), K::nccl);
  EXPECT_EQ(choose_transport(K::automatic, {gpu0, gpu0}), K::mpi);
  EXPECT_EQ(choose_transport(K::automatic, {aware0, aware0}), K::cuda_mpi);
  EXPECT_EQ(choose_transport(K::automatic, {gpu0, cpu}), K::mpi);
  EXPECT_EQ(choose_transport(K::automatic, {gpu0}), K::mpi);
  EXPECT_EQ(choose_transport(K::nccl, {gpu0}), K::nccl);
  EXPECT_EQ(choose_transport(K::mpi, {gpu0, gpu1}), K::mpi);
  const auto message = [](K wanted, const std::vector<Endpoint>& ranks) -> std::string {
    try {
      choose_transport(wanted, ranks);
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(K::nccl, {gpu0, gpu1, gpu0}),
            "domain.transport is nccl (ranks 0 and 2 share a GPU, which NCCL refuses) use mpi, or start one "
            "rank per "
            "GPU");
  EXPECT_EQ(
      message(K::nccl, {gpu0, cpu}),
      "domain.transport is nccl (rank 1 has no GPU) use auto, or set device: cuda where every rank has one");
  EXPECT_EQ(
      message(K::cuda_mpi, {gpu0, gpu1}),
      "domain.transport is cuda-mpi (the MPI library of rank 0 cannot read device memory) use auto, or mpi, "
      "which goes through host buffers");
}

TEST(Transport, AnImpossibleOneIsRefusedByEveryRank) {
  on_groups([](const Communicator& comm) {
    EXPECT_THROW(make_transport(comm, Device{}, TransportKind::nccl), InputError);
    EXPECT_EQ(kind(*make_transport(comm, Device{}, TransportKind::automatic)), TransportKind::mpi);
    EXPECT_STREQ(word(TransportKind::cuda_mpi), "cuda-mpi");
  });
}

}  // namespace
}  // namespace tessera::test
