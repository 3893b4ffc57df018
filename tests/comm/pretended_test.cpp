// SPDX-License-Identifier: BSD-3-Clause
// The device's transports under schedules that are legal and unkind, on the stand-in of pretended/: no GPU.
// exchange_gpu_test.cpp runs in this program too.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "device.hpp"
#include "pretended/runtime.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/comm/recorded_work.hpp"
#include "tessera/core/phase.hpp"
#include "transport.hpp"
#include "transport_probe.hpp"

namespace tessera::test {
namespace {

using pretended::Behavior;

/// Every test, those of exchange_gpu_test.cpp too: enough GPUs, and nothing found at its end.
class Unkind final : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override {
    pretended::behave({.gpus = 8, .latest = 1e-4});  // many exchanges: a little late
    pretended::findings();
  }
  void OnTestEnd(const testing::TestInfo&) override {
    for (const std::string& finding : pretended::findings()) ADD_FAILURE() << finding;
  }
};
const bool listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Unkind);
  return true;
}();

/// A block in device memory, filled and read on a stream of its own without any other waiting.
struct OnDevice {
  Block<float> host;
  Device device;
  cudaStream_t stream;
  Buffer memory, staging;

  OnDevice(const Box& box, std::int64_t channels, Device d, cudaStream_t s)
      : host(box, channels, ElementType::float32, 0), device(d), stream(s) {
    memory = Buffer(Buffer::Kind::device, d, bytes());
    staging = Buffer(Buffer::Kind::pinned, d, bytes());
  }
  std::int64_t bytes() const { return box().pixels() * host.channels() * 4; }
  const Box& box() const { return host.box(); }
  ArrayView view() {
    ArrayView v = host.view();
    v.data = memory.data();
    v.device = device;
    v.stream = stream;
    return v;
  }
  void fill(float factor, const Box& image) {
    TESSERA_CUDA(cudaStreamSynchronize(stream));  // the staging buffer's last copy
    host.for_each(
        [&](auto c, const Index3& p, float& v) { v = factor * static_cast<float>(address(image, c, p)); });
    copy(staging.data(), host.values().data(), bytes());
    if (bytes() > 0)
      TESSERA_CUDA(cudaMemcpyAsync(memory.data(), staging.data(), size(), cudaMemcpyHostToDevice, stream));
  }
  Block<float>& fetch() {
    if (bytes() > 0)
      TESSERA_CUDA(cudaMemcpyAsync(staging.data(), memory.data(), size(), cudaMemcpyDeviceToHost, stream));
    TESSERA_CUDA(cudaStreamSynchronize(stream));
    copy(host.values().data(), staging.data(), bytes());
    return host;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(bytes()); }
  static void copy(void* to, const void* from, std::int64_t n) {
    if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n));
  }
};

std::shared_ptr<Transport> transport_of(TransportKind kind, const Communicator& comm) {
  return kind == TransportKind::nccl ? make_nccl_transport(comm, Device{0}, 20)
                                     : make_mpi_transport(comm, Device{0}, kind);
}

// Rounds without a pause: a fast neighbor's next message comes while this rank's device still unpacks the
// last one. Two exchanges in flight share the transport.
TEST(PretendedDevice, RoundsWithoutAPauseBringTheRightPixels) {
  on_groups([](const Communicator& comm) {
    const Box image = Box::image2d(12, 10);
    const Layout own = grid_layout(image, square_grid(comm.size())), need = own.grow({{0, 1, 2}, {0, 2, 1}});
    const int r = comm.rank();
    for (const TransportKind kind : {TransportKind::mpi, TransportKind::cuda_mpi, TransportKind::nccl})
      for (const unsigned seed : {1u, 2u}) {
        SCOPED_TRACE(concat(word(kind), ", seed ", seed));
        pretended::behave({.seed = seed * 100 + static_cast<unsigned>(r), .gpus = 8});
        const auto transport = transport_of(kind, comm);
        const Stream stream(Device{0});
        const ExchangePlan plan(own, need, image, Border::circular, r);
        Exchange first(plan, transport, 2, ElementType::float32),
            second(plan, transport, 2, ElementType::float32);
        OnDevice x(own.box(r), 2, Device{0}, stream.get()), y(need.box(r), 2, Device{0}, stream.get()),
            z(need.box(r), 2, Device{0}, stream.get());
        for (int round = 1; round <= 6; ++round) {
          if (round % 2) x.fill(static_cast<float>(round), image);
          Exchange::Pending one = first.begin(x.view(), y.view()), two = second.begin(x.view(), z.view());
          one.progress();
          one.wait();
          two.wait();
          if (round % 2) continue;  // odd rounds are not even looked at
          for (OnDevice* target : {&y, &z})
            target->fetch().for_each([&](auto c, const Index3& p, float& v) {
              Index3 q = p;
              for (std::size_t d = 0; d < 3; ++d) q[d] = (p[d] + 10 * image.extent(d)) % image.extent(d);
              ASSERT_EQ(v, static_cast<float>(round - 1) * static_cast<float>(address(image, c, q)))
                  << "round " << round << ", pixel " << p[1] << ' ' << p[2];
            });
        }
      }
  });
}

