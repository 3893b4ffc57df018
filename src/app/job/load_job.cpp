// SPDX-License-Identifier: BSD-3-Clause
#include "job/load_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "job/same_files.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
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

// Whether each sample is one of the unknown's own grid.
bool on_the_grid(const OperatorConfig& op) {
  if (op.parts.empty()) return find_operator(op.type).choice.same_grid;
  return std::all_of(op.parts.begin(), op.parts.end(), on_the_grid);
}

// Why no shipped network fits the image, by the headers of its files; empty: one does, or the job has chosen.
std::string no_network(const JobConfig& job, const Communicator& comm) {
  const ProblemConfig& p = job.problem;
  if (!job.solver.chosen.prior || !find_denoiser(job.denoiser.network).network()) return {};
  ImageSpace image;
  if (!p.truth.empty()) {
    image = image_source_info(p.truth, comm);
  } else if (!p.scene.size.empty()) {
    image = ImageSpace(box_of(p.scene.size), p.scene.channels);
  } else if (const auto scan = takes_scan(p.op) ? job_scan(job, comm) : std::nullopt) {
    image = ImageSpace(p.image.size.empty() ? scan->image() : box_of(p.image.size));
  } else {
    image = measurement_info(p.measurements, comm)[0].source;
    if (!p.image.size.empty()) image = ImageSpace(box_of(p.image.size), image.channels);
  }
  if (image.volume() && !on_the_grid(p.op))
    return concat("the image is a volume under ", p.op.type,
                  " (the shipped networks were measured on volumes whose samples lie on their grid)");
  if (!has_default_weights(image.channels))
    return concat("the image has ", image.channels, " channels (the shipped networks know 1 and 3)");
  return {};
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
  if (purpose == Purpose::measure && !job.problem.has_truth()) return job;
  const std::string reason = no_network(job, comm);
  if (purpose == Purpose::measure) {
    if (!reason.empty()) job.denoiser.network = "none";  // nothing is denoised
    return job;
  }
  if (!reason.empty())
    return load_job(path, {.overrides = {kTotalVariation}, .reason = "denoiser tv: " + reason}, overrides,
                    comm);
  return job;
}

JobConfig load_job(const std::string& path, const OtherChoice& other, std::vector<std::string> overrides,
                   const Communicator& comm) {
  overrides.insert(overrides.end(), other.overrides.begin(), other.overrides.end());
  JobConfig job = load_job(path, overrides, comm);
  job.notices.push_back(other.reason);
  return job;
}

}  // namespace tessera
