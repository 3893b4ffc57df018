// SPDX-License-Identifier: BSD-3-Clause
#include "job/solver_input.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "job/survey.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/domain/fill.hpp"
#include "tessera/solve/choose_schedules.hpp"

namespace tessera {
namespace {

// What solvers of counts do with samples below zero, of which they refuse more than a few.
void say_below_zero(double background, Problem& problem, const Communicator& comm) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < problem.y.size(); ++i) {
    at::Tensor below = problem.y[i].lt(-background);
    if (!problem.weights.empty()) below = below.logical_and(problem.weights[i].ne(0));
    n += below.sum().item().toLong();
  }
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  if (n > 0)
    problem.notices.push_back(concat(n, n == 1 ? " sample lies" : " samples lie",
                                     " below zero, as noise around an offset does, and count as zero"));
}

}  // namespace

std::unique_ptr<DataTerm> make_data_term(const RunPlan& plan, Problem& problem, const Space& space) {
  const LikelihoodConfig& l = plan.job.problem.likelihood;
  const SolverConfig& s = plan.job.solver;
  DataTermInput input{.A = problem.A,
                      .y = problem.y,
                      .weights = problem.weights,
                      .noise_sigma = problem.noise_sigma,
                      .prox = {static_cast<int>(s.prox_iterations), s.prox_tolerance},
                      .seed = static_cast<std::uint64_t>(plan.job.problem.seed),
                      .ends = problem.ends};
  if (l.type == "gaussian") return make_least_squares(std::move(input), space);
  std::unique_ptr<PointwiseLoss> loss;
  if (l.type == "huber") {
    loss = make_huber_loss(l.threshold, problem.noise_sigma);
  } else {
    // Read noise beside the counts shifts them: its variance is that of so many more counts.
    const double gain = problem.noise.poisson, read = problem.noise.gaussian;
    TESSERA_VALIDATE(gain > 0, "problem.likelihood.type is poisson (the gain of the counts is not known, ",
                     "and was not found in the data) write problem.noise.poisson");
    const double background = l.background + read * read / gain;
    if (find_solver(s.name).counts) say_below_zero(background, problem, space.comm());
    loss = make_poisson_loss(gain, background, problem.noise_sigma);
  }
  return make_pointwise_term(std::move(input), std::move(loss), space);
}

