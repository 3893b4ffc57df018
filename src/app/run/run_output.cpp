// SPDX-License-Identifier: BSD-3-Clause
#include "run/run_output.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "job/solver_input.hpp"
#include "run/folder_owner.hpp"
#include "run/run_summary.hpp"
#include "run/run_trace.hpp"
#include "tessera/app/diagnostics.hpp"
#include "tessera/app/signals.hpp"
#include "tessera/comm/watchdog.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/reason.hpp"
#include "tessera/core/units.hpp"
#include "tessera/core/version.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

// What the run had taken on this rank's clock when the checkpoint was written; on other ranks than then, the
// longest.
double earlier_seconds(const Checkpoint& from, const Communicator& comm) {
  const std::vector<double>& clocks = from.lists.at("clock");
  if (static_cast<int>(clocks.size()) == comm.size()) return clocks[static_cast<std::size_t>(comm.rank())];
  return *std::max_element(clocks.begin(), clocks.end());
}

std::string counted(std::int64_t iterations) {
  return fmt::format("{} iteration{}", iterations, iterations == 1 ? "" : "s");
}

class Snapshots final : public Observer {
 public:
  Snapshots(const OutputFolder& folder, const RunPlan& plan, Log& log, const Communicator& comm)
      : folder_(folder), plan_(plan), log_(log), comm_(comm) {}
  void after_step(int k, const Solver& solver) override {
    const std::int64_t every = plan_.job.output.snapshots;
    if (ended_ || every <= 0 || (k + 1) % every != 0) return;
    const PhaseScope phase(Phase::write);
    try {
      write_preview(folder_.file(fmt::format("iteration-{:05}.png", k + 1)),
                    stored_of(solver.image(), plan_.curve), plan_.decomposition.block(comm_.rank()),
                    plan_.decomposition.layout(), middle_slice(plan_.image.box), {}, comm_);
    } catch (const Error& e) {
      if (!e.everywhere) throw;  // else the run is worth more than its snapshots
      ended_ = true;
      log_.line(fmt::format("note: there are no snapshots from iteration {} on: {}", k + 1, e.what()));
    }
  }

 private:
  const OutputFolder& folder_;
  const RunPlan& plan_;
  Log& log_;
  const Communicator& comm_;
  bool ended_ = false;
};

void say_what_runs(Log& log, const JobRun& run, const std::vector<std::string>& damaged) {
  const RunPlan& plan = run.plan;
  const int ranks = run.comm.size(), threads = at::get_num_threads();
  log.line(fmt::format("tessera {}: {} x {} on {} rank{} ({} blocks), {}, {} thread{} each, messages by {}",
                       version(), plan.image.channels, sides(plan.image.box), ranks, ranks == 1 ? "" : "s",
                       fmt::join(plan.job.domain.grid, " x "), plan.device.is_cuda() ? "CUDA" : "CPU",
                       threads, threads == 1 ? "" : "s", description(run.started)));
  log.line(fmt::format("solver {}, {}, denoiser {}", plan.job.solver.name,
                       counted(plan.job.solver.iterations), run.denoiser->description()));
  const SolverOptions& o = run.options;
  const double noise = run.problem.noise_sigma;
  if (std::isfinite(o.lambda) && noise > 0)
    log.line(
        o.level > 0
            ? fmt::format("noise {:.4g} (white is 1): the denoiser takes noise of {:.4g} away at first, of "
                          "{:.4g} at the "
                          "end{} (prior of strength lambda {:.4g})",
                          noise, o.sigma.at(0), o.level,
                          o.sigma.values().back() < 0.99 * o.level ? ", then less and less" : "", o.lambda)
            : fmt::format(
                  "noise {:.4g} (white is 1): the denoiser takes noise of {:.4g} away at the end (prior of "
                  "strength lambda {:.4g}, step {:.4g})",
                  noise, o.sigma.values().back(), o.lambda,
                  o.step.set() ? o.step.values().back() : 1 / run.data->lipschitz()));
  // jobs/launch.sh keeps signals from it, and says that it has.
  if (plan.job.output.checkpoint.keep > 0 && std::getenv("OMPI_MCA_orte_launch") &&
      !std::getenv("TESSERA_TERMINAL"))
    log.line(
        "note: mpirun by itself kills its ranks a second or two after Ctrl-C or SIGTERM, and what a longer "
        "iteration has begun is lost: send it SIGUSR2 instead, or start it by jobs/launch.sh");
  for (const std::string& line : damaged) log.line("note: passed over: " + line);
  if (run.from) log.line(fmt::format("resumed after {} iterations from {}", run.done(), run.from->path));
  for (const std::string& warning : run.started.warnings) log.line("warning: " + warning);
  for (const std::string& notice : plan.notices) log.line("note: " + notice);
  for (const std::string& notice : {untrained(plan, o.sigma, o.level), run.denoiser->notice()})
    if (!notice.empty()) log.line("note: " + notice);
  for (const std::string& notice : plan.files->notices()) log.line("note: " + notice);
  for (const std::string& warning : plan.files->warnings()) log.line("warning: " + warning);
  for (const std::string& notice : run.problem.notices) log.line("note: " + notice);
  for (const std::string& warning : run.problem.warnings) log.line("warning: " + warning);
}

