// SPDX-License-Identifier: BSD-3-Clause
// The test of a transport before it is trusted, with transports that lie or fail on one rank.
#include "transport_probe.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

std::array<int, 3> grid_of(int ranks) {
  int rows = 1;
  for (int r = 1; r * r <= ranks; ++r)
    if (ranks % r == 0) rows = r;
  return {1, rows, ranks / rows};
}

/// MPI that flips the last bit of the first byte of everything that one rank receives.
class FlippingTransport final : public Transport {
  class FlippingLane final : public Lane {
   public:
    explicit FlippingLane(std::unique_ptr<Lane> inner) : inner_(std::move(inner)) {}
    char* buffer(Side side) const override { return inner_->buffer(side); }
    void start(Side from, const std::vector<Part>& out, const std::vector<Part>& in,
               cudaStream_t stream) override {
      to_ = from == sends ? receives : sends;
      at_ = in.empty() ? -1 : in.back().offset;
      inner_->start(from, out, in, stream);
    }
    bool progress() override { return inner_->progress(); }
    void wait() override { inner_->wait(); }
    void deliver(cudaStream_t stream) override {
      inner_->deliver(stream);
      if (at_ >= 0) inner_->buffer(to_)[at_] ^= 1;
    }

   private:
    std::unique_ptr<Lane> inner_;
    Side to_ = receives;
    std::int64_t at_ = -1;
  };

 public:
  FlippingTransport(const Communicator& comm, int faulty)
      : Transport(comm, Device{}, TransportKind::nccl),
        inner_(make_mpi_transport(comm, Device{}, TransportKind::mpi)),
        faulty_(comm.rank() == faulty) {}
  std::unique_ptr<Lane> make_lane(std::int64_t send_bytes, std::int64_t receive_bytes) override {
    auto lane = inner_->make_lane(send_bytes, receive_bytes);
    if (!faulty_) return lane;
    return std::make_unique<FlippingLane>(std::move(lane));
  }

 private:
  std::shared_ptr<Transport> inner_;
  bool faulty_;
};

TEST(TransportProbe, AGoodTransportPassesFast) {
  test::on_groups([](const Communicator& comm) {
    const double start = now();
    const StartedTransport started =
        start_transport(comm, Device{}, TransportKind::automatic, grid_of(comm.size()), 0);
    EXPECT_EQ(kind(*started.transport), TransportKind::mpi);
    EXPECT_TRUE(started.warnings.empty());
    EXPECT_EQ(started.bytes_per_second > 0, comm.size() > 1);
    EXPECT_EQ(description(started).find("GB/s") != std::string::npos, comm.size() > 1);
    if (comm.rank() == 0)
      std::printf("%d ranks: %.3f s, %s\n", comm.size(), now() - start, description(started).c_str());
  });
}

TEST(TransportProbe, OneFlippedBitOnOneRankReplacesItOnAll) {
  test::on_groups([](const Communicator& comm) {
    if (comm.size() == 1) return;
    for (const int faulty : {0, comm.size() - 1}) {
      const TransportMaker make = [&](TransportKind kind) -> std::shared_ptr<Transport> {
        if (kind == TransportKind::nccl) return std::make_shared<FlippingTransport>(comm, faulty);
        return make_mpi_transport(comm, Device{}, kind);
      };
      const StartedTransport started =
          start_first_working(comm, grid_of(comm.size()), {TransportKind::nccl, TransportKind::mpi}, make);
      EXPECT_EQ(kind(*started.transport), TransportKind::mpi);
      ASSERT_EQ(started.warnings.size(), 1u);
      const std::string& warning = started.warnings.front();
      EXPECT_EQ(warning.find("messages by nccl failed the test at the start (rank " + std::to_string(faulty) +
                             " got "),
                0u)
          << warning;
      EXPECT_NE(warning.find("mpi is used in its place"), std::string::npos) << warning;
    }
  });
}

TEST(TransportProbe, OneThatCannotBeMadeOnOneRankIsReplacedOnAll) {
  test::on_groups([](const Communicator& comm) {
    const TransportMaker make = [&](TransportKind kind) -> std::shared_ptr<Transport> {
      auto transport = make_mpi_transport(comm, Device{}, kind);
      if (kind == TransportKind::nccl && comm.rank() == comm.size() / 2) throw RunError("no card in slot 3");
      return transport;
    };
    const StartedTransport started =
        start_first_working(comm, grid_of(comm.size()), {TransportKind::nccl, TransportKind::mpi}, make);
    EXPECT_EQ(kind(*started.transport), TransportKind::mpi);
    ASSERT_EQ(started.warnings.size(), 1u);
    EXPECT_NE(started.warnings.front().find("no card in slot 3"), std::string::npos);
  });
}

TEST(TransportProbe, NoneLeftIsAnErrorOnEveryRank) {
  test::on_groups([](const Communicator& comm) {
    if (comm.size() == 1) return;
    const TransportMaker make = [&](TransportKind) { return std::make_shared<FlippingTransport>(comm, 1); };
    try {
      start_first_working(comm, grid_of(comm.size()), {TransportKind::nccl, TransportKind::mpi}, make);
      ADD_FAILURE() << "it was accepted";
    } catch (const RunError& e) {
      EXPECT_EQ(std::string(e.what()).find("no transport moves data as it should (nccl: rank 1 got "), 0u)
          << e.what();
    }
  });
}

TEST(TransportProbe, TheOrderOfReplacements) {
  using K = TransportKind;
  const std::vector<Endpoint> aware = {{"h", "0", true}, {"h", "1", true}};
  const std::vector<Endpoint> mixed = {{"h", "0", true}, {"h", "1", false}};
  EXPECT_EQ(candidates_from(K::nccl, aware), (std::vector<K>{K::nccl, K::cuda_mpi, K::mpi}));
  EXPECT_EQ(candidates_from(K::nccl, mixed), (std::vector<K>{K::nccl, K::mpi}));
  EXPECT_EQ(candidates_from(K::cuda_mpi, aware), (std::vector<K>{K::cuda_mpi, K::mpi}));
  EXPECT_EQ(candidates_from(K::mpi, aware), (std::vector<K>{K::mpi}));
}

}  // namespace
}  // namespace tessera
