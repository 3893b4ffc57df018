// SPDX-License-Identifier: BSD-3-Clause
// tessera run: plans, builds, iterates, writes.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>

#include "command/command.hpp"
#include "run/job_run.hpp"
#include "run/run_output.hpp"
#include "tessera/app/memory_plan.hpp"
#include "tessera/app/signals.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/domain/torch_cuda.hpp"
#include "tessera/io/keep_open.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  std::string job;
  std::vector<std::string> overrides;
  bool force = false;
  std::string resume;  // "": start; always; auto
};

// A signal came before the first iteration; on all ranks.
struct StoppedEarly {
  int code;
};

// Of the command line: "", "always", "auto".
ResumeMode resume_mode(const std::string& text) {
  if (text.empty()) return ResumeMode::never;
  if (text == "auto") return ResumeMode::automatic;
  TESSERA_VALIDATE(text == "always", "--resume=", text, " (no such way) write --resume or --resume=auto");
  return ResumeMode::always;
}

// Turns the output folder of a run, in place of a job file, into the job that it keeps, every --set of its start
// included; a job file stays. Whether it did. Collective; InputError.
bool open_run_folder(std::string& job, std::vector<std::string>& overrides, ResumeMode mode,
                     const Communicator& comm) {
  std::string folder;
  comm.together([&] {
    std::error_code none;
    if (comm.rank() != 0 || !fs::is_directory(job, none)) return;
    folder = fs::canonical(job);
    TESSERA_VALIDATE(mode != ResumeMode::never, job,
                     " is a folder (a run begins with a job file) go on with the run in it by --resume");
    TESSERA_VALIDATE(fs::exists(folder + kKeptJob, none), job, " keeps no job (there is no ", folder,
                     kKeptJob, ") name the job file, with every --set that it was started with");
  });
  folder = comm.broadcast(folder, 0);
  if (folder.empty()) return false;
  job = folder + kKeptJob;
  overrides.insert(overrides.begin(),
                   "output.folder='" + std::regex_replace(folder, std::regex("'"), "''") + "'");
  return true;
}

OutputFolder::Use folder_use(bool force, ResumeMode mode) {
  using Use = OutputFolder::Use;
  if (mode == ResumeMode::automatic) return Use::automatic;
  return force ? Use::force : mode == ResumeMode::always ? Use::resume : Use::fresh;
}

// Everything about the run but its pixels; nothing where none is left to do.
std::optional<RunPlan> plan_or_finish(const JobConfig& job, const std::optional<Checkpoint>& from,
                                      const OutputFolder& folder, RunFiles& files, const Communicator& comm) {
  RunPlan plan = plan_run(job, comm, comm.size());
  if (from) {
    if (const Settings made = settings_of(*from, job, comm); !made.same(plan.settings))
      plan = with_settings(plan, made, comm);
    else
      plan.settings = made;
    check_same_run(*from, plan, comm);
    if (nothing_left(folder, *from, plan.job, comm)) {
      if (comm.rank() == 0)
        std::printf("%s is finished after %d iterations: nothing to do (%s to go on)\n",
                    folder.path().c_str(), from->loop.iterations,
                    from->loop.stood ? "solver.stop.rounding: false" : "raise solver.iterations");
      return std::nullopt;
    }
    keep_choices(*from, plan, comm);
  }
  require_also(plan);
  preview_form(plan);  // refuses what cannot be written, before anything starts
  choose_execution(plan, comm, this_launch(comm));
  comm.together([&] {
    if (comm.rank() == 0) files.inputs = from ? from->texts.at("inputs") : input_sums(plan);
  });
  return plan;
}