std::string how_it_ended(const LoopResult& r, std::int64_t asked) {
  const std::string done = fmt::format("{} of {}", r.iterations, counted(asked));
  if (r.reason == StopReason::limit && r.iterations > 1 && std::isfinite(r.last.residual))
    return fmt::format("{}, the last moved the image by {:.2g} %,", done, 100 * r.last.residual);
  if (r.reason == StopReason::converged && r.ended_by != "rounding")
    return fmt::format("converged after {}, by solver.stop.{},", done, r.ended_by);
  return r.reason == StopReason::limit ? done : fmt::format("{} after {}", name(r.reason), done);
}

Checkpoint fixed_part(const JobRun& run, const RunFiles& files, int restarts) {
  Checkpoint fixed;
  fixed.texts = {{"job", run.said}, {"inputs", files.inputs}};
  fixed.numbers = {{"psnr_start", run.psnr_start},
                   {"raised", run.raised},
                   {"noise", run.problem.noise_sigma},
                   {"chosen", static_cast<double>(run.plan.settings.solver.chosen.bits())},
                   {"ranks", run.comm.size()},
                   {"restarts", restarts},
                   {"weight", run.options.weight},
                   {"strength", run.options.lambda}};
  for (const auto& [key, value] : run.denoiser->choices()) fixed.numbers[key] = static_cast<double>(value);
  fixed.lists = {{"step", run.options.step.values()}, {"sigma", run.options.sigma.values()}};
  if (std::isfinite(run.options.least) && std::isfinite(run.options.most))
    fixed.lists["bounds"] = {run.options.least, run.options.most};
  return fixed;
}

// InputError where the folder's disk has no room for the result and the checkpoints; what a run to be resumed has there
// already is not needed again. Quotas are not seen. Collective.
void check_disk(const OutputFolder& folder, const JobRun& run) {
  namespace fs = std::filesystem;
  const RunPlan& plan = run.plan;
  const std::int64_t checkpoint = checkpoint_bytes(run.fields, run.place.image);
  run.comm.together([&] {
    if (run.comm.rank() != 0) return;
    fs::path there = fs::absolute(folder.path());
    std::error_code error;
    while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
    const fs::space_info space = fs::space(there, error);
    if (error) return;  // a file system that does not tell
    const auto kept = static_cast<std::int64_t>(CheckpointFolder(folder.file("checkpoint")).list().size());
    // The one that is written comes on top of those that are kept, which are at most as many as iterations.
    const std::int64_t keep = std::min(plan.job.output.checkpoint.keep, plan.job.solver.iterations);
    const std::int64_t more = keep == 0 ? 0 : std::max<std::int64_t>(1, keep + 1 - kept);
    const auto result = 4.0 * static_cast<double>(plan.image.channels * plan.image.box.pixels());
    const double needed = result + static_cast<double>(more) * static_cast<double>(checkpoint);
    const auto free = static_cast<double>(space.available);
    TESSERA_VALIDATE(free >= needed, "the disk of ", folder.path(), " has ", format_bytes(free),
                     " left (the result and ", more, " checkpoints need ", format_bytes(needed),
                     ") free space, name another output.folder, or keep fewer: output.checkpoint.keep");
  });
}

