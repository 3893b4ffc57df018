// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "tessera/app/problem.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

// From a job and its data to the SolverInput, but for the denoiser.

/// The job's likelihood on this problem, whose weights it takes. Collective.
std::unique_ptr<DataTerm> make_data_term(const RunPlan& plan, Problem& problem, const Space& space);

/// solver.start. Collective.
at::Tensor starting_image(const RunPlan& plan, const Problem& problem, DataTerm& data, const Space& space);

/// The bounds that the job says, else, with a solver that the program chose, those of a picture of 8 bits: its range and
/// three noise levels.
std::optional<std::array<double, 2>> default_bounds(const RunPlan& plan, double noise);

/// The job's solver section with step, sigma and lambda settled. `noise`: that of a sample of weight 1, 0:
/// not known; L: Lipschitz constant of the data term's gradient; `missing`: some samples do not count, which the
/// job may not know. InputError.
SolverOptions solver_options(const RunPlan& plan, double noise, double L, bool missing = false);

/// One line where a noise level leaves the range for which the weights were trained, or empty.
std::string untrained(const RunPlan& plan, const Schedule& sigma, double level = 0);

}  // namespace tessera
