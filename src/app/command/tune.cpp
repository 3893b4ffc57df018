// SPDX-License-Identifier: BSD-3-Clause
// tessera tune: runs the job's iteration in the ways that the model thinks worth a try, and keeps the
// fastest.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "command/command.hpp"
#include "job/inner_iterations.hpp"
#include "job/solver_input.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/memory_plan.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/io/files.hpp"
#include "tessera/perf/measure.hpp"
#include "tessera/perf/tuned.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {
namespace {

struct TuneArguments {
  std::string job, machine;  // machine: file to write the measured machine to
  std::vector<std::string> overrides;
  double seconds = 3;   // per candidate
  int candidates = 12;  // at most
  bool only_machine = false;
};

class Seconds final : public Observer {
 public:
  void on_result(const IterationResult& r) override { list.push_back(r.seconds); }
  std::vector<double> list;
};

struct Measured {
  Execution choice;
  double predicted = 0, seconds = 0;  // seconds 0: it could not run
};

std::string text(const Execution& e) {
  std::string out = fmt::format("{:<6}", word(e.mode));
  if (e.mode == ExecutionMode::patch)
    out += fmt::format(" patch {:<5} batch {:<3}", e.patch.value_or(0), e.batch.value_or(0));
  if (e.mode == ExecutionMode::layer) out += fmt::format(" depth {:<15}", e.halo_depth.value_or(0));
  return fmt::format("{:<30} {}", out, word(e.transport));
}

/// The job, ready to iterate with any denoiser.
class Bench {
 public:
  explicit Bench(const Communicator& comm) : comm_(comm), reducer_(comm), space_(comm, &reducer_) {}

  /// Reads or simulates the problem anew where the blocks or the transport are others than before.
  void prepare(const RunPlan& plan) {
    const bool same = transport_ && plan.job.execution.transport == plan_.job.execution.transport &&
                      plan.decomposition.grid() == plan_.decomposition.grid();
    plan_ = plan;
    if (same) return;
    transport_.reset();  // set last of all: an error on the way leaves nothing that looks ready
    metrics_.reset();
    data_.reset();
    const std::shared_ptr<Transport> transport = open_transport(plan_, comm_).transport;
    Problem problem = make_problem(plan_, comm_, transport);
    if (!std::exchange(said_, true)) say_notices(plan_, problem, comm_);
    noise_ = problem.noise_sigma;
    data_ = make_data_term(plan_, problem, space_);
    start_ = starting_image(plan_, problem, *data_, space_);
    if (problem.truth.defined())
      metrics_ = std::make_unique<Metrics>(problem.truth, plan_.decomposition, comm_, transport);
    transport_ = transport;
  }

  // Median seconds of an iteration on the slowest rank.
  double run(double seconds, double predicted) {
    const auto denoiser = make_denoiser(plan_, comm_, transport_);
    denoiser->set_noise(noise_ / std::sqrt(data_->lipschitz()));
    const auto solver =
        make_solver(plan_.job.solver.name, {*data_, *denoiser, space_, options(), start_.clone()});
    const double each = std::max(predicted, 1e-4);
    // The first iteration warms up; the model may be far off, so a second look bounds what follows.
    double first = iterate(*solver, 2);
    first = std::max(first, each / 20);
    const int more = std::clamp(static_cast<int>(seconds / first), 2, 40);
    return iterate(*solver, more);
  }

 private:
  SolverOptions options() { return solver_options(plan_, noise_, data_->lipschitz()); }

  double iterate(Solver& solver, int iterations) {
    Seconds observed;
    run_loop({.solver = solver,
              .data = *data_,
              .reducer = reducer_,
              .space = space_,
              .stop = {iterations, 0, 0},
              .metrics = metrics_.get(),
              .observers = {&observed},
              .pixels = static_cast<double>(plan_.image.box.pixels() * plan_.image.channels)});
    std::vector<double> list(observed.list.begin() + (observed.list.size() > 2 ? 1 : 0), observed.list.end());
    std::sort(list.begin(), list.end());
    double median = list[list.size() / 2];
    comm_.all_reduce({&median, 1}, Reduce::max);
    return median;
  }

