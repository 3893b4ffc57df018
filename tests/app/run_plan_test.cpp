// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/run_plan.hpp"

#include <gtest/gtest.h>

#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/tuning.hpp"

namespace tessera {
namespace {

// Without a GPU the memory of a pretended one is the host's: what is tested is among whom it is shared.
TEST(RunPlan, AGpusMemoryIsSharedByTheRanksOnItAndNotByThoseOfTheHost) {
  RunPlan plan;
  plan.device = {0};
  const auto alone = static_cast<double>(execution_options(plan, 1).memory_bytes);
  ASSERT_GT(alone, 0);
  EXPECT_GT(static_cast<double>(execution_options(plan, 8).memory_bytes), 0.7 * alone);
  plan.sharers = 4;
  EXPECT_LT(static_cast<double>(execution_options(plan, 1).memory_bytes), 0.35 * alone);
  plan.device = {};
  EXPECT_LT(static_cast<double>(execution_options(plan, 8).memory_bytes), 0.2 * alone);
}

TEST(Tuning, MemoryIsAShareOrAnAmount) {
  const auto budget = [](const std::string& memory) {
    JobConfig job;
    job.memory = memory;
    return memory_budget(job, std::int64_t{64} << 30);
  };
  EXPECT_EQ(budget("auto"), std::nullopt);
  EXPECT_EQ(budget("0.5"), std::int64_t{32} << 30);
  EXPECT_EQ(budget("8 GiB"), std::int64_t{8} << 30);
}

// Low levels that the job writes are where iterations need the stable weights.
TEST(JobDenoiser, takes_the_stable_weights_at_low_levels_that_the_job_writes) {
  const auto weights = [](const std::string& solver, const ScheduleConfig& sigma) {
    JobConfig job;
    job.denoiser.network = "drunet";
    job.solver.name = solver;
    job.solver.sigma = sigma;
    return job_weights(job, 1);
  };
  const ScheduleConfig low{.values = {0.02}, .automatic = false}, high{.values = {0.05}, .automatic = false};
  EXPECT_EQ(weights("pgd", {}), "drunet_small_gray");
  EXPECT_EQ(weights("hqs", {}), "drunet_small_gray");
  EXPECT_EQ(weights("pgd", low), "drunet_small_gray_stable");
  EXPECT_EQ(weights("pgd", high), "drunet_small_gray_stable");
  EXPECT_EQ(weights("hqs", low), "drunet_small_gray_stable");
  EXPECT_EQ(weights("hqs", high), "drunet_small_gray");
  EXPECT_EQ(weights("admm", {.values = {0.2, 0.02}, .automatic = false}), "drunet_small_gray_stable");
  EXPECT_EQ(weights("admm", {.form = "log", .first = 0.2, .last = 0.05, .automatic = false}),
            "drunet_small_gray");
  EXPECT_EQ(weights("hqs", {.form = "log", .first = 0.2, .last = 0.02, .automatic = false}),
            "drunet_small_gray_stable");
  EXPECT_EQ(weights("hqs", {.form = "dpir", .last = 0.02, .automatic = false}), "drunet_small_gray");
  EXPECT_EQ(weights("fista", {.form = "dpir", .last = 0.02, .automatic = false}), "drunet_small_gray_stable");
}

}  // namespace
}  // namespace tessera
