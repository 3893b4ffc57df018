// SPDX-License-Identifier: BSD-3-Clause
#include <memory>

#include "command.hpp"
#include "tessera/train/train.hpp"

namespace tessera {

Command train_command(CLI::App& app) {
  const auto job = std::make_shared<std::string>();
  CLI::App* options =
      app.add_subcommand("train", "train a denoiser; goes on where an interrupted training stands");
  options->add_option("JOB", *job, "file with a train section (docs/training.md)")->required();
  options->footer("Example: tessera train color.yaml");
  return {options, [job](const Launch& launch) { return run_train_file(*job, launch.comm); },
          Watched::together};
}

}  // namespace tessera
