// SPDX-License-Identifier: BSD-3-Clause
#include "job/job_scan.hpp"

#include <utility>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

void check_frames(const FrameStack& frames, const ScanFile& file, const char* what) {
  TESSERA_VALIDATE(frames.empty() || (frames.rows == file.views.rows && frames.columns == file.views.columns),
                   frames.path, " has ", what, " of ", frames.rows, " x ", frames.columns, " (the views in ",
                   file.views.path, " have ", file.views.rows, " x ", file.views.columns,
                   ") give frames of the same detector");
}

}  // namespace

std::optional<Scan> job_scan(const JobConfig& job, const Communicator& comm) {
  const ProblemConfig& p = job.problem;
  if (p.measurements.empty()) return std::nullopt;
  std::optional<ScanFile> file = open_scan(p.measurements, comm);
  if (!file) return std::nullopt;
  for (const auto& [path, to] : {std::pair(&p.flat, &file->flats), std::pair(&p.dark, &file->darks)})
    if (!path->empty()) *to = open_frames(*path, file->views.rows, comm);
  if (!p.weights.empty()) {
    const std::optional<ScanFile> weights = open_scan(p.weights, comm);
    TESSERA_VALIDATE(weights, p.weights,
                     " holds several parts or channels (the scan has one) give one weight for each sample");
    file->weights = weights->views;
  }
  std::optional<Scan> scan;
  comm.together([&] {
    check_frames(file->flats, *file, "flats");
    check_frames(file->darks, *file, "darks");
    check_frames(file->weights, *file, "weights");
    TESSERA_VALIDATE(file->weights.empty() || file->weights.count == file->views.count, file->weights.path,
                     " has ", file->weights.count, " views (", file->views.path, " has ", file->views.count,
                     ") give one weight for each sample");
    scan = find_operator(p.op.type).scan(p, *file);
  });
  return scan;
}

}  // namespace tessera
