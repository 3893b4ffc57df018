// SPDX-License-Identifier: BSD-3-Clause
// The command line, and what happens to errors: every rank ends with the same exit code, and nothing hangs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>

#include "tessera/app/commands.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/reason.hpp"
#include "tessera/core/units.hpp"
#include "tessera/core/version.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/train/train.hpp"

namespace tessera {
namespace {

constexpr int kBadInput = 2, kFailed = 3;
constexpr double kPatience = 5;  // seconds that a failing rank waits for the others to fail too
constexpr double kHangs = 300;   // seconds without progress, where no job says it

// An error that all ranks have: rank 0 says it, all return the code. One that only some have: these say it
// and end the job.
int end_together(const Communicator& comm, const Communicator& errors, const std::string& message, int code) {
  bool all = true;
  if (errors.size() > 1) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = MPI_Ibarrier(errors.handle(), &request) != MPI_SUCCESS;
    for (const double start = now(); !done && now() - start < patience(kPatience); usleep(1000))
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    all = done != 0;
  }
  if (comm.rank() == 0 || !all) {
    if (code == kBadInput)
      std::fprintf(stderr, "tessera: %s\n", message.c_str());
    else
      std::fprintf(stderr, "tessera: rank %d failed: %s\n", comm.rank(), message.c_str());
  }
  if (!all) comm.abort(code);
  return code;
}

std::string where() {
  const Heartbeat h = heartbeat();
  if (h.iteration < 0) return concat(" (in ", name(h.phase), ", outside the iterations)");
  return concat(" (in ", name(h.phase), ", iteration ", h.iteration, ")");
}

// An exception that nobody could catch, mostly for want of memory: nothing here may need any.
[[noreturn]] void give_up() {
  int rank = 0;
  if (mpi_running()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* why = "an error inside an error";
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    why = "there is not enough memory";
  } catch (...) {
  }
  char line[128];
  const int length = std::snprintf(line, sizeof line, "tessera: rank %d failed: %s\n", rank, why);
  [[maybe_unused]] const auto said = write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  if (mpi_running()) MPI_Abort(MPI_COMM_WORLD, kFailed);
  std::_Exit(kFailed);
}

// From the start to the end of a command whose ranks wait for each other.
std::unique_ptr<Watchdog> watch(const Communicator& comm) {
  std::unique_ptr<Watchdog> watchdog;
  try {
    watchdog = std::make_unique<Watchdog>(comm, kHangs);
  } catch (const Error& e) {
    if (!e.everywhere) throw;
    if (comm.rank() == 0) std::fprintf(stderr, "tessera: note: nobody sees ranks that hang: %s\n", e.what());
  }
  return watchdog;
}

// The library's own says 'not in range [2.2e-308, ...' in 309 digits.
CLI::Validator above_zero() {
  return {[](std::string& text) -> std::string {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            return *end == '\0' && value > 0 ? "" : text + " is not above 0";
          },
          "above 0"};
}

// One of these words, as for keys of a job.
CLI::Validator one_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& w : words) list += (list.empty() ? "" : " | ") + w;
  return {[words, list](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return "";
            const std::string near = nearest(text, words);
            return text + " is none of " + list + (near.empty() ? "" : "; did you mean " + near + "?");
          },
          list};
}

std::vector<std::string> denoiser_names() {
  std::vector<std::string> names;
  for (const DenoiserRow& row : denoiser_table()) names.push_back(row.name);
  return names;
}

}  // namespace

