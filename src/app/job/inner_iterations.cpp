// SPDX-License-Identifier: BSD-3-Clause
// How many conjugate gradients a data step takes.
#include "job/inner_iterations.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "job/solver_input.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {
namespace {

/// Conjugate gradients of every step so far.
class Counts final : public Observer {
 public:
  explicit Counts(const DataTerm& data) : data_(data) {}
  void after_step(int, const Solver&) override { totals.push_back(data_.prox_report().iterations); }
  std::vector<std::int64_t> totals;

 private:
  const DataTerm& data_;
};

// The job on a small synthetic scene. Its own picture, measurements and weights do not fit that.
RunPlan small_job(const RunPlan& plan) {
  constexpr std::int64_t kSide = 192;
  JobConfig job = plan.job;
  ProblemConfig& p = job.problem;
  const Reach r = plan.op->traits(plan.domain()).reach;
  const std::int64_t reach = std::max(r.lo[1] + r.hi[1], r.lo[2] + r.hi[2]);
  const std::int64_t side = (4 * reach / kSide + 1) * kSide;  // a multiple, which decimations divide
  if (plan.scan) p.op = plan.parts[0];                        // which does without its file
  p.truth = p.measurements = p.weights = p.dark = p.flat = {};
  p.bad = {};
  p.saturation = 0;
  p.image = {};
  p.scale = {};
  p.simulate = {};
  TESSERA_VALIDATE(!plan.image.volume(),
                   "the image is a volume (the synthetic scene is a picture) count in a run");
  p.scene = {0,
             {std::min(side, plan.image.box.extent(1)), std::min(side, plan.image.box.extent(2))},
             plan.image.channels};
  if (!p.noise.given()) p.noise.gaussian = 0.01;
  job.execution = {.mode = ExecutionMode::whole,
                   .precision = job.execution.precision,
                   .transport = job.execution.transport};
  job.domain.grid.clear();
  job.memory = "auto";
  job.notices.clear();
  if (job.solver.start != "auto" && job.solver.start != "zero") job.solver.start = "adjoint";
  return plan_run(job, Communicator(), 1, plan.files);
}

double on_a_small_scene(const RunPlan& plan) {
  constexpr int kLooked = 24;  // iterations; schedules have come to their end by then
  const RunPlan small = small_job(plan);
  const Communicator alone;
  const auto transport = open_transport(small, alone).transport;
  Problem problem = make_problem(small, alone, transport);
  Reducer reducer(alone);
  const Space space(alone, &reducer);
  const auto data = make_data_term(small, problem, space);
  const auto denoiser = make_denoiser(small, alone, transport);
  denoiser->set_noise(problem.noise_sigma / std::sqrt(data->lipschitz()));
  const auto solver =
      make_solver(small.job.solver.name,
                  {*data, *denoiser, space, solver_options(small, problem.noise_sigma, data->lipschitz()),
                   starting_image(small, problem, *data, space)});
  Counts counts(*data);
  const int all = static_cast<int>(small.job.solver.iterations), looked = std::min(all, kLooked);
  run_loop({.solver = *solver,
            .data = *data,
            .reducer = reducer,
            .space = space,
            .stop = {looked, 0, 0},
            .observers = {&counts},
            .pixels = static_cast<double>(small.image.values())});
  const std::vector<std::int64_t>& t = counts.totals;
  if (t.empty()) return 0;
  const std::int64_t last = t.back() - (t.size() > 1 ? t[t.size() - 2] : 0);
  // What was not looked at goes on as the last one.
  const double more = static_cast<double>(all) - static_cast<double>(t.size());
  return (static_cast<double>(t.back()) + more * static_cast<double>(last)) / all;
}

// Per call, of a run with this operator and this solver in the job's output folder; 0: there is none.
double in_the_last_run(const JobConfig& job) {
  try {
    const std::string path = job.output.folder + "/resolved.yaml";
    const JobConfig ran = parse_job(read_text(path), path, {});
    const SolverConfig &a = ran.solver, &b = job.solver;
    if (!(ran.problem.op == job.problem.op && a.name == b.name && a.prox_tolerance == b.prox_tolerance &&
          a.prox_iterations == b.prox_iterations && a.lambda == b.lambda && a.step == b.step))
      return 0;
    const auto s = nlohmann::json::parse(read_text(job.output.folder + "/summary.json"));
    const double calls = s.at("prox").at("calls"), counted = s.at("prox").at("iterations");
    return calls > 0 ? counted / calls : 0;
  } catch (const std::exception&) {  // no run, or one of another version
    return 0;
  }
}

}  // namespace

bool runs_conjugate_gradients(const RunPlan& plan, const Modelled& m) {
  return data_traffic(plan.decomposition, m.data, 0).iterative();
}

InnerIterations expected_inner(const RunPlan& plan) {
  const std::string& folder = plan.job.output.folder;
  if (const double counted = in_the_last_run(plan.job); counted > 0)
    return {counted, "as in the last run in " + folder};
  try {
    if (const double counted = on_a_small_scene(plan); counted > 0)
      return {counted, "counted just now with this operator on a small scene"};
  } catch (const InputError&) {  // a mask or a start of the whole image's size: it cannot be made smaller
  }
  const auto most = static_cast<double>(plan.job.solver.prox_iterations);
  return {std::min(most, kInnerIterations),
          "assumed: weights or operator cannot be tried on a small scene, and no run of this job is in " +
              (folder.empty() ? "an output folder" : folder)};
}

}  // namespace tessera
