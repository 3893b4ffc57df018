// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/launch.hpp"

#include <mpi.h>

#include <cstdlib>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Open MPI's mpirun says it for its own ranks, whatever it was itself started by.
constexpr const char* kOwn = "OMPI_COMM_WORLD_SIZE";
// MPICH and Intel's (PMI, also Slurm's and Cray's), MVAPICH, jsrun, and a step of Slurm's without any of them.
constexpr const char* kSizes[] = {"PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE",
                                  "SLURM_STEP_NUM_TASKS"};
constexpr const char* kRanks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",           "PMI_RANK",
                                  "MPI_LOCALRANKID",      "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK",
                                  "PALS_RANKID",          "SLURM_PROCID"};

int number(const char* key) {
  const char* text = std::getenv(key);
  return text ? std::atoi(text) : 0;
}

// "Open MPI v4.1.4" of "Open MPI v4.1.4, package: ...".
std::string mpi_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "another MPI";
  const std::string all(text);
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace

bool launched() {
  // One task of Slurm's: a program alone, of which a step may start several in turn; Open MPI takes but the first.
  if (!std::getenv(kOwn) && number("SLURM_STEP_NUM_TASKS") == 1) return false;
  for (const char* key : {kOwn, "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(key)) return true;
  return false;
}

ForeignLaunch foreign_launch(int ranks) {
  ForeignLaunch found;
  if (ranks > 1 || number("TESSERA_ALONE") != 0) return found;
  const char* said = nullptr;
  if (std::getenv(kOwn)) {
    if (number(kOwn) > 1) said = kOwn;
  } else {
    for (const char* key : kSizes)
      if (!said && number(key) > 1) said = key;
  }
  if (!said) return found;
  for (const char* key : kRanks) found.first = found.first && number(key) == 0;
  const int n = number(said);
  found.problem =
      concat(n, " programs of one rank each were started, not one of ", n, " ranks (", said, " is ", n,
             ", and this program's MPI, ", mpi_name(),
             ", was not told of it) start it by jobs/launch.sh, by the mpirun of that MPI, or by srun "
             "--mpi=pmix; where each is to work alone, set TESSERA_ALONE=1");
  return found;
}

}  // namespace tessera
