// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "tessera/comm/communicator.hpp"
#include "tessera/config/job.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {

/// The scan of a job whose operator takes one (takes_scan); nothing where there are no measurements, or their file holds
/// several parts or channels. By headers alone. Collective; InputError equal on all ranks.
std::optional<Scan> job_scan(const JobConfig& job, const Communicator& comm);

}  // namespace tessera
