// SPDX-License-Identifier: BSD-3-Clause
// Which GPU a rank takes, on pretended hosts: no GPU is needed.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/groups.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using Ranks = std::vector<GpuSight>;

/// What a task sees on a host with so many GPUs under this CUDA_VISIBLE_DEVICES; "unset": all of them.
GpuSight sight(const std::string& host, int gpus, const std::string& visible) {
  GpuSight out{host, {}, {}};
  if (visible == "unset") {
    for (int g = 0; g < gpus; ++g) out.gpus.push_back("gpu" + std::to_string(g));
    return out;
  }
  std::istringstream list(visible);
  for (std::string g; std::getline(list, g, ',');) out.gpus.push_back("gpu" + g);
  return out;
}

/// The GPU that each rank ends on.
std::vector<std::string> taken(const Ranks& ranks) {
  const GpuAssignment a = assign_gpus(ranks);
  std::vector<std::string> out;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    out.push_back(a.device[r] < 0 ? "none" : ranks[r].gpus[static_cast<std::size_t>(a.device[r])]);
  return out;
}

// The rows of docs/slurm.md, 2 hosts with 2 GPUs each: what Slurm sets for the tasks of a host.
TEST(GpuChoice, EachTaskHasItsOwnInAllTheWaysOfSlurm) {
  const std::map<std::string, std::pair<std::string, std::string>> ways = {
      {"--gpus-per-task=1", {"0", "1"}},
      {"--gpu-bind=single:1", {"0", "1"}},
      {"--gpu-bind=map_gpu:1,0", {"1", "0"}},
      {"--gpus-per-node=2", {"0,1", "0,1"}},
      {"--gres=gpu:2, order turned", {"0,1", "1,0"}},
      {"--gpus-per-task=1 --gpu-bind=none", {"unset", "unset"}},
      {"one task bound, one not", {"0", "unset"}},
      {"one task not bound, one bound", {"unset", "0"}}};
  for (const auto& [way, visible] : ways) {
    SCOPED_TRACE(way);
    Ranks ranks;
    for (const char* host : {"n1", "n2"}) {
      ranks.push_back(sight(host, 2, visible.first));
      ranks.push_back(sight(host, 2, visible.second));
    }
    const std::vector<std::string> gpus = taken(ranks);
    EXPECT_NE(gpus[0], gpus[1]);
    EXPECT_NE(gpus[2], gpus[3]);
    const GpuAssignment a = assign_gpus(ranks);
    EXPECT_EQ(a.shared_a, -1);
    EXPECT_EQ(a.without, -1);
    EXPECT_EQ(complaint(a, ranks, true, GpuSharing::refused), "");
    if (visible.first == "0") {
      EXPECT_EQ(gpus[0], "gpu0");
    }
  }
}

TEST(GpuChoice, LocalRankDecidesWhereAllSeeAll) {
  Ranks ranks;
  for (int r = 0; r < 16; ++r) ranks.push_back(sight(r < 8 ? "n1" : "n2", 8, "unset"));
  const GpuAssignment a = assign_gpus(ranks);
  for (int r = 0; r < 16; ++r) EXPECT_EQ(a.device[static_cast<std::size_t>(r)], r % 8);
}

TEST(GpuChoice, RanksOfAHostNeedNotBeNeighbors) {
  Ranks ranks;
  for (int r = 0; r < 8; ++r) ranks.push_back(sight(r % 2 ? "b" : "a", 4, "unset"));  // cyclic distribution
  const GpuAssignment a = assign_gpus(ranks);
  for (int r = 0; r < 8; ++r) EXPECT_EQ(a.device[static_cast<std::size_t>(r)], r / 2);
  EXPECT_EQ(a.shared_a, -1);
}

TEST(GpuChoice, SetsOfTwoAreUsedUp) {
  const Ranks ranks = {sight("n", 4, "0,1"), sight("n", 4, "2,3"), sight("n", 4, "0,1"),
                       sight("n", 4, "2,3")};
  const std::vector<std::string> gpus = taken(ranks);
  EXPECT_EQ(std::set<std::string>(gpus.begin(), gpus.end()).size(), 4u);
}