// InputError where a rank does not see the folder that rank 0 has made: a scratch folder that each node has for itself.
// Another node may be some seconds behind. Collective.
void check_shared(const OutputFolder& folder, const Communicator& comm) {
  constexpr double kPatience = 10;
  namespace fs = std::filesystem;
  const std::string owner = folder.file(FolderOwner::kFile);
  const auto read = [&] {
    std::error_code none;
    return fs::exists(owner, none) ? read_text(owner) : std::string();
  };
  std::string mine;
  comm.together([&] {
    if (comm.rank() == 0) mine = read();
  });
  const std::string first = comm.broadcast(mine, 0);
  comm.together([&] {
    for (const double start = now(); comm.rank() != 0 && read() != first; ::usleep(100000)) {
      beat();
      TESSERA_VALIDATE(
          now() - start < kPatience, folder.path(),
          " is another folder here, or none (every rank writes its trace and its part of the result "
          "into it) name an output.folder that all nodes share");
    }
  });
}

}  // namespace

int make_run_folder(OutputFolder& folder, const JobRun& run, const RunFiles& files) {
  const int restarts = run.from ? 1 + restarts_so_far(folder, *run.from, run.comm) : 0;
  check_disk(folder, run);
  folder.create(run.goes_on());
  try {
    check_shared(folder, run.comm);
  } catch (...) {
    folder.take_back();
    throw;
  }
  run.comm.together([&] {
    if (run.comm.rank() != 0) return;
    if (run.from) CheckpointFolder(folder.file("checkpoint")).set_aside(run.done());
    if (!files.text.empty()) write_text(folder.file("job.yaml"), files.text);
    write_text(folder.path() + kKeptJob, files.asked);
    write_text(folder.file("resolved.yaml"),
               resolved_text(run.resolved(), run.comm.size(), run.denoiser->description(), files.inputs) +
                   "# noise: " + run.problem.noise_source + "\n");
  });
  return restarts;
}

void say_start(Log& log, const OutputFolder& folder, JobRun& run, const RunFiles& files) {
  say_what_runs(log, run, files.damaged);
  if (!run.from) write_measurement(folder, run.plan, run.data->op().range(), run.measured, run.comm);
  if (!run.from) write_bad(folder, run.plan, run.data->op().range(), run.weights, run.comm);
  run.measured.reset();
  run.weights.reset();
  run.score();
  if (run.metrics) log.line(fmt::format("PSNR of the start: {:.2f} dB", run.psnr_start));
}

RunOutput::RunOutput(OutputFolder& folder, JobRun& run, Log& log, const RunFiles& files, int restarts)
    : folder_(folder),
      run_(run),
      log_(log),
      restarts_(restarts),
      record_(result_record(run.plan, run.comm)),
      clock_(run.from ? earlier_seconds(*run.from, run.comm) : 0),
      trace_(open_trace(folder, trace_header(run.plan, files.command_line, run.comm),
                        static_cast<int>(run.plan.job.output.trace_every), {run.done(), clock_, restarts},
                        run.comm)),
      progress_(log, static_cast<int>(run.plan.job.solver.iterations)),
      snapshots_(std::make_unique<Snapshots>(folder, run.plan, log, run.comm)),
      checkpoints_(folder, run.plan.job.output.checkpoint, fixed_part(run, files, restarts), run.fields,
                   run.place, clock_, log, run.comm),
      status_(run.comm.rank() == 0, folder.file("status.json"), progress_,
              static_cast<int>(run.plan.job.solver.iterations), run.done(), restarts, run.comm.size()) {
  trace_->flush();
  before_ = traffic(*trace_);
}

