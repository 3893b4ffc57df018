// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/watchdog.hpp"

namespace tessera {

// One function per subcommand. Collective; each returns an exit code or throws InputError / RunError.

struct RunArguments {
  std::string job;
  std::vector<std::string> overrides;
  bool force = false;
  std::string resume;  // "": start; always; auto
  std::string command_line;
  Watchdog* watchdog = nullptr;  // its limit is the job's
};
int run_command(const RunArguments& arguments, const Communicator& comm);

struct CheckArguments {
  std::string job;
  std::vector<std::string> overrides;
  int ranks = 0;  // pretended; 0: those of the launch
};
int check_command(const CheckArguments& arguments, const Communicator& comm);

struct SimulateArguments {
  std::string job, out;
  std::vector<std::string> overrides;
  bool force = false;
};
int simulate_command(const SimulateArguments& arguments, const Communicator& comm);

struct DenoiseArguments {
  std::string in, out;
  std::string network = "drunet", weights;
  double sigma = 0;
  double noise = 0;
  std::string unit = "internal";  // of sigma and noise; or file
  std::int64_t seed = 0;
  std::string mode = "auto", averaging = "none", precision = "float32", device = "auto";
  std::int64_t patch = 0;
  bool force = false;
};
int denoise_command(const DenoiseArguments& arguments, const Communicator& comm);

struct CompareArguments {
  std::string a, b;
  double range = 0;  // 0: full scale of A
};
int compare_command(const CompareArguments& arguments, const Communicator& comm);

struct ProbeArguments {
  std::string job, image;  // image: none: the truth where there is one, and the start
  std::vector<std::string> overrides;
  std::vector<double> sigmas;  // none: the job's
  int passes = 30, starts = 2;
  int iterations = 16;  // of x <- D(x); 0: none
};
int probe_command(const ProbeArguments& arguments, const Communicator& comm);

struct StatusArguments {
  std::vector<std::string> runs;
  bool json = false, watch = false;
};
int status_command(const StatusArguments& arguments, const Communicator& comm);

struct SceneArguments {
  std::string out, size;
  std::int64_t seed = 0, channels = 3;
  bool force = false;
};
int scene_command(const SceneArguments& arguments, const Communicator& comm);

struct StudyArguments {
  std::string name, out, weights, device = "auto";
  std::vector<std::string> networks, images;
  bool quick = false;
  std::int64_t scale = 0;  // sizes are divided by it; 0: by 8 when quick, else by 1
  std::string command_line;
};
int study_command(const StudyArguments& arguments, const Communicator& comm);

struct PlanArguments {
  std::string job, machine, csv;
  std::vector<std::string> overrides, precisions;
  std::vector<int> ranks;
  std::vector<std::int64_t> sizes;  // sides of the images of strong and weak
  int threads = 0;                  // per rank, of this computer; 0: as jobs/launch.sh
  bool strong = false, weak = false;
};
int plan_command(const PlanArguments& arguments, const Communicator& comm);

struct TuneArguments {
  std::string job, machine;  // machine: file to write the measured machine to
  std::vector<std::string> overrides;
  double seconds = 3;   // per candidate
  int candidates = 12;  // at most
  bool only_machine = false;
};
int tune_command(const TuneArguments& arguments, const Communicator& comm);

int info_command(const Communicator& comm);

/// Reads a job file on rank 0, parses it everywhere.
struct JobConfig;
JobConfig load_job(const std::string& path, const std::vector<std::string>& overrides,
                   const Communicator& comm);

/// The command line of `tessera`; what main() calls.
int tessera_main(int argc, char** argv, const Communicator& comm);

}  // namespace tessera
