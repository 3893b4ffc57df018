// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/config/job.hpp"
#include "tessera/config/parse.hpp"

namespace tessera {

/// Reads a job file on rank 0, parses it everywhere. Collective; InputError.
JobConfig load_job(const std::string& path, const std::vector<std::string>& overrides,
                   const Communicator& comm, Purpose purpose = Purpose::reconstruct);

}  // namespace tessera