RunSummary RunOutput::write_results(const LoopResult& result, bool stopped) {
  const RunPlan& plan = run_.plan;
  RunSummary s;
  s.loop =
      summarize(before_, traffic(*trace_), progress_.seconds(), result.iterations - run_.done(), run_.comm);
  s.psnr = result.last.psnr;
  s.psnr_start = run_.psnr_start;
  if (run_.metrics) s.scored = run_.scored;
  // Who asks for a stop has little time: the image is in the checkpoint.
  if (run_.metrics && !stopped) {
    const PhaseScope phase(Phase::metrics);
    s.psnr = run_.metrics->psnr(result.image, run_.space);
    s.psnr_8bit = run_.metrics->psnr_8bit(result.image, run_.space);
    s.ssim = run_.metrics->ssim(result.image, run_.space);
  }
  s.seconds_per_iteration = result.iterations > run_.done() ? progress_.seconds_per_iteration()
                            : result.iterations > 0         ? result.seconds / result.iterations
                                                            : 0.0;
  s.noise = run_.problem.noise_sigma;
  s.strength = run_.options.lambda;
  s.trial_iterations = run_.trial_iterations;
  s.prox = run_.data->prox_report();
  s.restarts = restarts_;
  s.ranks = run_.comm.size();
  s.checkpoint_bytes = plan.job.output.checkpoint.keep > 0 ? checkpoints_.bytes() : 0;
  s.checkpoint_seconds = checkpoints_.seconds();
  s.transport = kind(*run_.started.transport);
  run_.comm.together([&] { folder_.require_owner(); });
  const bool crop_it = plan.job.output.crop && !plan.truth;
  if (!stopped)
    write_reconstruction(folder_, plan, result.image, crop_it ? run_.scored : plan.image.box, record_,
                         run_.comm);
  return s;
}

void RunOutput::say_results(const RunSummary& s, const LoopResult& result, bool stopped,
                            const std::string& table, const std::vector<std::string>& untraced,
                            const std::vector<std::string>& warnings, std::optional<double> chi2) {
  for (std::size_t r = 0; r < untraced.size(); ++r)
    if (!untraced[r].empty())
      log_.line(fmt::format("note: the trace of rank {} ended before the run did: {}", r, untraced[r]));
  for (const std::string& warning : warnings) log_.line("warning: " + warning);
  if (s.prox.missed > 0)
    log_.line(
        fmt::format("warning: {} of {} data steps ended before their tolerance (solver.prox_iterations is "
                    "{}, the worst left an rms error of {:.2g}): raise it",
                    s.prox.missed, s.prox.calls, run_.plan.job.solver.prox_iterations, s.prox.worst));
  log_.line("");
  log_.line(table);
  if (const double file = *std::max_element(s.loop.scratch_bytes.begin(), s.loop.scratch_bytes.end());
      file > 0)
    log_.line(fmt::format("scratch file of {} per rank; {} read from disks and {} written in each iteration",
                          format_bytes(file), format_bytes(s.loop.read_per_iteration),
                          format_bytes(s.loop.written_per_iteration)));
  std::string last = fmt::format("{} in {} ({} each)", how_it_ended(result, run_.plan.job.solver.iterations),
                                 format_seconds(result.seconds), format_seconds(s.seconds_per_iteration));
  if (run_.metrics) last += fmt::format(", PSNR {:.2f} dB (start {:.2f})", s.psnr, s.psnr_start);
  if (run_.metrics && !stopped && !std::isnan(s.ssim.reflected))  // volumes have none
    last += fmt::format(", SSIM {:.4f}", s.ssim.reflected);
  if (chi2) last += fmt::format(", chi2 {:.3g}", *chi2);
  log_.line(last);
  if (const std::string words = believed(chi2, warnings); !stopped && !words.empty()) log_.line(words);
}

std::string RunOutput::believed(std::optional<double> chi2, const std::vector<std::string>& warnings) const {
  constexpr double kFar = 1.5;
  if (!chi2 || find_solver(run_.plan.job.solver.name).once) return {};
  const std::string noise =
      fmt::format("a noise of {:.3g}{}", run_.problem.noise_sigma, run_.plan.curve.none() ? "" : " of light");
  if (run_.raised > 1)
    return fmt::format(
        "with care: no image explains the data under this operator, so what it gets wrong counts as {}, and "
        "the prior carries "
        "the rest (see the warning at the start)",
        noise);
  if (*chi2 > kFar)
    return fmt::format(
        "not to be trusted yet: the picture leaves {:.2g} times {} unexplained (see the warnings)",
        std::sqrt(*chi2), noise);
  return fmt::format(
      "the picture explains the data to within {}{}: what the operator removed is the prior's word alone",
      noise, warnings.empty() ? "" : ", with the warnings above");
}