/// Pixels that move by (1, 1) on a torus, layer after layer, as in a network's pass in mode `layer`: the
/// exchange and what reads its strips on a stream beside the one that computes.
class Moves {
 public:
  static constexpr int kLayers = 3;

  Moves(const Communicator& comm, const Box& image, std::shared_ptr<Transport> transport)
      : image_(image),
        box_(grid_layout(image, square_grid(comm.size())).box(comm.rank())),
        exchange_(plan(comm, image), std::move(transport), 2, ElementType::float32),
        x_(box_, 2, Device{0}, main_.get()),
        inside_(box_, 2, Device{0}, main_.get()),
        strips_(moved(box_), 2, Device{0}, side_.get()),
        rim_(box_, 2, Device{0}, side_.get()) {}

  void layers() {
    for (int layer = 0; layer < kLayers; ++layer) {
      forked_.record(main_.get());
      forked_.hold(side_.get());
      ArrayView own = x_.view();
      own.stream = side_.get();
      Exchange::Pending pending = exchange_.begin(own, strips_.view());
      pending.progress();
      copy(inside_, x_, main_.get());
      if (layer == break_at) throw RunError("a layer that cannot be recorded");
      pending.progress();
      pending.wait();
      copy(rim_, strips_, side_.get());
      done_.record(side_.get());
      done_.hold(main_.get());
      copy(x_, rim_, main_.get());
    }
  }
  /// The same exchange on one stream, from memory with other strides.
  void beside() {
    OnDevice wide(box_.grow({{0, 0, 0}, {0, 1, 1}}), 2, Device{0}, main_.get());
    ArrayView own = wide.view(), need = strips_.view();
    own.data = static_cast<float*>(own.data) + 1;
    own.box = box_;
    exchange_.begin(own, need).wait();
    TESSERA_CUDA(cudaStreamSynchronize(main_.get()));
  }
  void fill(float factor) { x_.fill(factor, image_); }
  void expect(float factor, int by) {
    int wrong = 0;
    x_.fetch().for_each([&](auto c, const Index3& p, float& v) {
      const Index3 q{p[0], (p[1] + by) % image_.extent(1), (p[2] + by) % image_.extent(2)};
      wrong += v != factor * static_cast<float>(address(image_, c, q));
    });
    EXPECT_EQ(wrong, 0) << "of " << x_.host.values().size();
  }
  cudaStream_t stream() const { return main_.get(); }

  int break_at = -1;

 private:
  static Box moved(const Box& box) { return {box.lo() + Index3{0, 1, 1}, box.hi() + Index3{0, 1, 1}}; }
  static ExchangePlan plan(const Communicator& comm, const Box& image) {
    const Layout own = grid_layout(image, square_grid(comm.size()));
    std::vector<Box> boxes;
    for (int r = 0; r < comm.size(); ++r) boxes.push_back(moved(own.box(r)));
    return {own, Layout(boxes), image, Border::circular, comm.rank()};
  }
  static void copy(const OnDevice& to, const OnDevice& from, cudaStream_t stream) {
    TESSERA_CUDA(cudaMemcpyAsync(to.memory.data(), from.memory.data(), static_cast<std::size_t>(to.bytes()),
                                 cudaMemcpyDeviceToDevice, stream));
  }

  Box image_, box_;
  Stream main_{Device{0}}, side_{Device{0}};
  Event forked_{Device{0}}, done_{Device{0}};
  Exchange exchange_;
  OnDevice x_, inside_, strips_, rim_;
};

