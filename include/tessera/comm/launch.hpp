// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// Whether a launcher has started this process, as the environment says; then MPI is to be started. Without one,
/// MPI_Init would start a helper daemon for a single process. A step of Slurm's with one task counts as none.
bool launched();

/// A launcher that does not belong to this program's MPI starts N programs of one rank each, none of which knows
/// of the others: each would do the whole job.
struct ForeignLaunch {
  std::string problem;  // empty: there is none
  bool first = true;    // of those programs, as far as the launcher says: the one that speaks
};
/// `ranks`: how many MPI knows of. Variables of Open MPI, MPICH and its relatives, and Slurm's steps are read.
/// A batch script's variables (SLURM_NTASKS) are not: what it starts without a launcher is one program.
/// TESSERA_ALONE=1 says that each is meant to work alone.
ForeignLaunch foreign_launch(int ranks);

}  // namespace tessera