int execute(const RunArguments& arguments, const Launch& launch) {
  const Communicator& comm = launch.comm;
  Recorder recorder;
  const Recorder::Entered recording(recorder);
  track_tensor_memory();
  const ResumeMode mode = resume_mode(arguments.resume);
  TESSERA_VALIDATE(!arguments.force || mode == ResumeMode::never,
                   "--force stands beside --resume (one starts over, the other goes on) leave one out");
  std::string path = arguments.job;
  std::vector<std::string> overrides = arguments.overrides;
  std::optional<KeepOpen> reading(std::in_place);  // until the iteration
  const bool from_folder = open_run_folder(path, overrides, mode, comm);
  const JobConfig job = load_job(path, overrides, comm);
  TESSERA_VALIDATE(!job.output.folder.empty(),
                   "output.folder is not given (a run writes its results there) add for example "
                   "'output: {folder: runs/photo}'");
  std::optional<StopSignals> signals;
  if (job.output.checkpoint.keep > 0) signals.emplace(comm.rank() == 0);
  const auto watch = [&](const std::string& words) {
    if (launch.watchdog) launch.watchdog->set(job.watchdog, words);
  };
  watch("");
  // Asked where ranks meet anyway: until the first iteration there is nothing to save.
  const auto pause = [&] {
    if (const int code = signals ? StopSignals::exit_code(comm) : 0; code != 0) throw StoppedEarly{code};
  };

  OutputFolder folder(job.output.folder, folder_use(arguments.force, mode), comm);
  RunFiles files{.text = from_folder ? "" : job.text, .command_line = launch.command_line};
  std::optional<Checkpoint> from = find_checkpoint(folder, mode, comm, files.damaged);
  try {
    std::optional<RunPlan> plan = plan_or_finish(job, from, folder, files, comm);
    if (!plan) return 0;
    pause();
    if (const int device = plan->device.index; plan->device.is_cuda())
      set_device_clock(make_device_clock(plan->device, [device] { return current_stream(device); }));
    std::string laid;
    const std::unique_ptr<ScratchScope> scratch = open_scratch(*plan, comm, laid);
    Measured measured =
        measure(*std::move(plan), from ? SettingsFrom::checkpoint : SettingsFrom::data, comm, pause);
    files.asked = write_job(with_settings(job, measured.plan.settings));
    if (!laid.empty()) measured.plan.notices.push_back(laid);
    JobRun run(std::move(measured), std::move(from), comm, pause);
    const int restarts = make_run_folder(folder, run, files);
    watch(folder.file(fmt::format("log/rank-{}.txt", comm.rank())));
    Log log(comm.rank() == 0, folder.file("log.txt"));
    say_start(log, folder, run, files);
    RunOutput output(folder, run, log, files, restarts);
    reading.reset();
    try {
      return output.finish(run.iterate(output.observers(), signals ? &StopSignals::seen : nullptr));
    } catch (const std::exception& e) {
      output.fail(e);
      throw;
    }
  } catch (const StoppedEarly& stop) {
    if (comm.rank() == 0) std::printf("stopped by a signal before the first iteration: nothing to save\n");
    return stop.code;
  }
}

}  // namespace

Command run_command(CLI::App& app) {
  const auto a = std::make_shared<RunArguments>();
  CLI::App* options = app.add_subcommand("run", "reconstruct, under mpirun or srun (jobs/launch.sh)");
  options
      ->add_option(
          "JOB", a->job,
          "job file (docs/job_file.md); to resume, also the run's output folder, which knows its job")
      ->required();
  options->add_option("--set", a->overrides, "key.path=value, over the job file; may be repeated");
  options->add_flag("--force", a->force, "write into an output folder that holds something");
  options->add_flag("--resume{always}", a->resume,
                    "go on from the newest good checkpoint; --resume=auto: if there is one, else start");
  options->footer(
      "Exit codes: 0 done; 2 bad input; 3 failed; 85 checkpointed after SIGUSR1, 86 after SIGTERM or Ctrl-C\n"
      "Examples: jobs/launch.sh -n 2 tessera run photo.yaml --set solver.iterations=30\n"
      "          tessera run runs/photo --resume --set solver.iterations=60");
  return {options, [a](const Launch& launch) { return execute(*a, launch); }, Watched::always};
}

}  // namespace tessera
