// SPDX-License-Identifier: BSD-3-Clause
#include "run/run_trace.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "tessera/app/about.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/host.hpp"
#include "tessera/core/version.hpp"

namespace tessera {
namespace {

std::string local_time() {
  char text[64];
  const std::time_t t = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", std::localtime(&t));
  return text;
}

}  // namespace

TraceHeader trace_header(const RunPlan& plan, const std::string& command_line, const Communicator& comm) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const HostCores cores = host_cores();
  TraceHeader h;
  h.own = plan.decomposition.block(comm.rank());
  h.text = {{"tessera_version", version()},
            {"tessera_commit", commit()},
            {"job", write_job(plan.job)},
            {"command_line", command_line},
            {"host", host},
            {"cores", ranges(cores.cores)},
            {"libraries", about_libraries()},
            {"machine", about_machine(plan.device)},
            {"start_time", local_time()},
            {"device", plan.device.is_cuda() ? fmt::format("cuda:{}", plan.device.index) : "cpu"}};
  const Grid3 grid = plan.decomposition.grid();
  h.numbers = {{"rank", comm.rank()},     {"ranks", comm.size()},    {"grid_depth", grid[0]},
               {"grid_rows", grid[1]},    {"grid_columns", grid[2]}, {"threads", at::get_num_threads()},
               {"sockets", cores.sockets}};
  return h;
}

std::unique_ptr<TraceWriter> open_trace(const OutputFolder& folder, const TraceHeader& header, int every,
                                        TraceBegin begin, const Communicator& comm) {
  namespace fs = std::filesystem;
  const std::string path = folder.file(trace_name(comm.rank()));
  std::unique_ptr<TraceWriter> trace;
  if (begin.restarts > 0) {
    begin.same_file = true;
    try {
      if (TraceWriter::continues(path, header))
        trace = std::make_unique<TraceWriter>(path, header, every, begin);
    } catch (const RunError&) {
      // Harmed: kept as it is, like those of another cut.
    }
    std::int64_t same = trace != nullptr;
    comm.all_reduce(std::span<std::int64_t>(&same, 1), Reduce::min);
    if (same) return trace;
    trace.reset();
    begin.same_file = false;
    comm.together([&] {
      std::error_code none;
      if (comm.rank() != 0 || fs::is_empty(folder.file("trace"), none)) return;
      int n = 0;
      while (fs::exists(folder.file(fmt::format("trace-{}", n)), none)) ++n;
      fs::rename(folder.file("trace"), folder.file(fmt::format("trace-{}", n)));
      fs::create_directory(folder.file("trace"));
    });
  }
  comm.together([&] {
    trace = std::make_unique<TraceWriter>(path, header, every, begin);
    if (comm.rank() == 0) write_trace_index(folder.file("trace.h5"), comm.size());
  });
  return trace;
}

}  // namespace tessera
