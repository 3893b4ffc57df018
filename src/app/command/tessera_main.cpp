// SPDX-License-Identifier: BSD-3-Clause
// The command line, and what happens to errors: every rank ends with the same exit code, and nothing hangs.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "command/command.hpp"
#include "tessera/app/commands.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/app/signals.hpp"
#include "tessera/comm/launch.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/reason.hpp"
#include "tessera/core/units.hpp"
#include "tessera/core/version.hpp"

namespace tessera {
namespace {

constexpr int kBadInput = 2, kFailed = 3;
constexpr double kPatience = 5;  // seconds that a failing rank waits for the others to fail too

// An error that all ranks have: rank 0 says it, all return the code. One that only some have: these say it
// and end the job.
int end_together(const Communicator& comm, const Communicator& errors, const std::string& message, int code) {
  // The first rank that exits makes a launcher end the others by SIGTERM: their exit code is this one too.
  std::signal(SIGTERM, SIG_IGN);
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
    wait_until_read();
  }
  if (!all) comm.abort(code);
  return code;  // MPI's end waits for all, and so for what rank 0 has said
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

// What is wrong with the command line. The library asks for a command where an unknown one is given.
std::string misunderstood(const CLI::ParseError& error, const CLI::App& app, const std::string& first) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const bool known = std::find(names.begin(), names.end(), first) != names.end();
  if (known || first.empty() || first.starts_with('-'))
    return concat(error.what(), " (the command line is not understood) see tessera --help");
  const std::string near = nearest(first, names);
  return fmt::format("there is no command {} (they are {}) {}", first, fmt::join(names, ", "),
                     near.empty() ? "see tessera --help" : "did you mean " + near + '?');
}

}  // namespace

int tessera_main(int argc, char** argv, const Communicator& comm) {
  std::set_terminate(give_up);
  const EndSignals signals(comm.rank() ==
                           0);  // runs and trainings listen themselves, once they have something to save
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
  std::vector<Command> commands;
  for (const auto& add : {run_command, check_command, simulate_command, denoise_command, compare_command,
                          convert_command, probe_command, scene_command, plan_command, tune_command,
                          train_command, status_command, study_command, info_command})
    commands.push_back(add(app));
  for (CLI::App* sub : app.get_subcommands({})) sub->fallthrough();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return comm.rank() == 0 ? app.exit(e) : 0;  // --help, --version
    return end_together(comm, errors, misunderstood(e, app, argc > 1 ? argv[1] : ""), kBadInput);
  }
  if (const ForeignLaunch foreign = foreign_launch(comm.size()); !foreign.problem.empty()) {
    if (foreign.first) std::fprintf(stderr, "tessera: %s\n", foreign.problem.c_str());
    return kBadInput;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error like a full disk
  try {
    Launch launch{comm, {}};
    for (int i = 0; i < argc; ++i) launch.command_line += (i ? " " : "") + std::string(argv[i]);
    for (const Command& command : commands) {
      if (!*command.options) continue;
      std::unique_ptr<Watchdog> watchdog;
      if (command.watched == Watched::always || (command.watched == Watched::together && comm.size() > 1))
        watchdog = watch(comm);
      launch.watchdog = watchdog.get();
      return command.run(launch);
    }
  } catch (const InputError& e) {
    return end_together(comm, errors, e.what(), kBadInput);
  } catch (const std::exception& e) {
    return end_together(comm, errors, reason(e) + where(), kFailed);
  }
  return kBadInput;
}

}  // namespace tessera
