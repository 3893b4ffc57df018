// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/config/job.hpp"

namespace tessera {

/// A path without its `:/DATASET`.
std::string file_of(const std::string& path);

/// The files of a job that ranks read each for itself. Kernels are rank 0's alone.
std::vector<std::string> read_by_ranks(const JobConfig& job);

/// InputError with the hosts where the ranks do not see the same files (a scratch folder that each node has for itself):
/// sizes, times and samples of what they hold are compared, and all of it where the times differ. One that nobody sees is
/// none of its business. Collective.
void require_same_files(const std::vector<std::string>& paths, const Communicator& comm);

}  // namespace tessera
