// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/run_status.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// Of /proc/PID/stat behind the name, which may hold spaces: the state, and 19 fields on the start.
std::string start_of(std::int64_t pid) {
  const std::string line = first_line(concat("/proc/", pid, "/stat"));
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string state, word;
  fields >> state;
  for (int i = 0; i < 19; ++i) fields >> word;
  return !fields || state == "Z" || state == "X" ? "" : word;
}

// Where a process number means the same process.
std::string number_space() {
  std::error_code error;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  return boot.empty() || space.empty() ? "" : boot + ' ' + space;
}

}  // namespace

std::string process_identity(std::int64_t pid) {
  const std::string space = number_space(), start = start_of(pid);
  return space.empty() || start.empty() ? "" : space + ' ' + start;
}

ProcessState process_state(const std::string& identity, std::int64_t pid) {
  const std::string space = number_space();
  if (space.empty() || !identity.starts_with(space + ' ')) return ProcessState::unknown;
  return process_identity(pid) == identity ? ProcessState::alive : ProcessState::gone;
}

struct RunStatus::Impl {
  std::string path;
  const Progress& progress;
  nlohmann::ordered_json json;  // under the mutex
  double asked = -1e9;          // when the progress was asked for its median
  std::mutex mutex;
  std::condition_variable wake;
  bool over = false;
  std::thread thread;

  Impl(std::string where, const Progress& p) : path(std::move(where)), progress(p) {}

  // Under the mutex. A status that cannot be written is no reason for a run to end.
  void write() {
    try {
      put();
    } catch (const std::exception&) {
    }
  }

  // No fsync: it is written again in a moment, and the run must not wait for a disk.
  void put() {
    const Heartbeat h = heartbeat();
    json["phase"] = name(h.phase);
    json["updated"] = static_cast<std::int64_t>(std::time(nullptr));
    // Messages name files, whose names may be no UTF-8.
    const std::string text =
        json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    const std::string temporary = temporary_name(path);
    std::FILE* file = std::fopen(temporary.c_str(), "wb");
    if (!file) return;
    const bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !good || std::rename(temporary.c_str(), path.c_str()) != 0)
      std::remove(temporary.c_str());
  }

  void watch() {
    sigset_t all;  // signals belong to the main thread
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, std::chrono::duration<double>(kInterval), [this] { return over; })) write();
  }
};

RunStatus::RunStatus(bool writes, const std::string& path, const Progress& progress, int iterations, int done,
                     int restarts, int ranks) {
  if (!writes) return;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  impl_ = std::make_unique<Impl>(path, progress);
  impl_->json = {{"schema", 1},
                 {"state", "running"},
                 {"message", ""},
                 {"iteration", done},
                 {"iterations", iterations},
                 {"seconds_per_iteration", nullptr},
                 {"seconds_left", nullptr},
                 {"restarts", restarts},
                 {"residual", nullptr},
                 {"chi2", nullptr},
                 {"psnr", nullptr},
                 {"ranks", ranks},
                 {"host", host},
                 {"pid", static_cast<std::int64_t>(getpid())},
                 {"process", process_identity(getpid())},
                 {"started", static_cast<std::int64_t>(std::time(nullptr))}};
  impl_->write();
  impl_->thread = std::thread([this] { impl_->watch(); });
}

RunStatus::~RunStatus() {
  if (!impl_) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->over = true;
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

void RunStatus::on_result(const IterationResult& r) {
  if (!impl_) return;
  const bool ask = now() - impl_->asked >= 1;  // the median of many iterations is not free
  if (ask) impl_->asked = now();
  const double each = ask ? impl_->progress.seconds_per_iteration() : 0;
  const auto number = [](double v) {
    return std::isfinite(v) ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr);
  };
  const std::lock_guard lock(impl_->mutex);
  auto& j = impl_->json;
  j["iteration"] = r.iteration + 1;
  if (ask && each > 0) j["seconds_per_iteration"] = each;
  if (!j["seconds_per_iteration"].is_null())
    j["seconds_left"] =
        j["seconds_per_iteration"].get<double>() * (j["iterations"].get<int>() - r.iteration - 1);
  j["residual"] = number(r.residual);
  j["chi2"] = number(r.chi2);
  j["psnr"] = number(r.psnr);
}

void RunStatus::set(const std::string& state, const std::string& message) {
  if (!impl_) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->json["state"] = state;
  impl_->json["message"] = message;
  impl_->write();
}

}  // namespace tessera