int RunOutput::finish(const LoopResult& result) {
  status_.set("writing");
  trace_->flush();
  const bool stopped = result.reason == StopReason::stopped;
  const RunSummary summary = write_results(result, stopped);
  trace_->flush();
  const std::vector<std::string> untraced = run_.comm.gather(trace_->problem(), 0);
  const std::string table = phase_table(*trace_, run_.comm);
  std::vector<std::string> warnings;
  nlohmann::ordered_json json = to_json(summary, result, run_.plan);
  if (run_.plan.job.output.diagnostics && !stopped)
    json["diagnostics"] =
        diagnose(run_.plan, *run_.data, result.image, *run_.denoiser,
                 {.sigma = std::max(result.last.sigma, run_.options.level),
                  .iterations = result.iterations,
                  .moved = result.last.residual,
                  .strength = run_.options.lambda,
                  .stated = !run_.problem.noise_estimated && !run_.problem.noise_replaced,
                  .colored = run_.problem.noise_colored,
                  .compressed = run_.problem.compressed,
                  .clipped = run_.clipped,
                  .gradient = !takes_prox(find_solver(run_.plan.job.solver.name).data_step)},
                 folder_, run_.space, warnings);
  run_.comm.together([&] {
    if (run_.comm.rank() == 0) write_text(folder_.file("summary.json"), json.dump(2) + "\n");
  });
  std::optional<double> chi2;  // of the result, where the noise is known
  if (json.contains("diagnostics"))
    if (auto& judged = json["diagnostics"]; judged["noise_sigma"].is_number() && judged["chi2"].is_number())
      chi2 = judged["chi2"].get<double>();
  say_results(summary, result, stopped, table, untraced, warnings, chi2);
  const std::string kept = result.kept < 0 ? "the start" : concat("the image of iteration ", result.kept + 1);
  diverged_ = result.reason == StopReason::diverged;
  if (diverged_)
    throw RunError(
        concat("the iteration diverged (", result.cause, ") ", kept, " was written; try ",
               find_solver(run_.plan.job.solver.name).bare
                   ? "fewer iterations, or solver.bounds"
                   : "a larger solver.sigma, denoiser.averaging or a smaller solver.step, or fewer "
                     "iterations"));
  if (!result.cause.empty()) log_.line(concat("warning: ", result.cause, ": ", kept, " was written"));
  if (result.ended_by == "rounding")
    log_.line(
        "note: the last iterations moved the image by float32's rounding alone: further ones would change "
        "nothing (solver.stop.rounding: false goes on)");
  if (stopped) return end_stopped();
  const std::string preview = folder_.file(run_.plan.job.output.preview);
  const bool shown = !run_.plan.job.output.preview.empty() && std::filesystem::exists(preview);
  log_.line(concat("results in ", folder_.path(), ": reconstruction.h5",
                   run_.plan.job.output.also.empty() ? "" : ", " + run_.plan.job.output.also,
                   shown ? ", as a picture " + run_.plan.job.output.preview : ""));
  status_.set("finished", name(result.reason));
  return 0;
}

int RunOutput::end_stopped() {
  const int code = StopSignals::exit_code(run_.comm);
  if (!checkpoints_.written())
    throw RunError(
        "the run was stopped and its checkpoint could not be written (see the note above) free "
        "space and resume from the checkpoint before");
  log_.line(fmt::format("checkpoint in {}; 'tessera run {} --resume' goes on from it",
                        folder_.file("checkpoint"), shell_word(folder_.path())));
  status_.set(code == kRequeue ? "waiting" : "stopped",
              code == kRequeue ? "checkpointed after SIGUSR1, to be started again with --resume"
                               : "checkpointed after SIGTERM, Ctrl-C or the like");
  return code;
}

void RunOutput::fail(const std::exception& error) {
  try {
    folder_.require_owner();
  } catch (const RunError&) {
    return;  // it was moved, or is another program's: the error says so, and what to do
  }
  status_.set("failed", reason(error));
  if (!diverged_) log_.line(way_on(folder_));  // else going on would lead to the same end
}

}  // namespace tessera