  RunPlan plan_;
  Communicator comm_;
  Reducer reducer_;
  Space space_;
  std::shared_ptr<Transport> transport_;
  std::unique_ptr<DataTerm> data_;
  std::unique_ptr<Metrics> metrics_;
  at::Tensor start_;
  bool said_ = false;  // what run would say of the data
  double noise_ = 0;   // of the problem, where a sample weighs 1
};

// The candidates: the model's best, at least the best of every mode, none that it thinks far slower.
std::vector<Prediction> pick(const std::vector<Prediction>& ranked, int most) {
  std::vector<Prediction> chosen;
  for (const Prediction& p : ranked) {
    const bool first_of_mode = std::none_of(chosen.begin(), chosen.end(), [&](const Prediction& c) {
      return c.execution.mode == p.execution.mode;
    });
    const bool close = p.seconds() < 1.6 * ranked.front().seconds();
    if (first_of_mode || (close && static_cast<int>(chosen.size()) < most)) chosen.push_back(p);
  }
  return chosen;
}

// One tile in every precision that works here: time, and the difference from float32. Never a choice.
void print_precisions(const RunPlan& plan, const Communicator& comm) {
  const std::int64_t a = longest(plan.network->alignment());
  const bool volume = plan.network->graph.axes() == Axes::volume;
  const std::int64_t most = volume ? std::min<std::int64_t>(48, plan.image.box.extent(0)) : 256;
  std::int64_t side = std::min({most, plan.image.box.extent(1), plan.image.box.extent(2)}) / a * a;
  side = std::max(side, a);
  std::vector<std::int64_t> sizes{1, plan.network->channels(), side, side};
  if (volume) sizes.push_back(side);
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::rand(sizes, plan.options());
  at::Tensor exact;
  double base = 0;
  if (comm.rank() == 0)
    std::printf("precisions, one tile of %s%lld x %lld (never chosen for you):\n",
                volume ? concat(side, " x ").c_str() : "", static_cast<long long>(side),
                static_cast<long long>(side));
  for (const Precision precision :
       {Precision::float32, Precision::tf32, Precision::bfloat16, Precision::float16}) {
    const bool tf32 = precision == Precision::tf32;
    if (tf32 && !plan.device.is_cuda()) continue;
    RunnerOptions o;
    o.type = scalar_type(precision);
    o.tf32 = tf32;
    o.device = plan.device;
    double seconds = 0;
    at::Tensor y;
    std::string failure;
    std::optional<Runner> runner;
    try {
      comm.together([&] {
        runner.emplace(*plan.network, o);
        y = runner->run(x, 0.1);
      });
    } catch (const RunError& e) {  // there is no kernel for this type
      if (!e.everywhere) throw;
      failure = e.what();
    }
    if (failure.empty()) seconds = time_median(comm, plan.device, 0.3, [&] { y = runner->run(x, 0.1); });
    if (comm.rank() != 0) continue;
    if (!failure.empty()) {
      std::printf("  %-9s cannot run here\n", word(precision));
      continue;
    }
    if (!exact.defined()) {
      exact = y.clone();  // the runner, whose memory it may be, goes away
      base = seconds;
    }
    std::printf("  %-9s %10s  %5.2f times float32's speed, largest difference %.1e\n", word(precision),
                format_seconds(seconds).c_str(), base / seconds, at::abs(y - exact).max().item().toDouble());
  }
}

// What a busy machine measures is not what it can do.
void say_busy(const Communicator& comm) {
  const auto cores = static_cast<double>(std::thread::hardware_concurrency());
  double load = 0;
  if (::getloadavg(&load, 1) != 1 || load <= cores) return;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  if (comm.local_rank() == 0)
    std::printf(
        "warning: %s is busy, its load is %.1f on %.0f cores: what is measured now is slower than it can "
        "be\n",
        host, load, cores);
}

// Files of later runs: what was measured is worth more than its place. Whether it was written.
bool try_to_store(const char* what, const std::function<void()>& store) {
  try {
    store();
    return true;
  } catch (const std::exception& e) {
    std::printf("note: %s could not be stored: %s\n", what, e.what());
    return false;
  }
}

// Measured anew where nothing is known, or a file is to be written. That file alone is; else later runs find it in the cache.
Machine machine_for(const RunPlan& plan, const Communicator& comm,
                    const std::shared_ptr<Transport>& transport, const NetworkWork& network,
                    const std::string& file, bool anew) {
  Machine machine;
  std::string cached;
  const Place place = this_launch(comm);
  comm.together([&] {
    if (comm.rank() == 0) cached = write_machine(planning_machine(plan, place));
  });
  machine = parse_machine(comm.broadcast(cached, 0), "the cached machine");
  if (anew || !machine.measured || !knows(machine, network, plan.job.execution.precision)) {
    if (comm.rank() == 0)
      std::printf("measuring this computer with %d rank%s ...\n", comm.size(), comm.size() == 1 ? "" : "s");
    MeasureOptions options;
    options.networks = {&*plan.network};
    options.precision = plan.job.execution.precision;
    machine = measure_machine(comm, transport, plan.device, options);
  }
  comm.together([&] {
    if (comm.rank() != 0) return;
    if (!file.empty()) return write_text(file, write_machine(machine));
    const std::string path = measured_machine_path(place.per_host, place.threads);
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    try_to_store("the measured machine", [&] { write_text(path, write_machine(machine)); });
  });
  return machine;
}

int execute(const TuneArguments& a, const Communicator& comm) {
  track_tensor_memory();
  const JobConfig job = load_job(a.job, a.overrides, comm);
  RunPlan plan = plan_run(job, comm, comm.size());
  TESSERA_VALIDATE(plan.network.has_value(), "denoiser.network is ", job.denoiser.network,
                   " (there is nothing to tune without a network) tune a job that names one");
  Modelled m = model_job(plan, plan.device.is_cuda());
  if (!a.only_machine && runs_conjugate_gradients(plan, m)) m.data.inner = expected_inner(plan).count;
  const Place place = this_launch(comm);
  const std::string shape = shape_key(plan, place);
  const bool first = comm.rank() == 0;
  if (first)
    for (const std::string& warning : plan.files->warnings()) std::printf("warning: %s\n", warning.c_str());

  say_busy(comm);
  const auto transport = open_transport(plan, comm).transport;
  const Machine machine =
      machine_for(plan, comm, transport, *m.network, a.machine, a.only_machine || !a.machine.empty());
  if (a.only_machine) return 0;

  std::string laid;
  const std::unique_ptr<ScratchScope> scratch = open_scratch(plan, comm, laid);
  const double features = feature_budget(plan, comm, place);
  std::vector<TransportKind> transports{job.execution.transport};
  if (plan.device.is_cuda() && transports[0] == TransportKind::automatic && comm.size() > 1)
    transports.push_back(TransportKind::mpi);
  const std::vector<Prediction> candidates = pick(rank_ways(plan, m, machine, features), a.candidates);
  TESSERA_VALIDATE(!candidates.empty(), "memory is ", job.memory,
                   " (no window of the network fits it) raise memory, or use a smaller network");

  Bench bench(comm);
  std::vector<Measured> table;
  std::string why;  // the first way could not run
  for (const TransportKind way : transports)
    for (const Prediction& p : candidates) {
      Measured row{p.execution, p.seconds(), 0};
      RunPlan tried = plan;
      set_execution(tried, p.execution);
      tried.job.execution.transport = row.choice.transport = way;
      try {
        bench.prepare(tried);
        row.seconds = bench.run(a.seconds, p.seconds());
      } catch (
          const InputError& e) {  // equal on all ranks: this way does not exist here, or the data are no data
        if (why.empty()) why = e.what();
      }
      table.push_back(row);
      if (first)
        std::printf("  %-38s predicted %10s  measured %10s\n", text(row.choice).c_str(),
                    format_seconds(row.predicted).c_str(),
                    row.seconds > 0 ? format_seconds(row.seconds).c_str() : "cannot run");
      std::fflush(stdout);
    }
  std::erase_if(table, [](const Measured& row) { return row.seconds <= 0; });
  if (table.empty()) throw InputError(why);
  const auto best = std::min_element(
      table.begin(), table.end(), [](const Measured& x, const Measured& y) { return x.seconds < y.seconds; });
  comm.together([&] {
    if (!first) return;
    const Measured& guess = table.front();  // the model's first
    std::printf("auto by the cost model: %s, %.3f times the best\n", text(guess.choice).c_str(),
                guess.seconds / best->seconds);
    std::printf("best: %s, %s per iteration\n", text(best->choice).c_str(),
                format_seconds(best->seconds).c_str());
    if (try_to_store("the choice", [&] {
          store_tuned(tuned_path(), {machine.fingerprint, shape, best->choice, best->seconds});
        }))
      std::printf("stored in %s\n", tuned_path().c_str());
  });
  print_precisions(plan, comm);
  return 0;
}

}  // namespace

Command tune_command(CLI::App& app) {
  const auto a = std::make_shared<TuneArguments>();
  CLI::App* options = app.add_subcommand(
      "tune",
      "measure the best mode, patch, batch, halo depth and transport of a job on the ranks of this launch");
  options->add_option("JOB", a->job, "job file")->required();
  options->add_option("--set", a->overrides, "key.path=value");
  options->add_option("--seconds", a->seconds, "measured per candidate, about")
      ->capture_default_str()
      ->check(above_zero());
  options->add_option("--candidates", a->candidates, "measured at most")
      ->capture_default_str()
      ->check(above_zero());
  options->add_option("--machine", a->machine,
                      "write the measured machine to this file alone, for tessera plan");
  options->add_flag("--only-machine", a->only_machine, "measure the machine and stop");
  options->footer("Example: jobs/launch.sh -n 4 tessera tune photo.yaml");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::together};
}

}  // namespace tessera