namespace {

// A^T y / |A|^2 of the samples that count: A^T W y would be dark where weights are small. Divided by |A|^2, a
// stack of n operators starts in the image's range too.
void start_adjoint(const RunPlan& plan, const Problem& problem, DataTerm& data, at::Tensor& x,
                   const Space& space) {
  if (problem.weights.empty()) {
    x.div_(data.lipschitz_of_squares());
    return;
  }
  Measurement y(problem.y.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = problem.y[i].masked_fill(problem.weights[i].eq(0), 0);
  problem.A->adjoint(y, x);
  x.div_(operator_norm_squared(*problem.A, space, static_cast<std::uint64_t>(plan.job.problem.seed)));
}

// x = A^T W y becomes each pixel's mean of the samples that see it; pixels that hardly any sees are filled
// from their neighbors. False, and x as it was, where the operator has no such means: negative taps.
bool start_seen(const Problem& problem, DataTerm& data, at::Tensor& x, const Space& space) {
  constexpr double kHardly = 0.05;  // of the pixel that is seen most
  at::Tensor seen = at::empty_like(x);
  data.sensitivity(seen);
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  double extremes[2] = {kNone, kNone};  // the largest of -seen and seen
  if (seen.numel() > 0) {
    const auto [least, most] = at::aminmax(seen);
    extremes[0] = -least.item<double>();
    extremes[1] = most.item<double>();
  }
  space.comm().all_reduce(extremes, Reduce::max);
  if (!(extremes[1] > 0) || extremes[0] > 1e-4 * extremes[1]) return false;
  if (-extremes[0] < kHardly * extremes[1])
    fill_unmeasured(*problem.A, seen.clamp_min_(0), kHardly * extremes[1], x, space);
  else
    x.div_(seen);
  return true;
}

}  // namespace

at::Tensor starting_image(const RunPlan& plan, const Problem& problem, DataTerm& data, const Space& space) {
  const Communicator& comm = space.comm();
  const std::string& start = plan.job.solver.start;
  at::Tensor x = problem.A->make_image();
  const SolverRow& row = find_solver(plan.job.solver.name);
  if (row.once) {
    x.zero_();  // nothing comes of it
  } else if (start == "auto" && !row.bare && problem.A->traits().not_direct.empty() &&
             plan.job.problem.likelihood.type == "gaussian") {
    Measurement y;
    for (const at::Tensor& part : problem.y) y.push_back(part.nan_to_num(0.0));
    problem.A->direct(y, problem.weights.empty() ? Measurement(y.size()) : problem.weights, RampWindow::hann,
                      x);
  } else if (start == "auto" || start == "adjoint") {
    data.adjoint_start(x);
    if (start == "adjoint" || !start_seen(problem, data, x, space))
      start_adjoint(plan, problem, data, x, space);
  } else if (start == "zero") {
    x.zero_();
  } else if (start == "measurement") {
    const ProductSpace& layout = problem.A->range();
    TESSERA_VALIDATE(
        layout.part(0).box() == plan.image.box && layout.part(0).space.channels == plan.image.channels,
        "solver.start is measurement (measurement 0 is no image of the unknown's size) use 'start: adjoint'");
    x.copy_(problem.y[0]).nan_to_num_(0.0, 1.0, 0.0);
  } else {
    x.copy_(read_block(start, plan, comm));
  }
  return x;
}

namespace {

Schedule schedule(const ScheduleConfig& c, int iterations) {
  if (c.automatic) return {};
  if (c.form == "log") return Schedule::log_space(c.first, c.last, iterations);
  if (c.form == "linear") return Schedule::linear(c.first, c.last, iterations);
  return c.values;
}

}  // namespace

std::optional<std::array<double, 2>> default_bounds(const RunPlan& plan, double noise) {
  // A picture of 8 bits holds its range: what leaves it by more than its noise was not there.
  constexpr double kNoise = 3;
  if (plan.job.solver.bounds || !plan.job.solver.chosen.solver || plan.data.type != "uint8" ||
      plan.job.problem.measurements.empty() || !in_image_range(plan))
    return plan.job.solver.bounds;
  return std::array{-kNoise * noise, 1 + kNoise * noise};
}

// A schedule 'dpir' of either key ends at the noise level and sets what belongs to it.
SolverOptions solver_options(const RunPlan& plan, double noise, double L, bool missing) {
  const SolverConfig& s = plan.job.solver;
  const int n = static_cast<int>(s.iterations);
  const SolverRow& row = find_solver(s.name);
  SolverOptions o;
  o.iterations = n;
  o.own = s.options;
  if (const auto bounds = default_bounds(plan, noise)) {
    o.least = (*bounds)[0];
    o.most = (*bounds)[1];
  }
  Strength said{schedule(s.step, n), schedule(s.sigma, n), s.lambda};
  const auto level = [&](const ScheduleConfig& c) { return c.last > 0 ? c.last : noise; };
  if (s.sigma.form == "dpir") {
    said.sigma = dpir_schedule(level(s.sigma), n).sigma;
    if (s.step.automatic && row.data_step == DataStep::prox && !s.lambda)
      said.step = dpir_schedule(level(s.sigma), n).gamma;
  }
  if (s.step.form == "dpir") said.step = dpir_schedule(level(s.step), n).gamma;
  const OperatorTraits traits = plan.op->traits(plan.domain());
  const DenoiserRow& denoiser = find_denoiser(plan.job.denoiser.network);
  choose_schedules({.said = said,
                    .sigma_open = s.sigma.automatic,
                    .solver = row,
                    .network = denoiser.like_network(),
                    .takes_sigma = plan.network ? plan.network->takes_sigma() : denoiser.takes_sigma,
                    .pixels = denoiser.like_network() && traits.pointwise(),
                    .volume = plan.image.volume(),
                    .convolves = traits.convolutional(),
                    .denoising = !missing && is_denoising(plan.job.problem),
                    .noise = noise,
                    .L = L},
                   o);
  return o;
}

std::string untrained(const RunPlan& plan, const Schedule& sigma, double level) {
  if (!plan.network || !plan.network->sigma_range || !plan.network->takes_sigma()) return {};
  const auto [least, most] = *plan.network->sigma_range;
  for (const double value : sigma.values())
    if (const double s = std::max(value, level); s < least || s > most * (1 + 1e-6))
      return fmt::format(
          "the denoiser's sigma {:.4g} lies outside [{:.4g}, {:.4g}], for which {} were trained", s, least,
          most, plan.job.denoiser.weights.empty() ? "the weights" : plan.job.denoiser.weights);
  return {};
}

}  // namespace tessera
