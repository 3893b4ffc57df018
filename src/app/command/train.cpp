// SPDX-License-Identifier: BSD-3-Clause
// tessera train: trains a denoiser; stopped by signals as runs are.
#include <memory>

#include "command/command.hpp"
#include "run/folder_owner.hpp"
#include "tessera/app/signals.hpp"
#include "tessera/train/train.hpp"

namespace tessera {
namespace {

int execute(const std::string& job, const Launch& launch) {
  const Communicator& comm = launch.comm;
  const StopSignals signals(comm.rank() == 0);
  if (launch.watchdog) launch.watchdog->set(kHangs, "");  // before these handlers of signals
  std::unique_ptr<FolderOwner> owner;
  return run_train_file(job, comm, [&](TrainOptions& options) {
    comm.together([&] {
      if (comm.rank() == 0 && options.steps > 0 && !options.output.empty())
        owner = std::make_unique<FolderOwner>(options.output, "train.output");
    });
    options.stop = [&comm] { return StopSignals::exit_code(comm); };
    options.may_save = [&owner] {
      if (owner) owner->require();
    };
  });
}

}  // namespace

Command train_command(CLI::App& app) {
  const auto job = std::make_shared<std::string>();
  CLI::App* options =
      app.add_subcommand("train", "train a denoiser; goes on where an interrupted training stands");
  options->add_option("JOB", *job, "file with a train section (docs/training.md)")->required();
  options->footer(
      "Exit codes: 0 done; 2 bad input; 3 failed; 85 saved after SIGUSR1 or train.minutes, 86 after SIGTERM "
      "or Ctrl-C\n"
      "Example: tessera train color.yaml");
  return {options, [job](const Launch& launch) { return execute(*job, launch); }, Watched::together};
}

}  // namespace tessera