std::shared_ptr<Transport> trusted_nccl(const Communicator& comm) {
  auto transport = make_nccl_transport(comm, Device{0}, 20);
  transport->trust();
  return transport;
}

TEST(PretendedDevice, APassWithItsExchangesIsRecordedAndLaunchedAgain) {
  on_groups([](const Communicator& comm) {
    const Box image = Box::image2d(12, 10);
    for (const unsigned seed : {1u, 2u, 3u}) {
      SCOPED_TRACE(concat("seed ", seed));
      pretended::behave({.seed = seed * 100 + static_cast<unsigned>(comm.rank()), .gpus = 8});
      const auto transport = trusted_nccl(comm);
      EXPECT_TRUE(transport->recordable());
      Moves moves(comm, image, transport), other(comm, image, transport);
      moves.fill(1);
      moves.layers();  // as in a run: the first pass as it is
      moves.expect(1, Moves::kLayers);
      const RecordedWork pass(moves.stream(), [&] { moves.layers(); });
      for (int round = 2; round < 6; ++round) {
        moves.fill(static_cast<float>(round));
        pass.launch(moves.stream());
        if (round == 3) {  // between two launches: the same exchange, and another one, as they are
          moves.beside();
          other.fill(7);
          other.layers();
          other.expect(7, Moves::kLayers);
        }
        if (round % 2) pass.launch(moves.stream());
        moves.expect(static_cast<float>(round), Moves::kLayers * (round % 2 ? 2 : 1));
      }
    }
  });
}

TEST(PretendedDevice, ARecordingThatFailsLeavesTheExchangesAsTheyWere) {
  on_groups([](const Communicator& comm) {
    const auto transport = trusted_nccl(comm);
    Moves moves(comm, Box::image2d(12, 10), transport);
    for (const int layer : {-1, 0, 1}) {  // -1: the first pass allocates
      moves.break_at = layer;
      EXPECT_THROW(RecordedWork(moves.stream(), [&] { moves.layers(); }), RunError);
      moves.break_at = -1;
      EXPECT_FALSE(pretended::findings().empty());  // what a device would have refused
      moves.fill(3);
      moves.layers();
      moves.expect(3, Moves::kLayers);
    }
    const RecordedWork pass(moves.stream(), [&] { moves.layers(); });
    pass.launch(moves.stream());
    moves.expect(3, 2 * Moves::kLayers);
  });
}

// The host does not wait: times come when the device has passed.
TEST(PretendedDevice, PhasesAreTimedWhereTheDeviceIs) {
  pretended::behave({.gpus = 8, .latest = 0.02});
  take_phases();
  const Stream stream(Device{0});
  const Buffer memory(Buffer::Kind::device, Device{0}, 64);
  const auto work = [&] {
    TESSERA_CUDA(
        cudaMemcpyAsync(memory.data(), memory.data() + 32, 32, cudaMemcpyDeviceToDevice, stream.get()));
  };
  set_device_clock(make_device_clock(Device{0}, [&] { return static_cast<void*>(stream.get()); }));
  std::size_t taken = 0;
  double device = 0;
  for (int round = 0; round < 20; ++round) {
    const PhaseScope outer(Phase::denoise);
    {
      const PhaseScope inner(Phase::halo);
      work();
    }
    const RecordedWork recorded(stream.get(), [&] {
      const PhaseScope inside(Phase::halo);  // has no time of its own
      work();
    });
    recorded.launch(stream.get());
  }
  const auto take = [&] {
    for (const PhaseRecord& r : take_phases()) {
      ++taken;
      device += r.device_seconds;
    }
  };
  take();
  EXPECT_LT(taken, 60u);  // the device is behind
  TESSERA_CUDA(cudaStreamSynchronize(stream.get()));
  take();
  EXPECT_EQ(taken, 60u);
  EXPECT_GT(device, 0);
  set_device_clock(nullptr);
}

