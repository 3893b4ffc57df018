// SPDX-License-Identifier: BSD-3-Clause
#include "job/load_job.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "job/same_files.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/measurement_file.hpp"

namespace tessera {
namespace {

// What the file of measurements says of its problem, YAML; empty where there is no such file or it says nothing. A factor
// and an offset alone count too. Collective.
std::string measurement_problem(const std::string& path, const Communicator& comm) {
  std::error_code none;
  double found = 0;  // rank 0 decides, so that all ranks open the file or none does
  const std::string file = path.substr(0, path.rfind(":/"));
  if (comm.rank() == 0 && !path.empty()) found = std::filesystem::is_regular_file(file, none);
  comm.all_reduce({&found, 1}, Reduce::max);
  if (found == 0) return {};
  const MeasurementOrigin origin = measurement_origin(path, comm);
  if (!origin.problem.empty() || origin.factor == 0) return origin.problem;
  return fmt::format("problem:\n  scale: {{factor: {}, offset: {}}}\n", origin.factor, origin.offset);
}

}  // namespace

JobConfig load_job(const std::string& path, const std::vector<std::string>& overrides,
                   const Communicator& comm, Purpose purpose) {
  std::string text;
  comm.together([&] {
    if (comm.rank() == 0) text = read_text(path);
  });
  text = comm.broadcast(text, 0);
  FileProblem file;
  comm.together([&] { file.path = named_measurements(text, path, overrides); });
  require_same_files({file_of(file.path)}, comm);
  file.text = measurement_problem(file.path, comm);
  JobConfig job;
  std::vector<std::string> files;
  comm.together([&] {
    job = parse_job(text, path, overrides, file, purpose);
    files = read_by_ranks(job);
  });
  require_same_files(files, comm);
  if (purpose == Purpose::measure) job = with_solver(with_denoiser(std::move(job), "none"), "pgd", 1);
  return job;
}

}  // namespace tessera
