// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/app/run_plan.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

/// The shipped weights of a network where the job names none.
std::string default_weights(const std::string& network, std::int64_t image_channels);

/// Whether any are shipped for so many channels.
bool has_default_weights(std::int64_t image_channels);

/// A random or loaded network by its configuration. InputError.
Network open_network(const DenoiserConfig& config, std::int64_t image_channels);

/// What is taken for true of weights in a file, of which nothing in it tells; empty: it says what network it is of. InputError.
std::string assumed(const Network& network, const std::string& weights);

/// Which of the shipped weights a job gets that names none.
std::string job_weights(const JobConfig& job, std::int64_t channels);

/// Its windows are as large as its memory allows: execution_options(). Collective.
std::unique_ptr<Denoiser> make_denoiser(const RunPlan& plan, const Communicator& comm,
                                        const std::shared_ptr<Transport>& transport);
/// With denoiser.early_precision in the first iterations, `exact` in the others, which must outlive it; none where the job
/// asks for no other precision. InputError where the solver's sigma does not fall by itself. Collective.
std::unique_ptr<Denoiser> make_early_denoiser(const RunPlan& plan, Denoiser& exact,
                                              const SolverOptions& options, const Communicator& comm,
                                              const std::shared_ptr<Transport>& transport);

}  // namespace tessera
