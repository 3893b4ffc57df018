// SPDX-License-Identifier: BSD-3-Clause
// tessera run: reads, builds, loops, writes.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "run_trace.hpp"
#include "tessera/app/commands.hpp"
#include "tessera/app/diagnostics.hpp"
#include "tessera/app/output.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/app/resume.hpp"
#include "tessera/app/run_status.hpp"
#include "tessera/app/signals.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/comm/watchdog.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/reason.hpp"
#include "tessera/core/units.hpp"
#include "tessera/core/version.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/torch_cuda.hpp"
#include "tessera/io/files.hpp"
#include "tessera/solve/metrics.hpp"

namespace tessera {
namespace {

// A resumed run keeps the schedules that it began with: with more iterations than then, their last values
// hold on.
SolverOptions solver_options(const Geometry& g, double noise, double L,
                             const std::optional<Checkpoint>& from) {
  SolverOptions o = solver_options(g, noise, L);
  if (from) {
    o.step = Schedule(from->lists.at("step"));
    o.sigma = Schedule(from->lists.at("sigma"));
    o.lambda = from->numbers.at("weight");
    o.strength = from->numbers.at("strength");
  }
  return o;
}

OutputFolder::Use folder_use(bool force, ResumeMode mode) {
  using Use = OutputFolder::Use;
  if (mode == ResumeMode::automatic) return Use::automatic;
  return force ? Use::force : mode == ResumeMode::always ? Use::resume : Use::fresh;
}

std::vector<StateField> named(const std::string& prefix, std::vector<StateField> fields) {
  for (StateField& f : fields) f.name = prefix + f.name;
  return fields;
}

CheckpointPlace checkpoint_place(const Geometry& g, int rank) {
  const Index3 lo = g.image.lo(), back{-lo[0], -lo[1], -lo[2]};
  return {g.image.shift(back), g.decomposition.block(rank).shift(back)};
}

// The image region that the samples stand on, for boundary valid.
Box measured_region(const Geometry& g, const MeasurementLayout& layout) {
  Box region;
  for (std::size_t i = 0; i < layout.parts(); ++i) {
    const auto& part = layout.part(i);
    if (!part.anchor) return g.image;
    Index3 lo{}, hi{};
    for (std::size_t d = 0; d < 3; ++d) {
      lo[d] = part.anchor->factor[d] * part.box.lo()[d] + part.anchor->offset[d];
      hi[d] = part.anchor->factor[d] * part.box.hi()[d] + part.anchor->offset[d];
    }
    region = region.hull(Box(lo, hi));
  }
  return region.intersect(g.image);
}

// What the run had taken on this rank's clock when the checkpoint was written; on other ranks than then, the
// longest.
double earlier_seconds(const Checkpoint& from, const Communicator& comm) {
  const std::vector<double>& clocks = from.lists.at("clock");
  if (static_cast<int>(clocks.size()) == comm.size()) return clocks[static_cast<std::size_t>(comm.rank())];
  return *std::max_element(clocks.begin(), clocks.end());
}

class Snapshots final : public Observer {
 public:
  Snapshots(const OutputFolder& folder, const Geometry& g, Log& log, const Communicator& comm)
      : folder_(folder), g_(g), log_(log), comm_(comm) {}
  void after_step(int k, const Solver& solver) override {
    const std::int64_t every = g_.job.output.snapshots;
    if (ended_ || every <= 0 || (k + 1) % every != 0) return;
    const PhaseScope phase(Phase::write);
    try {
      write_preview(folder_.file(fmt::format("iteration-{:05}.png", k + 1)), solver.image(),
                    g_.decomposition.block(comm_.rank()), g_.decomposition.layout(), middle_slice(g_.image),
                    {}, comm_);
    } catch (const Error& e) {
      if (!e.everywhere) throw;  // else the run is worth more than its snapshots
      ended_ = true;
      log_.line(fmt::format("note: there are no snapshots from iteration {} on: {}", k + 1, e.what()));
    }
  }

