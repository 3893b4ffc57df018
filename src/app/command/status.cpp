// SPDX-License-Identifier: BSD-3-Clause
// tessera status: how runs stand, from their folders alone.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "command/command.hpp"
#include "tessera/app/run_status.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/io/files.hpp"
#include "tessera/solve/checkpoint.hpp"

namespace tessera {
namespace {

struct StatusArguments {
  std::vector<std::string> runs;
  bool json = false, watch = false;
};

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Silence that means a lost run, where its process cannot be looked at: many times what is normal, since file
// systems and clocks of other machines lag.
constexpr double kLost = 12 * RunStatus::kInterval;

// Seconds since the file was written; by its own time and by the file system's, whichever is later.
double age(const std::string& path, const Json& status) {
  struct stat about {};
  double last = status.at("updated").get<double>();
  if (::stat(path.c_str(), &about) == 0) last = std::max(last, static_cast<double>(about.st_mtime));
  return static_cast<double>(std::time(nullptr)) - last;
}

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "status.json", none) || fs::exists(folder / "summary.json", none);
}

// The runs in a folder of runs (a sweep, a study, all of them); 10 stands behind 9.
void find_runs(const fs::path& folder, int depth, std::vector<std::string>& out) {
  std::vector<fs::path> inside;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (!entry.is_directory(none)) continue;
    // A neighbor by another name: the number of an array of Slurm.
    if (entry.is_symlink(none) &&
        fs::canonical(entry.path(), none).parent_path() == fs::canonical(folder, none))
      continue;
    inside.push_back(entry.path());
  }
  std::sort(inside.begin(), inside.end(), [](const fs::path& a, const fs::path& b) {
    return ::strverscmp(a.filename().c_str(), b.filename().c_str()) < 0;
  });
  for (const fs::path& path : inside) {
    if (is_run(path))
      out.push_back(path.string());
    else if (depth > 1)
      find_runs(path, depth - 1, out);
  }
}

std::string field(const Json& j, const char* key, const std::string& format) {
  if (!j.contains(key) || j[key].is_null()) return "-";
  return fmt::format(fmt::runtime(format), j[key].get<double>());
}

std::string line(const Json& j) {
  std::string progress = "-", left = "-";
  if (j.contains("iteration")) {
    const int done = j["iteration"], all = j["iterations"];
    progress = fmt::format("{}/{} ({} %)", done, all, all > 0 ? 100 * done / all : 0);
  }
  const std::string state = j["state"];
  if (state == "running" && j.contains("seconds_left") && !j["seconds_left"].is_null())
    left = format_seconds(j["seconds_left"].get<double>());
  std::string out = fmt::format("{:<10} {:>18} {:>9} {:>8} {:>10} {:>9}  {}", state, progress, left,
                                field(j, "restarts", "{:.0f}"), field(j, "residual", "{:.2e}"),
                                field(j, "psnr", "{:.2f}"), j["run"].get<std::string>());
  const std::string message = j.value("message", "");
  if (!message.empty() && state != "finished") out += "\n           " + message;
  return out;
}

void read_status(const std::string& run, Json& j) {
  const std::string path = run + "/status.json";
  std::error_code none;
  if (!fs::exists(path, none)) {  // copied without it
    const Json summary = Json::parse(read_text(run + "/summary.json"));
    const std::string ended = summary.at("status");
    j["state"] = ended == "stopped" ? "stopped" : ended == "diverged" ? "failed" : "finished";
    j["message"] = ended;
    for (const char* key : {"iterations", "restarts", "residual", "chi2", "psnr", "ranks"})
      j[key] = summary.at(key);
    j["iteration"] = j["iterations"];
    return;
  }
  const Json status = Json::parse(read_text(path));
  for (const auto& [key, value] : status.items()) j[key] = value;
  const std::string state = j.at("state");
  if (state != "running" && state != "writing") return;
  const ProcessState process =
      process_state(status.value("process", ""), status.at("pid").get<std::int64_t>());
  const double silent = age(path, status);
  if (process == ProcessState::gone) {
    j["state"] = "lost";
    j["message"] =
        CheckpointFolder(run + "/checkpoint").list().empty()
            ? "its process ended without a word (killed, perhaps for memory) before its first checkpoint"
            : "its process ended without a word (killed, perhaps for memory; --resume goes on)";
  } else if (process == ProcessState::unknown && silent > kLost) {
    j["state"] = "lost";
    j["message"] = fmt::format("no sign of life for {}", format_seconds(silent));
  }
}

Json look(const std::string& run) {
  Json j = {{"run", run}};
  std::error_code none;
  if (!fs::is_directory(run, none)) {
    j["state"] = "missing";
    j["message"] = "no such folder";
    return j;
  }
  if (!is_run(run)) {
    j["state"] = "waiting";
    j["message"] = "nothing has begun in this folder";
    j["restarts"] = 0;
  } else {
    try {
      read_status(run, j);
      line(j);
    } catch (const std::exception& e) {
      j = {{"run", run}, {"state", "unreadable"}, {"message", e.what()}};
    }
  }
  const std::vector<std::string> checkpoints = CheckpointFolder(run + "/checkpoint").list();
  j["checkpoint"] = checkpoints.empty() ? Json() : Json(fs::path(checkpoints[0]).filename().string());
  return j;
}

int execute(const StatusArguments& arguments, const Communicator& comm) {
  constexpr int kDepth = 3;  // runs/NAME/ARRAY/TASK
  constexpr auto kAgain = std::chrono::seconds(2);
  comm.together([&] {
    if (comm.rank() != 0) return;
    std::string bad, shown;
    for (bool again = true; again;) {
      std::vector<std::string> runs;
      for (const std::string& given : arguments.runs) {
        const std::size_t before = runs.size();
        if (!is_run(given)) find_runs(given, kDepth, runs);
        if (runs.size() == before) runs.push_back(given);
      }
      std::string text;
      if (!arguments.json)
        text = fmt::format("{:<10} {:>18} {:>9} {:>8} {:>10} {:>9}  run\n", "state", "progress", "left",
                           "restarts", "change", "PSNR");
      again = false;
      bad.clear();
      for (const std::string& run : runs) {
        const Json j = look(run);
        const std::string state = j["state"];
        again |= arguments.watch && (state == "running" || state == "writing" || state == "waiting");
        if (bad.empty() && (state == "missing" || state == "unreadable"))
          bad = concat(run, ": ", j["message"].get<std::string>());
        text += (arguments.json ? j.dump(-1, ' ', false, Json::error_handler_t::replace) : line(j)) + '\n';
      }
      const bool terminal = arguments.watch && isatty(STDOUT_FILENO) != 0;
      if (text != shown)
        std::printf("%s%s", terminal ? "\033[H\033[J" : shown.empty() ? "" : "\n", text.c_str());
      std::fflush(stdout);
      shown = text;
      if (again) std::this_thread::sleep_for(kAgain);
    }
    TESSERA_VALIDATE(bad.empty(), bad, " (status reads the output folders of runs) check the path");
  });
  return 0;
}

}  // namespace

Command status_command(CLI::App& app) {
  const auto a = std::make_shared<StatusArguments>();
  CLI::App* options =
      app.add_subcommand("status", "how runs stand, from their output folders alone, also while they run");
  options->add_option("RUN", a->runs, "output folder of a run, or a folder that holds some")->required();
  options->add_flag("--json", a->json, "one JSON object per run");
  options->add_flag("--watch", a->watch, "again and again, until none runs or waits any more");
  options->footer("Example: tessera status runs/photo runs/long --watch");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::never};
}

}  // namespace tessera
