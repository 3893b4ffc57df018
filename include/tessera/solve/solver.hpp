// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/denoise/denoiser.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/domain/state.hpp"
#include "tessera/solve/schedule.hpp"

namespace tessera {

/// What every solver may use; one that would have no effect in the solver named is refused by the
/// configuration.
struct SolverOptions {
  Schedule step;            // gradient step or penalty gamma; unset: the solver's own rule
  Schedule sigma;           // denoiser's noise level
  double relaxation = 1.0;  // pgd: x <- relaxation * D(.) + (1 - relaxation) * (.)
  double lambda = 1.0;      // red: weight of the prior
  double momentum = 3.0;    // fista: a of (k + a - 1) / (k + a)
  double dual_step = 1.0;   // admm: beta
  int iterations = 20;
};

/// References stay alive as long as the solver; options are copied; `start` becomes the solver's own memory.
struct SolverInput {
  DataTerm& data;
  Denoiser& denoiser;
  const Space& space;
  SolverOptions options;
  at::Tensor start;  // this rank's block
};

/// What one step did. Deferred numbers arrive with the iteration's one reduction.
struct IterationRecord {
  double step = 0;
  double sigma = 0;
  Deferred residual;  // |x+ - x| / (|x+| + 1e-6)
};

/// One iterative method. No printing, timing, files or ranks in it. Collective: construction and step().
class Solver {
 public:
  virtual ~Solver() = default;
  /// The current reconstruction, this rank's block; changes with step().
  virtual const at::Tensor& image() const = 0;
  /// Iteration k = 0, 1, ...
  virtual IterationRecord step(int k) = 0;
  /// Everything that the next step depends on, beside k, the options and the data.
  virtual std::vector<StateField> state() = 0;
};

/// Step lengths of a method with gradient steps: the option, checked against 0 < step < 2 / (L + extra), or 1
/// / (L + extra) where it is unset. L = data.lipschitz(). Collective.
Schedule gradient_steps(const SolverInput& in, double extra = 0);
/// Penalties gamma > 0 of a splitting method; 1 where unset.
Schedule penalties(const SolverInput& in);

/// solvers/table.cpp. InputError with the nearest known name.
std::unique_ptr<Solver> make_solver(const std::string& name, const SolverInput& input);
const std::vector<std::string>& solver_names();

}  // namespace tessera
