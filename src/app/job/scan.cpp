// SPDX-License-Identifier: BSD-3-Clause
// Measured projections: from frames to line integrals.
#include "tessera/app/scan.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/physics/transmission.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLooked = 4;      // rows that middle_rows() reads
constexpr std::int64_t kBand = 8 << 20;  // samples of frames that are held at once

// The mean of all frames that are meant, of these rows and columns, in the order of the frames.
std::vector<double> mean_frame(const FrameStack& stack, const Box& box) {
  std::vector<double> sum(static_cast<std::size_t>(box.extent(1) * box.extent(2)), 0.0), frame(sum.size());
  FrameReader reader(stack);
  const std::int64_t frames = std::ssize(stack.frames);
  for (std::int64_t k = 0; k < frames; ++k) {
    beat();
    reader.read({{k, box.lo()[1], box.lo()[2]}, {k + 1, box.hi()[1], box.hi()[2]}}, frame.data());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += frame[i];
  }
  for (double& v : sum) v /= static_cast<double>(frames);
  return sum;
}

void check_frames(const FrameStack& frames, const ScanFile& file, const char* what) {
  TESSERA_VALIDATE(frames.empty() || (frames.rows == file.views.rows && frames.columns == file.views.columns),
                   frames.path, " has ", what, " of ", frames.rows, " x ", frames.columns, " (the views in ",
                   file.views.path, " have ", file.views.rows, " x ", file.views.columns,
                   ") give frames of the same detector");
}

}  // namespace

Box Scan::samples() const {
  const std::int64_t views = std::ssize(file.views.frames), columns = file.views.columns;
  return rows == 1 ? Box::image2d(views, columns) : Box({0, 0, 0}, {views, rows, columns});
}

Box Scan::image() const {
  const std::int64_t side = file.views.columns;
  return {{0, 0, 0}, {rows, side, side}};
}

Box Scan::in_stack(const Box& samples) const {
  if (samples.empty()) return samples;
  const Index3 &lo = samples.lo(), &hi = samples.hi();
  if (rows == 1) return {{lo[1], first_row, lo[2]}, {hi[1], first_row + 1, hi[2]}};
  return samples.shift({0, first_row, 0});
}

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

ScanReader::ScanReader(const Scan& scan) : scan_(scan), views_(scan.file.views) {
  if (!scan.file.weights.empty()) weights_.emplace(scan.file.weights);
}

ScanSamples ScanReader::read(const Box& samples, std::int64_t& silent) {
  ScanSamples out;
  if (samples.empty()) return out;
  const Box box = scan_.in_stack(samples);
  const auto n = static_cast<std::size_t>(box.pixels());
  out.y.resize(n);
  views_.read(box, out.y.data());
  if (scan_.transmission) {
    const Box frame({0, box.lo()[1], box.lo()[2]}, {1, box.hi()[1], box.hi()[2]});
    if (frame != averaged_) {
      const auto pixels = static_cast<std::size_t>(frame.pixels());
      flat_ =
          scan_.file.flats.empty() ? std::vector<double>(pixels, 1.0) : mean_frame(scan_.file.flats, frame);
      dark_ =
          scan_.file.darks.empty() ? std::vector<double>(pixels, 0.0) : mean_frame(scan_.file.darks, frame);
      averaged_ = frame;
    }
    out.weights.resize(n);
    silent += line_integrals(out.y, flat_, dark_, out.weights);
  }
  if (weights_) {
    std::vector<double> given(n);
    weights_->read(box, given.data());
    if (out.weights.empty())
      out.weights = given;
    else
      for (std::size_t i = 0; i < n; ++i) out.weights[i] = out.weights[i] > 0 ? given[i] : 0;
  }
  return out;
}

at::Tensor middle_rows(const Scan& scan, const Communicator& comm) {
  const std::int64_t rows = std::min(kLooked, scan.rows), views = std::ssize(scan.file.views.frames),
                     columns = scan.file.views.columns, first = (scan.rows - rows) / 2;
  at::Tensor out = at::zeros({rows, views, columns}, at::kDouble);
  comm.together([&] {
    const std::int64_t from = views * comm.rank() / comm.size(), to = views * (comm.rank() + 1) / comm.size();
    if (from == to) return;
    ScanReader reader(scan);
    std::int64_t silent = 0;
    const std::int64_t some = std::max<std::int64_t>(1, kBand / (rows * columns));
    for (std::int64_t v = from; v < to; v += some) {
      const std::int64_t end = std::min(v + some, to);
      ScanSamples s = reader.read(scan.rows == 1 ? Box({0, v, 0}, {1, end, columns})
                                                 : Box({v, first, 0}, {end, first + rows, columns}),
                                  silent);
      for (std::int64_t k = 0; k < (end - v) * rows; ++k) {
        double* line = s.y.data() + k * columns;
        const auto says = [&](std::int64_t i) {
          const auto at = static_cast<std::size_t>(k * columns + i);
          return std::isfinite(line[i]) && (s.weights.empty() || s.weights[at] > 0);
        };
        double last = 0;
        for (std::int64_t i = 0, next = 0; i < columns; ++i) {  // between its neighbors
          if (says(i)) {
            last = line[i];
            continue;
          }
          for (next = std::max(next, i + 1); next < columns && !says(next);) ++next;
          line[i] = next < columns && i > 0 ? (last + line[next]) / 2 : next < columns ? line[next] : last;
        }
        std::copy(line, line + columns, out.data_ptr<double>() + (k % rows * views + v + k / rows) * columns);
      }
    }
  });
  comm.all_reduce(std::span<double>(out.data_ptr<double>(), static_cast<std::size_t>(out.numel())),
                  Reduce::sum);
  return out;
}

double image_level(const at::Tensor& rows) {
  double level = 0;
  const std::int64_t columns = rows.size(2);
  const double* line = rows.const_data_ptr<double>();
  for (std::int64_t k = 0; k < rows.size(0) * rows.size(1); ++k, line += columns) {
    double peak = 0, mass = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      peak = std::max(peak, line[i]);
      mass += std::max(0.0, line[i]);
    }
    if (mass > 0) level = std::max(level, std::numbers::pi / 4 * peak * peak / mass);
  }
  return level;
}

}  // namespace tessera
