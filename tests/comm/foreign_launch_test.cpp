// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/launch.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace tessera {
namespace {

// As if a launcher had left these variables, and no others that are looked at.
ForeignLaunch with(const std::map<std::string, std::string>& variables, int ranks = 1) {
  for (const char* key :
       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_SIZE", "PMI_RANK",
        "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "TESSERA_ALONE"})
    ::unsetenv(key);
  for (const auto& [key, value] : variables) ::setenv(key.c_str(), value.c_str(), 1);
  return foreign_launch(ranks);
}

TEST(ForeignLaunch, SeveralProgramsOfOneRankAreToldByTheFirst) {
  const ForeignLaunch mpich = with({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}});
  EXPECT_NE(mpich.problem.find("2 programs of one rank each"), std::string::npos) << mpich.problem;
  EXPECT_NE(mpich.problem.find("PMI_SIZE is 2"), std::string::npos) << mpich.problem;
  EXPECT_TRUE(mpich.first);
  EXPECT_FALSE(with({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}).first);
  const ForeignLaunch step = with({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "7"}});
  EXPECT_NE(step.problem.find("8 programs"), std::string::npos);
  EXPECT_FALSE(step.first);
  EXPECT_NE(with({{"OMPI_COMM_WORLD_SIZE", "3"}}).problem, "") << "mpirun of another Open MPI";
}

TEST(ForeignLaunch, OneProgramIsLeftAlone) {
  EXPECT_EQ(with({}).problem, "");
  EXPECT_EQ(with({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).problem, "") << "a batch script's shell";
  EXPECT_EQ(with({{"SLURM_STEP_NUM_TASKS", "1"}}).problem, "");
  EXPECT_EQ(with({{"PMI_SIZE", "4"}}, 4).problem, "") << "one program of four ranks";
  EXPECT_EQ(with({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}).problem, "")
      << "mpirun inside of a step";
  EXPECT_EQ(with({{"PMI_SIZE", "4"}, {"TESSERA_ALONE", "1"}}).problem, "") << "meant so";
}

TEST(ForeignLaunch, OneTaskOfAStepIsNoLaunch) {
  with({{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}});
  EXPECT_FALSE(launched()) << "a shell in a step starts one program after the other";
  with({{"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "0"}});
  EXPECT_TRUE(launched());
  with({{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_TRUE(launched()) << "mpirun inside of a step";
}

}  // namespace
}  // namespace tessera