TEST(GpuChoice, TwoOnOneGpuIsRefusedUnlessMeant) {
  const Ranks ranks = {sight("n1", 1, "0"), sight("n2", 2, "unset"), sight("n2", 2, "unset"),
                       sight("n2", 2, "unset")};
  const GpuAssignment a = assign_gpus(ranks);
  EXPECT_EQ(a.shared_a, 1);
  EXPECT_EQ(a.shared_b, 3);
  EXPECT_EQ(
      complaint(a, ranks, false, GpuSharing::refused),
      "ranks 1 and 3 would compute on one GPU (n2, gpu0: each would slow the other down) start one rank "
      "per GPU, for example srun --gpus-per-node=2 jobs/bind.sh, or write 'domain: {share_gpu: true}' if it "
      "is meant");
  EXPECT_EQ(complaint(a, ranks, false, GpuSharing::allowed), "");
  // Shared evenly when it is meant.
  Ranks many;
  for (int r = 0; r < 6; ++r) many.push_back(sight("n", 2, "unset"));
  int first = 0;
  for (const int d : assign_gpus(many).device) first += d == 0;
  EXPECT_EQ(first, 3);
}

TEST(GpuChoice, SomeWithAndSomeWithoutIsAnErrorOfItsOwn) {
  const Ranks ranks = {sight("n1", 2, "0"), sight("n1", 2, "1"), sight("n2", 2, "")};
  const GpuAssignment a = assign_gpus(ranks);
  EXPECT_EQ(a.without, 2);
  for (const bool need : {false, true})
    EXPECT_EQ(
        complaint(a, ranks, need, GpuSharing::allowed),
        "rank 2 on n2 sees no GPU (rank 0 on n1 does; all ranks compute on the same kind of device) give "
        "every task one, for example srun --gpus-per-node=2 jobs/bind.sh, or write 'device: cpu'");
}

TEST(GpuChoice, NoneAtAllIsAnErrorOnlyWhereOneIsNeeded) {
  const Ranks ranks = {sight("n1", 0, "unset"), sight("n1", 0, "unset")};
  const GpuAssignment a = assign_gpus(ranks);
  EXPECT_EQ(complaint(a, ranks, false, GpuSharing::refused), "");
  EXPECT_NE(complaint(a, ranks, true, GpuSharing::refused).find("no CUDA device is visible"),
            std::string::npos);
}

// Memory is shared by the ranks on a GPU, not by those of the host.
TEST(GpuChoice, SharersAreTheRanksOfTheSameGpu) {
  Ranks ranks;
  for (int r = 0; r < 8; ++r) ranks.push_back(sight("n1", 8, "unset"));
  EXPECT_EQ(assign_gpus(ranks).sharers, std::vector<int>(8, 1));
  ranks = {sight("n1", 2, "unset"), sight("n1", 2, "unset"), sight("n1", 2, "unset"), sight("n2", 1, "0"),
           sight("n3", 0, "")};
  EXPECT_EQ(assign_gpus(ranks).sharers, (std::vector<int>{2, 1, 2, 1, 0}));
}

TEST(GpuChoice, OnlyNoDriverAndNoDeviceMeanNoGpu) {
  EXPECT_EQ(gpu_count(cudaSuccess, 4, 13000).devices, 4);
  for (const auto& [error, driver] :
       {std::pair{cudaErrorNoDevice, 13000}, {cudaErrorInsufficientDriver, 0}}) {
    const GpuCount none = gpu_count(error, 0, driver);
    EXPECT_EQ(none.devices, 0);
    EXPECT_EQ(none.trouble, "");
  }
  EXPECT_EQ(gpu_count(cudaErrorInsufficientDriver, 0, 12040).trouble.substr(0, 40),
            "the driver knows CUDA 12.4, this program");
  for (const cudaError_t error : {cudaErrorSystemDriverMismatch, cudaErrorInitializationError,
                                  cudaErrorStubLibrary, cudaErrorCompatNotSupportedOnDevice})
    EXPECT_NE(gpu_count(error, 0, 13000).trouble, "") << error;
}

TEST(GpuChoice, ABrokenDriverIsSaidEvenWhereNoGpuIsNeeded) {
  Ranks ranks = {sight("n1", 1, "0"), sight("n2", 0, "")};
  ranks[1].trouble = "the driver knows CUDA 12.4, this program needs 13.0";
  for (const bool need : {false, true})
    EXPECT_EQ(
        complaint(assign_gpus(ranks), ranks, need, GpuSharing::allowed),
        "no GPU can be used on n2 (the driver knows CUDA 12.4, this program needs 13.0) look at nvidia-smi "
        "and update the driver, or write 'device: cpu'");
}

TEST(GpuChoice, RealRanksAgree) {
  test::on_groups([](const Communicator& comm) {
    const Device device = choose_gpu(comm, false, GpuSharing::allowed).device;
    const std::vector<double> all = comm.all_gather(device.is_cuda());
    EXPECT_EQ(std::set<double>(all.begin(), all.end()).size(), 1u);
    if (!device.is_cuda()) {
      EXPECT_THROW(choose_gpu(comm, true, GpuSharing::refused), InputError);
    }
  });
}

}  // namespace
}  // namespace tessera
