// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/app/run_plan.hpp"
#include "tessera/denoise/network_denoiser.hpp"

namespace tessera {

/// The shipped weights of a network where the job names none.
std::string default_weights(const std::string& network, std::int64_t image_channels);

/// Whether any are shipped for so many channels.
bool has_default_weights(std::int64_t image_channels);

/// A random or loaded network by its configuration. InputError.
Network open_network(const DenoiserConfig& config, std::int64_t image_channels);

/// Which of the shipped weights a job gets that names none.
std::string job_weights(const JobConfig& job, std::int64_t channels);

/// Free bytes for each rank of the memory that it computes in: its GPU's, shared by the ranks on it, or the
/// host's.
std::int64_t available_bytes(const RunPlan& plan, int ranks_on_host);

/// Execution options of the job's denoiser, and the denoiser itself. Collective.
ExecutionOptions execution_options(const RunPlan& plan, int ranks_on_host);
std::unique_ptr<Denoiser> make_denoiser(const RunPlan& plan, const Communicator& comm,
                                        const std::shared_ptr<Transport>& transport);

}  // namespace tessera
