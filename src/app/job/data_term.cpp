// SPDX-License-Identifier: BSD-3-Clause
// From the job's likelihood to the data term.
#include <algorithm>
#include <utility>

#include "tessera/app/problem.hpp"
#include "tessera/core/error.hpp"

namespace tessera {

std::unique_ptr<DataTerm> make_data_term(const RunPlan& plan, Problem& problem, const Space& space) {
  const LikelihoodConfig& l = plan.job.problem.likelihood;
  const SolverConfig& s = plan.job.solver;
  DataTermInput input{.A = problem.A,
                      .y = problem.y,
                      .weights = problem.weights,
                      .noise_sigma = problem.noise_sigma,
                      .prox = {static_cast<int>(s.prox_iterations), s.prox_tolerance},
                      .seed = static_cast<std::uint64_t>(plan.job.problem.seed)};
  if (l.type == "gaussian") return make_least_squares(std::move(input), space);
  std::unique_ptr<PointwiseLoss> loss;
  if (l.type == "huber") {
    loss = make_huber_loss(l.threshold, problem.noise_sigma);
  } else {
    // Read noise beside the counts shifts them: its variance is that of so many more counts.
    const double gain = problem.noise.poisson, read = problem.noise.gaussian;
    TESSERA_VALIDATE(gain > 0, "problem.likelihood.type is poisson (the gain of the counts is not known, ",
                     "and was not found in the data) write problem.noise.poisson");
    loss = make_poisson_loss(gain, l.background + read * read / gain, problem.noise_sigma);
  }
  return make_pointwise_term(std::move(input), std::move(loss), space);
}

}  // namespace tessera
