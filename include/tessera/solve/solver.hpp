// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/options.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/domain/state.hpp"
#include "tessera/solve/schedule.hpp"
#include "tessera/solve/strength.hpp"

namespace tessera {

/// What every solver may use, and what one declares for itself. One that would have no effect in the solver
/// named is refused by the configuration.
struct SolverOptions {
  Schedule step;     // gradient step or penalty gamma; unset: the solver's own rule
  Schedule sigma;    // denoiser's noise level
  double level = 0;  // below it the denoiser is continued (make_continued), and a run comes to its end
  double lambda = std::numeric_limits<double>::quiet_NaN();  // of Strength, for the record
  double inertia = 0;                                        // of hqs, where the job leaves it open
  double weight = 1.0;                                       // red, gspnp, proxpnp: weight of x - D(x)
  Options own{};                                             // of the solver that its row declares
  bool pixels = false;                                       // every sample is a pixel, a network the prior
  int iterations = 20;
  // The image stays between these values: a projection after every denoising step.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();

  /// Projects onto [least, most], in place; nothing without bounds.
  void bound(at::Tensor& image) const;
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
  Deferred residual;   // of the fixed point, |T(x) - x| / (|x+| + 1e-6); each solver says which
  Deferred squares{};  // |x+|^2, where the step has added it up
  Deferred prior{};    // prior_value(), or of the solver's own, where f was last evaluated; NaN: f is all
};

/// One iterative method. No printing, timing, files or ranks in it. Collective: construction and step().
class Solver {
 public:
  virtual ~Solver() = default;
  /// The current reconstruction, this rank's block; changes with step().
  virtual const at::Tensor& image() const = 0;
  /// The one before the last step(), until the next: its numbers arrive one step late.
  virtual const at::Tensor& previous() const = 0;
  /// Iteration k = 0, 1, ...
  virtual IterationRecord step(int k) = 0;
  /// Everything that the next step depends on, beside k, the options and the data.
  virtual std::vector<StateField> state() = 0;
  /// Between two iterations, when every deferred number has arrived: state() is about to be written.
  virtual void at_rest() {}
};

/// Step lengths of a method with gradient steps: the option, checked against 0 < step < reach / (L + extra),
/// or 1 / (L + extra) where it is unset, and below options.level less, with sigma^2. L = data.lipschitz().
/// Collective.
Schedule gradient_steps(const SolverInput& in, double extra = 0, double reach = 2);
/// Penalties gamma > 0 of a splitting method; 1 where unset.
Schedule penalties(const SolverInput& in);
/// What a known prior adds to f(x) in min f + g sigma^2 / step, the problem of a proximal method: with
/// sigma^2 = step lambda s_n^2 it is lambda s_n^2 g(x). NaN where the denoiser knows no g. Collective.
Deferred prior_value(const SolverInput& in, const at::Tensor& x, double step, double sigma);

/// For methods that go down on an objective with the denoiser's potential, `name` in their errors. InputError
/// unless there is a positive weight, one step and one sigma at most, and no bounds.
void validate_descent(const SolverInput& in, const std::string& name);
/// This rank's share of the potential at the denoiser's last input; InputError where it has none.
at::Tensor known_potential(const SolverInput& in, const std::string& name);
/// Of such an objective, relative: what float32 networks leave.
double rounding(const at::Tensor& image);

/// A solver of the job file: all that is known of it. Each is one file in solvers/, which ends in its row.
struct SolverRow {
  std::string name;
  std::function<std::unique_ptr<Solver>(const SolverInput&)> make;
  DataStep data_step;    // how it meets the data term
  int images = 3;        // that it holds at once, start and work included
  int state_images = 1;  // of them in state(): what a checkpoint takes
  // Its passes over images in one iteration, as "read read > written; ...", with x the image; of the data term "measure x",
  // "gradient x > z", "adjoint > z" and "prox z > u", of the denoiser "denoise u > previous". What a disk takes where they
  // lie in a file (tessera/perf/disk.hpp); empty: nobody knows.
  std::string passes{};
  std::vector<Option> options{};  // keys solver.NAME of its own
  bool multiplier =
      false;  // adds up what the denoiser changes, so that strong denoising at the start stays in it
  bool needs_potential = false;  // of the denoiser: Denoiser::potential()
  bool bare = false;             // of data alone: no step, no denoiser
  bool counts = false;           // and these are counts: a Poisson likelihood
  bool once = false;             // one pass: nothing to start from, nothing to stop
  bool balances = false;         // samples and pixels, so that its step needs no bound of |A|^2
};

/// The factory of a row.
template <class S>
std::unique_ptr<Solver> make(const SolverInput& in) {
  return std::make_unique<S>(in);
}

/// solvers/table.cpp: every solver that a job may name. A program may add rows before it parses its first
/// job.
std::vector<SolverRow>& solver_table();
/// InputError with the known names.
const SolverRow& find_solver(const std::string& name);
std::unique_ptr<Solver> make_solver(const std::string& name, const SolverInput& input);

}  // namespace tessera