int tessera_main(int argc, char** argv, const Communicator& comm) {
  std::set_terminate(give_up);
  const Communicator errors = comm.duplicate();
  know_choices();
  CLI::App app{
      "tessera: plug-and-play reconstruction of distributed images\n\nExamples:\n"
      "  jobs/launch.sh -n 4 tessera run photo.yaml\n"
      "  tessera run photo.yaml --set solver.iterations=50 --set output.folder=runs/long\n"
      "  tessera denoise noisy.png clean.png --sigma 0.1\n"
      "  tessera check photo.yaml --ranks 64\n"
      "  tessera plan photo.yaml --ranks 1,8,64 --machine h200-nvlink-infiniband\n"
      "  jobs/launch.sh -n 4 tessera tune photo.yaml\n"
      "  tessera compare runs/a/reconstruction.h5 photo.png\n",
      "tessera"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(version()) + " (" + commit() + ")");
  RunArguments run;
  for (int i = 0; i < argc; ++i) run.command_line += (i ? " " : "") + std::string(argv[i]);
  CheckArguments check;
  SimulateArguments simulate;
  DenoiseArguments denoise;
  CompareArguments compare;
  StatusArguments status;
  SceneArguments scene;
  PlanArguments plan;
  TuneArguments tune;

  CLI::App* c_run = app.add_subcommand("run", "reconstruct, under mpirun or srun (jobs/launch.sh)");
  c_run
      ->add_option(
          "JOB", run.job,
          "job file (docs/job_file.md); to resume, also the run's output folder, which knows its job")
      ->required();
  c_run->add_option("--set", run.overrides, "key.path=value, over the job file; may be repeated");
  c_run->add_flag("--force", run.force, "write into an output folder that holds something");
  c_run->add_flag("--resume{always}", run.resume,
                  "go on from the newest good checkpoint; --resume=auto: if there is one, else start");
  c_run->footer(
      "Exit codes: 0 done; 2 bad input; 3 failed; 85 checkpointed after SIGUSR1, 86 after SIGTERM or Ctrl-C\n"
      "Examples: jobs/launch.sh -n 2 tessera run photo.yaml --set solver.iterations=30\n"
      "          tessera run runs/photo --resume --set solver.iterations=60");

  CLI::App* c_check = app.add_subcommand(
      "check", "validate a job; print blocks, halos, memory and bytes per iteration; runs nothing");
  c_check->add_option("JOB", check.job, "job file")->required();
  c_check->add_option("--set", check.overrides, "key.path=value");
  c_check->add_option("--ranks", check.ranks, "as if on so many ranks")->check(above_zero());
  c_check->footer("Example: tessera check photo.yaml --ranks 16");

  CLI::App* c_sim = app.add_subcommand("simulate", "make measurements only");
  c_sim->add_option("JOB", simulate.job, "job file with problem.truth")->required();
  c_sim->add_option("OUT", simulate.out, "measurement file (.h5)")->required();
  c_sim->add_option("--set", simulate.overrides, "key.path=value");
  c_sim->add_flag("--force", simulate.force, "overwrite OUT");
  c_sim->footer("Example: tessera simulate photo.yaml y.h5");

  CLI::App* c_den = app.add_subcommand("denoise", "one pass over an image");
  c_den->add_option("IN", denoise.in, "picture, FITS, .npy or HDF5")->required();
  c_den->add_option("OUT", denoise.out, "picture or HDF5, in the type and units of IN")->required();
  const std::vector<std::string> devices = {"auto", "cpu", "cuda"};
  c_den->add_option("--network", denoise.network, "the denoiser")
      ->capture_default_str()
      ->check(one_of(denoiser_names()));
  c_den->add_option("--weights", denoise.weights,
                    "shipped name or path (default: the shipped ones of the network)");
  c_den->add_option("--sigma", denoise.sigma, "noise level, image range [0, 1]")->required();
  c_den->add_option("--unit", denoise.unit, "of --sigma and --noise: internal | file (the units of IN)")
      ->check(one_of({"internal", "file"}))
      ->capture_default_str();
  c_den->add_option("--noise", denoise.noise, "add Gaussian noise of this deviation first, and score");
  c_den->add_option("--seed", denoise.seed, "of the noise")->capture_default_str();
  c_den->add_option("--mode", denoise.mode, "how a network runs")
      ->capture_default_str()
      ->check(one_of({"auto", "whole", "patch", "layer"}));
  c_den->add_option("--patch", denoise.patch, "a window has at most patch x patch pixels without its halo");
  c_den->add_option("--averaging", denoise.averaging, "over flips and turns")
      ->capture_default_str()
      ->check(one_of({"none", "flips", "all"}));
  c_den->add_option("--precision", denoise.precision, "of a network")
      ->check(one_of({"float32", "tf32", "bfloat16", "float16"}))
      ->capture_default_str();
  c_den->add_option("--device", denoise.device, "where")->capture_default_str()->check(one_of(devices));
  c_den->add_flag("--force", denoise.force, "overwrite OUT");
  c_den->footer("Example: tessera denoise photo.png out.png --sigma 0.1 --noise 0.1");

  CLI::App* c_cmp = app.add_subcommand("compare", "PSNR, SSIM, maximum error of two images");
  c_cmp->add_option("A", compare.a, "reference")->required();
  c_cmp->add_option("B", compare.b, "compared with it")->required();
  c_cmp->add_option("--range", compare.range, "divide both by this (default: each by its full scale)");
  c_cmp->footer("Example: tessera compare photo.png runs/photo/reconstruction.png");

  ProbeArguments probe;
  CLI::App* c_probe = app.add_subcommand(
      "probe", "how much a job's network stretches small changes of an image (docs/metrics.md)");
  c_probe->add_option("JOB", probe.job, "job file")->required();
  c_probe->add_option("--set", probe.overrides, "key.path=value");
  c_probe->add_option("--image", probe.image, "at this image (default: at the truth and at the start)");
  c_probe->add_option("--sigma", probe.sigmas, "noise levels, such as 0.01,0.05 (default: the job's)")
      ->delimiter(',');
  c_probe->add_option("--passes", probe.passes, "of the power iteration")
      ->capture_default_str()
      ->check(above_zero());
  c_probe->add_option("--starts", probe.starts, "changes to begin with: D(x) - x, then random ones")
      ->capture_default_str()
      ->check(above_zero());
  c_probe->add_option("--iterations", probe.iterations, "of x <- D(x), with gains on the way; 0: none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c_probe->footer("Example: tessera probe photo.yaml --image runs/photo/reconstruction.h5 --sigma 0.02,0.05");

  CLI::App* c_scene = app.add_subcommand(
      "scene", "a synthetic picture of any size; the same that problem.truth.scene gives in a job");
  c_scene->add_option("OUT", scene.out, "picture or HDF5")->required();
  c_scene->add_option("--size", scene.size, "rows x columns, for example 2048x3072")->required();
  c_scene->add_option("--seed", scene.seed, "another seed, another picture")->capture_default_str();
  c_scene->add_option("--channels", scene.channels, "1: gray, 3: color")->capture_default_str();
  c_scene->add_flag("--force", scene.force, "overwrite OUT");
  c_scene->footer("Example: tessera scene scene.png --size 2048x3072 --seed 1");

  CLI::App* c_plan = app.add_subcommand(
      "plan", "predicted time, memory and efficiency on pretended ranks of a machine; runs nothing");
  c_plan->add_option("JOB", plan.job, "job file")->required();
  c_plan->add_option("--set", plan.overrides, "key.path=value");
  c_plan
      ->add_option("--ranks", plan.ranks,
                   "numbers of ranks, such as 1,4,16 (default: 1 to 8; scaling: 1 to 1024)")
      ->delimiter(',')
      ->check(above_zero());
  c_plan->add_option(
      "--machine", plan.machine,
      "machine file, or a supplied one: a100-, b200-, h100- or h200-nvlink-infiniband, v100 (default: "
      "measured here)");
  c_plan
      ->add_option("--threads", plan.threads,
                   "per rank, on this computer (default: its cores over the ranks, as jobs/launch.sh)")
      ->check(above_zero());
  c_plan->add_option("--precision", plan.precisions, "over the job's, such as float32,bfloat16")
      ->delimiter(',');
  c_plan->add_flag("--strong", plan.strong, "strong scaling of square images");
  c_plan->add_flag("--weak", plan.weak, "weak scaling: a square of the first size per rank");
  c_plan->add_option("--sizes", plan.sizes, "sides of those images (default: 2048 to 65536)")
      ->delimiter(',')
      ->check(above_zero());
  c_plan->add_option("--csv", plan.csv, "write the rows to this file too");
  c_plan->footer(
      "Examples: tessera plan photo.yaml --ranks 1,2,4,8\n"
      "          tessera plan photo.yaml --machine h200-nvlink-infiniband --strong --sizes 4096 --csv "
      "strong.csv");

  CLI::App* c_tune = app.add_subcommand(
      "tune",
      "measure the best mode, patch, batch, halo depth and transport of a job on the ranks of this launch");
  c_tune->add_option("JOB", tune.job, "job file")->required();
  c_tune->add_option("--set", tune.overrides, "key.path=value");
  c_tune->add_option("--seconds", tune.seconds, "measured per candidate, about")
      ->capture_default_str()
      ->check(above_zero());
  c_tune->add_option("--candidates", tune.candidates, "measured at most")
      ->capture_default_str()
      ->check(above_zero());
  c_tune->add_option("--machine", tune.machine, "write the measured machine to this file, for tessera plan");
  c_tune->add_flag("--only-machine", tune.only_machine, "measure the machine and stop");
  c_tune->footer("Example: jobs/launch.sh -n 4 tessera tune photo.yaml");

  std::string train_job;
  CLI::App* c_train =
      app.add_subcommand("train", "train a denoiser; goes on where an interrupted training stands");
  c_train->add_option("JOB", train_job, "file with a train section (docs/training.md)")->required();
  c_train->footer("Example: tessera train color.yaml");

  CLI::App* c_status =
      app.add_subcommand("status", "how runs stand, from their output folders alone, also while they run");
  c_status->add_option("RUN", status.runs, "output folder of a run, or a folder that holds some")->required();
  c_status->add_flag("--json", status.json, "one JSON object per run");
  c_status->add_flag("--watch", status.watch, "again and again, until none runs or waits any more");
  c_status->footer("Example: tessera status runs/photo runs/long --watch");

  StudyArguments study;
  study.command_line = run.command_line;
  CLI::App* c_study = app.add_subcommand("study", "measure one question about this machine");
  c_study
      ->add_option("NAME", study.name,
                   "shape | batch | layers | kernels | precision | halo (docs/performance.md)")
      ->required();
  c_study->add_flag("--quick", study.quick, "smaller sizes, for CPUs");
  c_study->add_option("--scale", study.scale, "divide the sizes by this (quick: 8)")->check(above_zero());
  c_study->add_option("--out", study.out, "folder of the rows (study-NAME)");
  c_study->add_option("--network", study.networks,
                      "of shape and batch; may be repeated (drunet, unet, dncnn)");
  c_study->add_option("--image", study.images, "of precision: pictures; may be repeated (a synthetic scene)");
  c_study->add_option("--weights", study.weights, "of precision, for drunet (drunet_small_color)");
  c_study->add_option("--device", study.device, "where")->capture_default_str()->check(one_of(devices));
  c_study->footer(
      "Examples:\n  tessera study shape --quick --out runs/shape && jobs/plot_study.py runs/shape\n"
      "  tessera study precision --image photo.png\n  jobs/launch.sh -n 4 tessera study halo --quick");

  CLI::App* c_info = app.add_subcommand("info", "versions, devices, MPI, NCCL, CPU features");
  for (CLI::App* sub : app.get_subcommands({})) sub->fallthrough();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return comm.rank() == 0 ? app.exit(e) : 0;  // --help, --version
    return end_together(comm, errors,
                        concat(e.what(), " (the command line is not understood) see tessera --help"),
                        kBadInput);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error like a full disk
  try {
    std::unique_ptr<Watchdog> watchdog;
    const bool meets = *c_sim || *c_den || *c_probe || *c_tune || *c_train || *c_study;
    if (*c_run || (meets && comm.size() > 1)) watchdog = watch(comm);
    run.watchdog = watchdog.get();
    if (*c_run) return run_command(run, comm);
    if (*c_check) return check_command(check, comm);
    if (*c_sim) return simulate_command(simulate, comm);
    if (*c_den) return denoise_command(denoise, comm);
    if (*c_cmp) return compare_command(compare, comm);
    if (*c_probe) return probe_command(probe, comm);
    if (*c_scene) return scene_command(scene, comm);
    if (*c_plan) return plan_command(plan, comm);
    if (*c_tune) return tune_command(tune, comm);
    if (*c_train) return run_train_file(train_job, comm);
    if (*c_status) return status_command(status, comm);
    if (*c_study) return study_command(study, comm);
    if (*c_info) return info_command(comm);
  } catch (const InputError& e) {
    return end_together(comm, errors, e.what(), kBadInput);
  } catch (const std::exception& e) {
    return end_together(comm, errors, reason(e) + where(), kFailed);
  }
  return kBadInput;
}

}  // namespace tessera