// What the stand-in forbids is what a device would refuse; the message goes no further than the recording.
TEST(PretendedDevice, WhatCannotBeRecordedIsSaid) {
  const Stream stream(Device{0}), side(Device{0});
  const Buffer memory(Buffer::Kind::device, Device{0}, 64);
  Event before(Device{0}), inside(Device{0});
  before.record(stream.get());
  const std::vector<std::pair<const char*, std::function<void()>>> cases = {
      {"an event of outside", [&] { before.hold(stream.get()); }},
      {"cudaEventQuery", [&] { static_cast<void>(before.done()); }},
      {"an allocation", [&] { const Buffer b(Buffer::Kind::device, Device{0}, 8); }},
      {"cudaStreamSynchronize", [&] { TESSERA_CUDA(cudaStreamSynchronize(stream.get())); }},
      {"pageable memory",
       [&] {
         int value = 0;
         TESSERA_CUDA(
             cudaMemcpyAsync(memory.data(), &value, sizeof value, cudaMemcpyHostToDevice, stream.get()));
       }},
      {"has not been waited for again", [&] {
         inside.record(stream.get());
         inside.hold(side.get());
         TESSERA_CUDA(
             cudaMemcpyAsync(memory.data(), memory.data() + 32, 32, cudaMemcpyDeviceToDevice, side.get()));
       }}};
  for (const auto& [what, work] : cases) {
    EXPECT_THROW(RecordedWork(stream.get(), work), RunError) << what;
    const std::vector<std::string> found = pretended::findings();
    EXPECT_TRUE(found.size() == 1 && found[0].find(what) != std::string::npos)
        << what << ": " << (found.empty() ? "nothing" : found[0]);
  }
  before.hold_within(stream.get());
}

/// What becomes of the start of a transport where rank 1's NCCL behaves so.
StartedTransport start(const Communicator& comm, Behavior sick) {
  sick.gpus = 8;
  pretended::behave(comm.rank() == 1 ? sick : Behavior{.gpus = 8});
  const std::array<int, 3> grid{1, 1, comm.size()};
  const TransportMaker make = [&](TransportKind kind) {
    return kind == TransportKind::nccl ? make_nccl_transport(comm, Device{0}, 1.0)
                                       : make_mpi_transport(comm, Device{0}, kind);
  };
  return start_first_working(comm, grid, {TransportKind::nccl, TransportKind::mpi}, make, 1.0);
}

// Nothing of this may hang, or end the job: messages go through the host then, on every rank.
TEST(PretendedDevice, AnNcclThatFailsOnOneRankIsReplacedOnAll) {
  const Communicator world = Communicator::world();
  if (world.size() < 2) GTEST_SKIP() << "one rank has nobody to disagree with";
  const std::vector<std::pair<const char*, Behavior>> ways = {{"refuses", {.nccl_refuses = true}},
                                                              {"never joins", {.nccl_never_joins = true}},
                                                              {"groups fail", {.nccl_group_fails = true}},
                                                              {"groups hang", {.nccl_group_hangs = true}}};
  for (const auto& [how, sick] : ways) {
    SCOPED_TRACE(how);
    const StartedTransport started = start(world, sick);
    EXPECT_EQ(kind(*started.transport), TransportKind::mpi);
    EXPECT_EQ(started.warnings.size(), 1u);
    pretended::behave({.gpus = 8});  // what was broken may be found afterwards
    meet(world);
  }
  EXPECT_EQ(kind(*start(world, {}).transport), TransportKind::nccl);
}

// The others are stuck in an exchange, or ended already: nobody answers any more.
TEST(PretendedDevice, ARankThatFailsAloneInARunDoesNotWaitForTheOthers) {
  const Communicator world = Communicator::world();
  const auto fail_alone = [&] {
    const auto transport = trusted_nccl(world);
    if (world.rank() == 0) throw RunError("this rank alone");
    transport->abandon();
  };
  const double start = now();
  if (world.rank() == 0)
    EXPECT_THROW(fail_alone(), RunError);
  else
    fail_alone();
  EXPECT_LT(now() - start, 15);
  meet(world);
}

TEST(PretendedDevice, ARankTouchesItsOwnGpuAlone) {
  const Communicator world = Communicator::world();
  pretended::behave({.gpus = 8});
  const ChosenDevice chosen = choose_gpu(world, true, GpuSharing::refused);
  ASSERT_TRUE(chosen.device.is_cuda());
  int current = -1;
  TESSERA_CUDA(cudaGetDevice(&current));
  EXPECT_EQ(current, chosen.device.index);
  {
    const Buffer buffer(Buffer::Kind::device, chosen.device, 100);
    const Stream stream(chosen.device);
  }
  EXPECT_EQ(pretended::devices_in_use(), std::set<int>{chosen.device.index});
  TESSERA_CUDA(cudaSetDevice(0));
}

}  // namespace
}  // namespace tessera::test