 private:
  const OutputFolder& folder_;
  const Geometry& g_;
  Log& log_;
  const Communicator& comm_;
  bool ended_ = false;
};

}  // namespace

JobConfig load_job(const std::string& path, const std::vector<std::string>& overrides,
                   const Communicator& comm) {
  std::string text;
  comm.together([&] {
    if (comm.rank() == 0) text = read_text(path);
  });
  text = comm.broadcast(text, 0);
  FileProblem file;
  comm.together([&] { file.path = named_measurements(text, path, overrides); });
  file.text = measurement_problem(file.path, comm);
  JobConfig job;
  comm.together([&] { job = parse_job(text, path, overrides, file); });
  return job;
}

int run_command(const RunArguments& arguments, const Communicator& comm) {
  track_tensor_memory();
  const bool first = comm.rank() == 0;
  const ResumeMode mode = resume_mode(arguments.resume);
  TESSERA_VALIDATE(!arguments.force || mode == ResumeMode::never,
                   "--force stands beside --resume (one starts over, the other goes on) leave one out");
  std::string path = arguments.job;
  std::vector<std::string> overrides = arguments.overrides;
  const bool from_folder = open_run_folder(path, overrides, mode, comm);
  const JobConfig job = load_job(path, overrides, comm);
  TESSERA_VALIDATE(!job.output.folder.empty(),
                   "output.folder is not given (a run writes its results there) add for example "
                   "'output: {folder: runs/photo}'");
  std::optional<StopSignals> signals;
  if (job.output.checkpoint.keep > 0) signals.emplace(first);
  const auto watch = [&](const std::string& words) {
    if (arguments.watchdog) arguments.watchdog->set(job.watchdog, words);
  };
  watch("");
  // Asked where ranks meet anyway: until the first iteration there is nothing to save.
  const auto stop_code = [&] {
    const int code = signals ? StopSignals::exit_code(comm) : 0;
    if (code != 0 && first) std::printf("stopped by a signal before the first iteration: nothing to save\n");
    return code;
  };

  OutputFolder folder(job.output.folder, folder_use(arguments.force, mode), comm);
  std::vector<std::string> damaged;
  const std::optional<Checkpoint> from = find_checkpoint(folder, mode, comm, damaged);
  Geometry g = plan_geometry(job, comm, comm.size());
  const std::string resolved = write_job(g.job);
  std::string inputs;
  if (from) {
    check_same_run(*from, g, comm);
    if (nothing_left(folder, *from, g.job, comm)) {
      if (first)
        std::printf("%s is finished after %d iterations: nothing to do (%s to go on)\n",
                    folder.path().c_str(), from->loop.iterations,
                    from->loop.stood ? "solver.stop.rounding: false" : "raise solver.iterations");
      return 0;
    }
    keep_choices(*from, g, comm);
  }
  preview_form(g);  // refuses what cannot be written, before anything starts
  choose_execution(g, comm, this_launch(comm));
  comm.together([&] {
    if (first) inputs = from ? from->texts.at("inputs") : input_sums(g);
  });
  if (const int code = stop_code()) return code;
  if (const int device = g.device.index; g.device.is_cuda())
    set_device_clock(make_device_clock(g.device, [device] { return current_stream(device); }));
  const StartedTransport started = open_transport(g, comm);
  const std::shared_ptr<Transport>& transport = started.transport;
  const auto denoiser = make_denoiser(g, comm, transport);
  if (const int code = stop_code()) return code;
  Problem problem = make_problem(g, comm, transport);
  keep_estimate(g, problem);
  if (const int code = stop_code()) return code;

  Reducer reducer(comm);
  const Space space(comm, &reducer);
  const auto data = make_data_term(g, problem, space);
  TESSERA_VALIDATE(std::isfinite(data->lipschitz()) && data->lipschitz() > 0,
                   "the operator's squared norm is ", data->lipschitz(),
                   " (no sample that counts depends on the image, or a value is not finite) see ",
                   "problem.operator, its mask and kernel, and problem.weights");
  denoiser->set_noise(problem.noise_sigma / std::sqrt(data->lipschitz()));
  std::vector<StateField> fields = named("data/", data->state());
  if (from) restore_numbers(*from, fields);
  at::Tensor start = from ? problem.A->make_image().zero_() : starting_image(g, problem, *data, space);
  at::Tensor measured = problem.y.front();
  problem.y.clear();  // the data term holds them
  problem.weights.clear();
  const double pixels = static_cast<double>(g.image.pixels() * g.channels);
  const double start_rms = space.norm(start) / std::sqrt(pixels);
  TESSERA_VALIDATE(std::isfinite(start_rms),
                   "the start of the iteration is not finite (a value of the measurement "
                   "or of solver.start is not) mask such samples by problem.weights, or correct the file");
  const SolverOptions options = solver_options(g, problem.noise_sigma, data->lipschitz(), from);
  const auto continued = make_continued(*denoiser, options.level);
  auto solver = make_solver(job.solver.name, {*data, *continued, space, options, start});
  for (const auto& more : {named("solver/", solver->state()), named("denoiser/", denoiser->state())})
    fields.insert(fields.end(), more.begin(), more.end());
  at::Tensor best = start.clone();  // the loop's, so that a resumed run keeps it
  fields.push_back({.name = "loop/best", .image = &best});
  const CheckpointPlace place = checkpoint_place(g, comm.rank());
  if (from) {
    restore_numbers(*from, fields);
    restore_images(*from, fields, place, comm);
  }
  if (const int code = stop_code()) return code;

  const int restarts = from ? 1 + restarts_so_far(folder, *from, comm) : 0;
  check_disk(folder, g, job.output.checkpoint, checkpoint_bytes(fields, place.image), comm);
  folder.create(from.has_value());
  comm.together([&] {
    if (!first) return;
    if (from) CheckpointFolder(folder.file("checkpoint")).set_aside(from->loop.iterations);
    if (!from_folder) write_text(folder.file("job.yaml"), job.text);
    keep_job(folder, write_job(job));
    write_text(folder.file("resolved.yaml"), resolved_text(g, comm.size(), denoiser->description(), inputs) +
                                                 "# noise: " + problem.noise_source + "\n");
  });
  watch(folder.file(fmt::format("log/rank-{}.txt", comm.rank())));
  Log log(first, folder.file("log.txt"));
  log.line(fmt::format("tessera {}: {} x {} on {} rank{} ({} blocks), {}, {} thread{} each, messages by {}",
                       version(), g.channels, sides(g.image), comm.size(), comm.size() == 1 ? "" : "s",
                       fmt::join(g.job.domain.grid, " x "), g.device.is_cuda() ? "CUDA" : "CPU",
                       at::get_num_threads(), at::get_num_threads() == 1 ? "" : "s", description(started)));
  log.line(fmt::format("solver {}, denoiser {}", job.solver.name, denoiser->description()));
  if (std::isfinite(options.strength) && problem.noise_sigma > 0)
    log.line(options.level > 0
                 ? fmt::format("lambda {:.4g}: sigma from {:.4g} to {:.4g}, then to nothing, noise {:.4g}",
                               options.strength, options.sigma.at(0), options.level, problem.noise_sigma)
                 : fmt::format("lambda {:.4g}: sigma {:.4g} (at the end), step {:.4g}, noise {:.4g}",
                               options.strength, options.sigma.values().back(),
                               options.step.set() ? options.step.values().back() : 1 / data->lipschitz(),
                               problem.noise_sigma));
  for (const std::string& line : damaged) log.line("note: passed over: " + line);
  if (from) log.line(fmt::format("resumed after {} iterations from {}", from->loop.iterations, from->path));
  for (const std::string& warning : started.warnings) log.line("warning: " + warning);
  for (const std::string& notice : g.notices) log.line("note: " + notice);
  if (const std::string notice = untrained(g, options.sigma, options.level); !notice.empty())
    log.line("note: " + notice);
  if (!denoiser->notice().empty()) log.line("note: " + denoiser->notice());
  for (const std::string& notice : problem.notices) log.line("note: " + notice);
  for (const std::string& warning : problem.warnings) log.line("warning: " + warning);

  if (!from) write_measurement(folder, g, data->op().layout(), measured, comm);
  measured.reset();

  const Box scored = measured_region(g, data->op().layout());
  std::unique_ptr<Metrics> metrics;
  double psnr_start = NAN;
  if (problem.truth.defined()) {
    metrics = std::make_unique<Metrics>(problem.truth, g.decomposition, comm, transport, scored);
    psnr_start = from ? from->numbers.at("psnr_start") : metrics->psnr(start, space);
    log.line(fmt::format("PSNR of the start: {:.2f} dB", psnr_start));
  }
  const double clock = from ? earlier_seconds(*from, comm) : 0;
  const int done = from ? from->loop.iterations : 0;
  const auto trace_writer =
      open_trace(folder, trace_header(g, arguments, comm), static_cast<int>(job.output.trace_every),
                 {done, clock, restarts}, comm);
  TraceWriter& trace = *trace_writer;
  Progress progress(log, static_cast<int>(job.solver.iterations));
  Snapshots snapshots(folder, g, log, comm);
  Checkpoint fixed;
  fixed.texts = {{"job", resolved}, {"inputs", inputs}};
  fixed.numbers = {{"psnr_start", psnr_start},
                   {"ranks", comm.size()},
                   {"restarts", restarts},
                   {"weight", options.lambda},
                   {"strength", options.strength}};
  for (const auto& [key, value] : denoiser->choices()) fixed.numbers[key] = static_cast<double>(value);
  fixed.lists = {{"step", options.step.values()}, {"sigma", options.sigma.values()}};
  Checkpointer checkpoints(folder, job.output.checkpoint, fixed, fields, place, clock, log, comm);
  RunStatus status(first, folder.file("status.json"), progress, static_cast<int>(job.solver.iterations), done,
                   restarts, comm.size());

  trace.flush();
  const Traffic before = traffic(trace);

  bool diverged = false;
  const auto iterate = [&] {
    const LoopResult result =
        run_loop({.solver = *solver,
                  .data = *data,
                  .reducer = reducer,
                  .space = space,
                  .stop = stop_rule(job),
                  .metrics = metrics.get(),
                  .observers = {&trace, &progress, &snapshots, &status, &checkpoints},
                  .stop_requested = signals ? &StopSignals::seen : nullptr,
                  .pixels = pixels,
                  .settled = static_cast<int>(
                      std::max(options.step.values().size(), options.sigma.values().size()) - 1),
                  .range = std::max(1.0, start_rms),
                  .begin = from ? from->loop : LoopState{},
                  .best = &best});
    // The checkpoints are written: what only the iteration needed makes room for metrics and output.
    solver.reset();
    start.reset();
    best.reset();

    status.set("writing");
    trace.flush();
    const LoopSummary loop =
        summarize(before, traffic(trace), progress.seconds(), result.iterations - done, comm);

    // Who asks for a stop has little time: the image is in the checkpoint.
    const bool stopped = result.reason == StopReason::stopped;
    double psnr = result.last.psnr, psnr_8bit = NAN;
    Ssim ssim;
    if (metrics && !stopped) {
      const PhaseScope phase(Phase::metrics);
      psnr = metrics->psnr(result.image, space);
      psnr_8bit = metrics->psnr_8bit(result.image, space);
      ssim = metrics->ssim(result.image, space);
    }
    const bool crop_it = job.output.crop && !g.truth;
    comm.together([&] { folder.require_owner(); });
    if (!stopped) write_reconstruction(folder, g, result.image, crop_it ? scored : g.image, comm);
    trace.flush();
    const std::vector<std::string> untraced = comm.gather(trace.problem(), 0);
    const std::string table = phase_table(trace, comm);
    std::vector<std::string> warnings;
    nlohmann::ordered_json diagnostics;
    if (job.output.diagnostics && !stopped)
      diagnostics = diagnose(g, *data, result.image, *denoiser, std::max(result.last.sigma, options.level),
                             result.iterations, folder, space, warnings);

    const double each = result.iterations > done ? progress.seconds_per_iteration()
                        : result.iterations > 0  ? result.seconds / result.iterations
                                                 : 0.0;
    const std::string kept =
        result.kept < 0 ? "the start" : concat("the image of iteration ", result.kept + 1);
    nlohmann::ordered_json s;
    const auto number = [](double v) {
      return std::isfinite(v) ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr);
    };
    s["schema"] = 1;
    s["status"] = name(result.reason);
    s["ended_by"] = result.ended_by;
    s["psnr"] = number(psnr);
    s["psnr_8bit"] = number(psnr_8bit);
    s["ssim"] = number(ssim.reflected);
    s["ssim_valid"] = number(ssim.valid);
    s["psnr_start"] = number(psnr_start);
    if (metrics) {
      auto& region = s["scored_region"] = nlohmann::ordered_json::array();
      for (std::size_t d = axes_of(g.image) == Axes::volume ? 0 : 1; d < 3; ++d)
        region.push_back({scored.lo()[d], scored.hi()[d]});
    }
    s["iterations"] = result.iterations;
    s["written_iteration"] = result.kept + 1;
    s["cause"] = result.cause;
    s["residual"] = number(result.last.residual);
    s["objective"] = number(result.last.objective);
    s["chi2"] = number(result.last.chi2);
    s["noise"] = number(problem.noise_sigma);
    s["lambda"] = number(options.strength);
    const ProxReport prox = data->prox_report();
    s["prox"] = {{"calls", prox.calls},
                 {"iterations", prox.iterations},
                 {"missed", prox.missed},
                 {"worst_error", prox.worst}};
    s["seconds"] = result.seconds;
    s["seconds_per_iteration"] = each;
    s["restarts"] = restarts;
    s["ranks"] = comm.size();
    s["peak_bytes_per_rank"] = loop.peak_bytes;
    s["peak_data_bytes_per_rank"] = loop.peak_data_bytes;
    s["resident_peak_bytes_per_rank"] = loop.resident_peak_bytes;
    s["bytes_sent_per_iteration"] = loop.bytes_sent_per_iteration;
    s["exposed_wait_fraction"] = loop.exposed_wait_fraction;
    s["checkpoint_bytes"] = job.output.checkpoint.keep > 0 ? checkpoints.bytes() : 0;
    s["checkpoint_seconds"] = checkpoints.seconds();
    s["device"] = g.device.is_cuda() ? "cuda" : "cpu";
    s["precision"] = job.denoiser.precision;
    s["transport"] = name(kind(*transport));
    s["tessera"] = version();
    if (!diagnostics.is_null()) s["diagnostics"] = diagnostics;
    comm.together([&] {
      if (first) write_text(folder.file("summary.json"), s.dump(2) + "\n");
    });

    for (std::size_t r = 0; r < untraced.size(); ++r)
      if (!untraced[r].empty())
        log.line(fmt::format("note: the trace of rank {} ended before the run did: {}", r, untraced[r]));
    for (const std::string& warning : warnings) log.line("warning: " + warning);
    if (prox.missed > 0)
      log.line(
          fmt::format("warning: {} of {} data steps ended before their tolerance (solver.prox_iterations is "
                      "{}, the worst "
                      "left an rms error of {:.2g}): raise it",
                      prox.missed, prox.calls, job.solver.prox_iterations, prox.worst));
    log.line("");
    log.line(table);
    std::string last = fmt::format("{} after {} iterations, {} ({} per iteration)", name(result.reason),
                                   result.iterations, format_seconds(result.seconds), format_seconds(each));
    if (metrics) last += fmt::format(", PSNR {:.2f} dB (start {:.2f})", psnr, psnr_start);
    if (metrics && !stopped) last += fmt::format(", SSIM {:.4f}", ssim.reflected);
    log.line(last);
    diverged = result.reason == StopReason::diverged;
    if (diverged)
      throw RunError(concat("the iteration diverged (", result.cause, ") ", kept,
                            " was written; try a larger solver.sigma, denoiser.averaging or a smaller "
                            "solver.step, or fewer iterations"));
    if (!result.cause.empty()) log.line(concat("warning: ", result.cause, ": ", kept, " was written"));
    if (result.ended_by == "rounding")
      log.line(
          "note: the last iterations moved the image by float32's rounding alone: further ones would change "
          "nothing (solver.stop.rounding: false goes on)");
    if (!stopped) {
      log.line("results in " + folder.path());
      status.set("finished", name(result.reason));
      return 0;
    }
    const int code = StopSignals::exit_code(comm);
    if (!checkpoints.written())
      throw RunError(
          "the run was stopped and its checkpoint could not be written (see the note above) free "
          "space and resume from the checkpoint before");
    log.line(fmt::format("checkpoint in {}; 'tessera run {} --resume' goes on from it",
                         folder.file("checkpoint"), folder.path()));
    status.set(code == kRequeue ? "waiting" : "stopped",
               code == kRequeue ? "checkpointed after SIGUSR1, to be started again with --resume"
                                : "checkpointed after SIGTERM or Ctrl-C");
    return code;
  };
  try {
    return iterate();
  } catch (const std::exception& e) {
    status.set("failed", reason(e));
    if (!diverged) log.line(way_on(folder));  // where going on leads to the same end, there is none
    throw;
  }
}

}  // namespace tessera
