// SPDX-License-Identifier: BSD-3-Clause
// tessera status: how runs stand, from their folders alone.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/app/commands.hpp"
#include "tessera/app/run_status.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/io/files.hpp"
#include "tessera/solve/checkpoint.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Silence that means a lost run: many times what is normal, since file systems and clocks of other machines
// lag.
constexpr double kLost = 12 * RunStatus::kInterval;

// Seconds since the file was written; by its own time and by the file system's, whichever is later.
double age(const std::string& path, const Json& status) {
  struct stat about {};
  double last = status.at("updated").get<double>();
  if (::stat(path.c_str(), &about) == 0) last = std::max(last, static_cast<double>(about.st_mtime));
  return static_cast<double>(std::time(nullptr)) - last;
}

Json look(const std::string& run) {
  const std::string path = run + "/status.json";
  std::error_code none;
  TESSERA_VALIDATE(fs::is_directory(run, none), run,
                   " is no folder (status reads the output folder of a run) ", "check the path");
  Json j = {{"run", run}};
  if (!fs::exists(path, none)) {
    j["state"] = "waiting";
    j["message"] = "nothing has begun in this folder";
    j["restarts"] = 0;
  } else {
    try {
      const Json status = Json::parse(read_text(path));
      for (const auto& [key, value] : status.items()) j[key] = value;
      const std::string state = j.at("state");
      const double silent = age(path, status);
      if ((state == "running" || state == "writing") && silent > kLost) {
        j["state"] = "lost";
        j["message"] = fmt::format("no sign of life for {}", format_seconds(silent));
      }
    } catch (const Json::exception& e) {
      throw InputError(concat(path, " cannot be read (", e.what(), ") is it of a newer tessera?"));
    }
  }
  const std::vector<std::string> checkpoints = CheckpointFolder(run + "/checkpoint").list();
  j["checkpoint"] = checkpoints.empty() ? Json() : Json(fs::path(checkpoints[0]).filename().string());
  return j;
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
  std::string out = fmt::format("{:<9} {:>18} {:>9} {:>8} {:>10} {:>9}  {}", state, progress, left,
                                field(j, "restarts", "{:.0f}"), field(j, "residual", "{:.2e}"),
                                field(j, "psnr", "{:.2f}"), j["run"].get<std::string>());
  const std::string message = j.value("message", "");
  if (!message.empty() && state != "finished") out += "\n          " + message;
  return out;
}

}  // namespace

int status_command(const StatusArguments& arguments, const Communicator& comm) {
  comm.together([&] {
    if (comm.rank() != 0) return;
    std::vector<Json> all;
    for (const std::string& run : arguments.runs) all.push_back(look(run));
    if (!arguments.json)
      std::printf("%-9s %18s %9s %8s %10s %9s  %s\n", "state", "progress", "left", "restarts", "residual",
                  "PSNR", "run");
    const auto json = [](const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); };
    for (const Json& j : all) std::printf("%s\n", (arguments.json ? json(j) : line(j)).c_str());
  });
  return 0;
}

}  // namespace tessera
