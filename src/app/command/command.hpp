// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "job/load_job.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/watchdog.hpp"
#include "tessera/core/words.hpp"

namespace tessera {

/// What a command is started with, beside its own options.
struct Launch {
  const Communicator& comm;
  std::string command_line;
  Watchdog* watchdog = nullptr;  // where one watches: its limit may be changed
};

constexpr double kHangs = 300;  // seconds without progress that end a job, where the job does not say it

/// Whether somebody watches for ranks that hang.
enum class Watched { never, together, always };  // together: where there are several

/// One command of the program: its options, which have been added to the program's, and what it does.
struct Command {
  CLI::App* options;
  /// Collective. The exit code; throws InputError or RunError.
  std::function<int(const Launch&)> run;
  Watched watched;
};

// Each is one file.
Command run_command(CLI::App& app);
Command check_command(CLI::App& app);
Command simulate_command(CLI::App& app);
Command denoise_command(CLI::App& app);
Command compare_command(CLI::App& app);
Command convert_command(CLI::App& app);
Command probe_command(CLI::App& app);
Command scene_command(CLI::App& app);
Command plan_command(CLI::App& app);
Command tune_command(CLI::App& app);
Command train_command(CLI::App& app);
Command status_command(CLI::App& app);
Command study_command(CLI::App& app);
Command info_command(CLI::App& app);

/// What a run would say of the job and of its data, for commands that keep no log: rank 0 prints it.
void say_notices(const RunPlan& plan, const Problem& problem, const Communicator& comm);

// Validators, with messages that say what else could be written.
CLI::Validator above_zero();
CLI::Validator one_of(const std::vector<std::string>& words);
/// An option whose value is one word of an enum, or of `some` of them.
template <class E>
CLI::Option* add_word(CLI::App* app, const std::string& option, E& value, const std::string& meaning,
                      const std::vector<std::string>& some = words<E>()) {
  return app
      ->add_option_function<std::string>(
          option, [&value](const std::string& text) { value = *from_word<E>(text); }, meaning)
      ->default_str(word(value))
      ->check(one_of(some));
}

}  // namespace tessera
