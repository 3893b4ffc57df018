// SPDX-License-Identifier: BSD-3-Clause
// tessera probe: how much a job's denoiser stretches small changes, at its truth, its start or another image.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "command/command.hpp"
#include "job/same_files.hpp"
#include "job/solver_input.hpp"
#include "tessera/app/diagnostics.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/memory_plan.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

struct ProbeArguments {
  std::string job, image;  // image: none: the truth where there is one, and the start
  std::vector<std::string> overrides;
  std::vector<double> sigmas;  // none: the job's
  int passes = 30, starts = 2;
  int iterations = 16;  // of x <- D(x); 0: none
};

using NamedImage = std::pair<std::string, at::Tensor>;

// Of many levels, largest first: the first, the last and the one between.
std::vector<double> few(const std::vector<double>& all) {
  const std::set<double> distinct(all.begin(), all.end());
  std::vector<double> found(distinct.rbegin(), distinct.rend());
  if (found.size() > 3) found = {found.front(), found[found.size() / 2], found.back()};
  return found;
}

// Where to probe: the file where one is named, else the truth where there is one, and the start; the job's
// levels.
struct Places {
  std::vector<NamedImage> images;
  std::vector<double> sigmas;
};
Places places_of(const ProbeArguments& a, const RunPlan& plan, const std::shared_ptr<Transport>& transport,
                 const Space& space) {
  const Communicator& comm = space.comm();
  Problem problem = make_problem(plan, comm, transport);
  say_notices(plan, problem, comm);
  const double noise = problem.noise_sigma;
  const auto data = make_data_term(plan, problem, space);
  Places places;
  places.sigmas = a.sigmas;
  if (a.sigmas.empty()) {
    const SolverOptions options = solver_options(plan, noise, data->lipschitz());
    std::vector<double> levels = options.sigma.values();
    for (double& level : levels) level = std::max(level, options.level);
    places.sigmas = few(levels);
  }
  if (!a.image.empty()) {
    const std::string name = std::filesystem::path(a.image).filename().string();
    places.images = {{name, read_block(a.image, plan, comm)}};
    return places;
  }
  if (problem.truth.defined()) places.images.emplace_back("truth", problem.truth);
  places.images.emplace_back("start", starting_image(plan, problem, *data, space));
  return places;
}

int execute(const ProbeArguments& a, const Communicator& comm) {
  track_tensor_memory();
  RunPlan plan = plan_run(load_job(a.job, a.overrides, comm), comm, comm.size());
  comm.together([&] {
    TESSERA_VALIDATE(plan.network.has_value(), "the denoiser is ", plan.job.denoiser.network,
                     " (it never expands: there is nothing to probe) name a network");
    TESSERA_VALIDATE(plan.job.execution.precision == Precision::float32, "denoiser.precision is ",
                     word(plan.job.execution.precision),
                     " (its rounding is larger than the changes that probe) use float32");
    for (const double sigma : a.sigmas)
      TESSERA_VALIDATE(sigma > 0, "--sigma is ", sigma, " (a noise level is above 0) for example 0.05");
  });
  if (!a.image.empty()) require_same_files({file_of(a.image)}, comm);
  choose_execution(plan, comm, this_launch(comm));
  std::string laid;
  const std::unique_ptr<ScratchScope> scratch = open_scratch(plan, comm, laid);
  const auto transport = open_transport(plan, comm).transport;
  const auto denoiser = make_denoiser(plan, comm, transport);
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  const auto [places, sigmas] = places_of(a, plan, transport, space);
  const auto say = [&](const std::string& line) {
    if (comm.rank() == 0) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  // Largest gains over the starts.
  const auto probe = [&](const at::Tensor& x, double sigma) {
    double largest = 0, last = 0;
    for (int start = 0; start < a.starts; ++start) {
      const Expansion e = expansion(*denoiser, x, sigma, a.passes, static_cast<std::uint64_t>(start),
                                    plan.decomposition, space);
      largest = std::max(largest, e.largest());
      last = std::max(last, e.last());
    }
    return std::pair{largest, last};
  };

  say(denoiser->description());
  say(fmt::format(
      "gain = |D(x + v) - D(x)| / |v|, v at most 0.01 at its largest: {} passes of power iteration, "
      "{} starts: D(x) - x, then random changes",
      a.passes, a.starts));
  say(fmt::format("\n{:<24} {:>8} {:>10} {:>10}", "image", "sigma", "largest", "last"));
  for (const auto& [name, x] : places)
    for (const double sigma : sigmas) {
      const auto [largest, last] = probe(x, sigma);
      say(fmt::format("{:<24} {:>8.4f} {:>10.4f} {:>10.4f}", name, sigma, largest, last));
    }
  if (a.iterations == 0) return 0;
  for (const double sigma : sigmas) {
    say(fmt::format("\nx <- D(x, {:.4g}) from {}\n{:>9} {:>12} {:>10} {:>10}", sigma, places[0].first,
                    "iteration", "change", "largest", "last"));
    at::Tensor x = places.front().second.clone(), next = at::empty_like(x);
    for (int k = 1; k <= a.iterations; ++k) {
      denoiser->apply(x, sigma, next);
      const double change = space.norm(next - x) / std::max(space.norm(x), 1e-30);
      std::swap(x, next);
      // Probed at 1, 2, 4, 8 ... and at the end: a pass costs as much as an iteration.
      if ((k & (k - 1)) != 0 && k != a.iterations) continue;
      const auto [largest, last] = probe(x, sigma);
      say(fmt::format("{:>9} {:>12.3e} {:>10.4f} {:>10.4f}", k, change, largest, last));
    }
  }
  return 0;
}

}  // namespace

Command probe_command(CLI::App& app) {
  const auto a = std::make_shared<ProbeArguments>();
  CLI::App* options = app.add_subcommand(
      "probe", "how much a job's network stretches small changes of an image (docs/metrics.md)");
  options->add_option("JOB", a->job, "job file")->required();
  options->add_option("--set", a->overrides, "key.path=value");
  options->add_option("--image", a->image, "at this image (default: at the truth and at the start)");
  options->add_option("--sigma", a->sigmas, "noise levels, such as 0.01,0.05 (default: the job's)")
      ->delimiter(',');
  options->add_option("--passes", a->passes, "of the power iteration")
      ->capture_default_str()
      ->check(above_zero());
  options->add_option("--starts", a->starts, "changes to begin with: D(x) - x, then random ones")
      ->capture_default_str()
      ->check(above_zero());
  options->add_option("--iterations", a->iterations, "of x <- D(x), with gains on the way; 0: none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  options->footer("Example: tessera probe photo.yaml --image runs/photo/reconstruction.h5 --sigma 0.02,0.05");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::together};
}

}  // namespace tessera
