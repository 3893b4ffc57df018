// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "run/job_run.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// What a resumed run may change; a section stands for all of its keys. The last ones say where the work is
// done: another number of ranks may need other values.
constexpr const char* kFree[] = {"solver.iterations",
                                 "solver.stop",
                                 "output",
                                 "domain",
                                 "device",
                                 "memory",
                                 "scratch",
                                 "scratch_folder",
                                 "watchdog",
                                 "denoiser.mode",
                                 "denoiser.patch",
                                 "denoiser.batch",
                                 "denoiser.halo_depth"};

bool free_to_change(const std::string& key) {
  return std::any_of(std::begin(kFree), std::end(kFree), [&](const std::string& section) {
    return key == section || key.starts_with(section + '.');
  });
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& p : parts) out += (out.empty() ? "" : ", ") + p;
  return out;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    out.push_back(text.substr(at, end - at));
  return out;
}

std::string weights_file(const RunPlan& plan) {
  const DenoiserConfig& d = plan.job.denoiser;
  if (!plan.network || d.weights == "random") return {};
  return find_weights(d.weights.empty() ? default_weights(d.network, plan.image.channels) : d.weights);
}

}  // namespace

std::optional<Checkpoint> find_checkpoint(const OutputFolder& folder, ResumeMode mode,
                                          const Communicator& comm, std::vector<std::string>& notices) {
  if (mode == ResumeMode::never) return std::nullopt;
  const CheckpointFolder checkpoints(folder.file("checkpoint"));
  double found = comm.rank() == 0 && !checkpoints.list().empty() ? 1 : 0;
  comm.all_reduce({&found, 1}, Reduce::max);
  if (found == 0 && mode == ResumeMode::automatic) return std::nullopt;
  return checkpoints.newest_good(comm, notices);
}

std::string input_sums(const RunPlan& plan) {
  std::string text;
  const auto sum = [&](const std::string& path) {
    const std::string file = path.empty() ? "" : standing_file(path.substr(0, path.rfind(":/")));
    if (!file.empty()) text += sha256(file) + ' ' + file + '\n';
  };
  const ProblemConfig& p = plan.job.problem;
  for (const std::string& path : {p.truth, p.measurements, p.weights, p.dark, p.flat, p.bad.flags,
                                  plan.job.solver.start, weights_file(plan)})
    sum(path);
  for (OperatorConfig part : plan.parts) {
    for (const std::string* file : files_of(part)) sum(*file);
    if (const auto* file = std::get_if<KernelConfig::File>(&part.kernel.form)) sum(file->path);
  }
  return text;
}

void check_same_run(const Checkpoint& checkpoint, const RunPlan& plan, const Communicator& comm) {
  comm.together([&] {
    std::vector<std::string> keys = differing_keys(checkpoint.texts.at("job"), write_job(plan.job));
    std::erase_if(keys, free_to_change);
    TESSERA_VALIDATE(
        keys.empty(), "the job differs from the one in ", checkpoint.path, " in ", joined(keys),
        " (a resumed run may change only solver.iterations, solver.stop, output, domain, device, "
        "memory, scratch, watchdog and the windows of the denoiser) take the change back: 'tessera run ",
        shell_word(plan.job.output.folder),
        " --resume' repeats the job with every --set; or name another output.folder");
    if (comm.rank() != 0) return;
    // The sums alone: shipped weights may lie elsewhere in another build.
    const std::string before = checkpoint.texts.at("inputs");
    for (const std::string& line : lines(input_sums(plan)))
      TESSERA_VALIDATE(
          before.find(line.substr(0, line.find(' '))) != std::string::npos, line.substr(line.find(' ') + 1),
          " has changed since the run began (a resumed run goes on with the same data) bring the old "
          "file back, or name another output.folder");
  });
}

Settings settings_of(const Checkpoint& checkpoint, const JobConfig& asked, const Communicator& comm) {
  JobConfig job = asked;
  std::string changes;
  comm.together([&] {
    const Chosen open = asked.solver.chosen;
    const JobConfig before = parse_job(checkpoint.texts.at("job"), checkpoint.path, {});
    const auto change = [&](const std::string& words) {
      changes += (changes.empty() ? "as before: " : ", ") + words;
    };
    if (open.prior && before.denoiser.network != job.denoiser.network) {
      job = with_denoiser(std::move(job), before.denoiser.network);
      change("denoiser " + before.denoiser.network);
    }
    if (open.solver && before.solver.name != job.solver.name) {
      job = with_solver(std::move(job), before.solver.name, before.solver.iterations);
      change("solver " + before.solver.name);
    }
    if (open.iterations) job.solver.iterations = before.solver.iterations;
    if (const auto chosen = checkpoint.numbers.find("chosen"); chosen != checkpoint.numbers.end())
      job.solver.chosen = Chosen::of(static_cast<int>(chosen->second));
  });
  Settings made{.denoiser = std::move(job.denoiser),
                .solver = std::move(job.solver),
                .likelihood = std::move(job.problem.likelihood),
                .reasons = {}};
  if (!changes.empty()) made.reasons.push_back(changes);
  return made;
}

bool nothing_left(const OutputFolder& folder, const Checkpoint& checkpoint, const JobConfig& job,
                  const Communicator& comm) {
  if (!finished(checkpoint.loop, stop_rule(job))) return false;
  for (const std::string& key : differing_keys(checkpoint.texts.at("job"), write_job(job)))
    if (key.starts_with("output.preview") || key == "output.also" || key == "output.zarr" ||
        key == "output.compression" || key == "output.crop" || key == "output.diagnostics")
      return false;
  double done = 0;
  if (comm.rank() == 0) {
    try {
      const auto summary = nlohmann::json::parse(read_text(folder.file("summary.json")));
      const std::string status = summary.at("status");
      done = (status == "limit" || status == "converged") &&
             summary.at("iterations").get<int>() == checkpoint.loop.iterations;
    } catch (const std::exception&) {
      // The results are still to be written.
    }
  }
  comm.all_reduce({&done, 1}, Reduce::max);
  return done > 0;
}

void keep_choices(const Checkpoint& checkpoint, RunPlan& plan, const Communicator& comm) {
  if (checkpoint.numbers.at("ranks") != comm.size()) return;
  const auto keep = [&](const char* key, std::optional<std::int64_t>& value) {
    const auto found = checkpoint.numbers.find(key);
    if (!value && found != checkpoint.numbers.end()) value = static_cast<std::int64_t>(found->second);
  };
  ExecutionMode& mode = plan.job.execution.mode;
  if (mode == ExecutionMode::automatic && checkpoint.numbers.contains("halo_depth")) {
    mode = ExecutionMode::layer;
    if (!plan.grid_given) plan = with_image(plan, plan.image.box, comm.size());
  }
  if (mode == ExecutionMode::automatic && checkpoint.numbers.contains("patch") && plan.network &&
      !plan.network->graph.global())  // whole, on one rank, is one window
    mode = ExecutionMode::patch;
  if (mode == ExecutionMode::layer) {
    keep("halo_depth", plan.job.execution.halo_depth);
  } else {
    keep("patch", plan.job.execution.patch);
    keep("batch", plan.job.execution.batch);
  }
}

int restarts_so_far(const OutputFolder& folder, const Checkpoint& checkpoint, const Communicator& comm) {
  double restarts = checkpoint.numbers.at("restarts");
  if (comm.rank() == 0) {
    try {
      const auto status = nlohmann::json::parse(read_text(folder.file("status.json")));
      restarts = std::max(restarts, status.at("restarts").get<double>());
    } catch (const std::exception&) {
      // A folder that was copied without it.
    }
  }
  comm.all_reduce({&restarts, 1}, Reduce::max);
  return static_cast<int>(restarts);
}

std::string way_on(const OutputFolder& folder) {
  const std::vector<std::string> all = CheckpointFolder(folder.file("checkpoint")).list();
  if (all.empty()) return "no checkpoint was written: to run again, add --force";
  return concat("'tessera run ", shell_word(folder.path()), " --resume' goes on from ",
                fs::path(all.front()).filename().string());
}

Checkpointer::Checkpointer(const OutputFolder& folder, const CheckpointConfig& config, Checkpoint fixed,
                           std::vector<StateField> fields, const CheckpointPlace& place, double clock,
                           Log& log, const Communicator& comm)
    : folder_(folder),
      checkpoints_(folder.file("checkpoint")),
      config_(config),
      fixed_(std::move(fixed)),
      fields_(std::move(fields)),
      place_(place),
      clock_(clock),
      log_(log),
      comm_(comm),
      bytes_(checkpoint_bytes(fields_, place.image)) {}

bool Checkpointer::wants_rest(int k) {
  if (config_.keep == 0 || asked_) return false;
  const bool by_count =
      config_.iterations > 0 && (k + 2) % config_.iterations == 0;  // the rest is a step later
  const bool by_time = comm_.rank() == 0 && config_.minutes > 0 && now() - last_ >= 60 * config_.minutes;
  return asked_ = by_count || by_time;
}

void Checkpointer::at_rest(const LoopState& state) {
  if (config_.keep == 0) return;
  const double begin = now();
  fixed_.loop = state;
  fixed_.lists["clock"] = comm_.all_gather(clock_ + begin);  // of each rank: programs do not start at once
  asked_ = written_ = false;
  try {
    write_checkpoint(checkpoints_.file(state.iterations), fixed_, fields_, place_, comm_,
                     [&] { folder_.require_owner(); });
    written_ = true;
  } catch (const Error& e) {
    if (!e.everywhere) throw;  // else the run is worth more than one checkpoint
    log_.line(fmt::format("note: the checkpoint after {} iterations could not be written: {}",
                          state.iterations, e.what()));
  }
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    folder_.require_owner();
    if (written_) checkpoints_.prune(config_.keep);
  });
  last_ = now();
  seconds_ = last_ - begin;
}

}  // namespace tessera
