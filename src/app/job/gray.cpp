// SPDX-License-Identifier: BSD-3-Clause
#include "job/gray.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPiece = 1 << 20;  // bytes: most pictures of color differ in the first

// How far the channels of a pixel lie apart.
struct Apart {
  double most = 0, squares = 0;
  double sum = 0, sum_squares = 0, pixels = 0;  // of their means
  double rms() const { return std::sqrt(squares / std::max(1.0, pixels)); }
  double deviation() const {
    const double mean = sum / std::max(1.0, pixels);
    return std::sqrt(std::max(0.0, sum_squares / std::max(1.0, pixels) - mean * mean));
  }
};

// Of 8 bits a compression and a rounding may lie between; other types are equal or they are not.
double most_apart(const std::string& type, double value) {
  constexpr double kSteps = 6, kRounding = 1e-6;
  return type == "uint8" ? kSteps : type.starts_with("float") ? kRounding * std::abs(value) : 0;
}

// Nothing where the channels differ, or there are not three.
std::optional<Apart> apart(const std::string& path) {
  constexpr double kSteps = 1.2, kOfContrast = 0.03;
  const std::unique_ptr<ImageSource> source = open_image(path);
  const SourceInfo& info = source->info();
  if (info.channels != kColors) return std::nullopt;
  Apart out;
  std::vector<double> values;
  for (const Box& box : source->pieces(info.box, kPiece)) {
    beat();
    const std::int64_t n = box.pixels();
    values.resize(static_cast<std::size_t>(kColors * n));
    source->read(box, values.data());
    for (std::int64_t k = 0; k < n; ++k) {
      const std::array<double, 3> v{values[static_cast<std::size_t>(k)],
                                    values[static_cast<std::size_t>(n + k)],
                                    values[static_cast<std::size_t>(2 * n + k)]};
      const auto missing = std::count_if(v.begin(), v.end(), [](double x) { return !std::isfinite(x); });
      if (missing == kColors) continue;
      const auto [least, most] = std::minmax_element(v.begin(), v.end());
      if (missing > 0 || *most - *least > most_apart(info.type, *most)) return std::nullopt;
      const double mean = (v[0] + v[1] + v[2]) / kColors;
      out.most = std::max(out.most, *most - *least);
      out.squares += (*most - *least) * (*most - *least);
      out.sum += mean;
      out.sum_squares += mean * mean;
      ++out.pixels;
    }
  }
  const bool eight = info.type == "uint8";
  if (eight && (out.rms() > kSteps || out.rms() > kOfContrast * out.deviation())) return std::nullopt;
  return out;
}

// Of one of the job's files, on all ranks: whether it has one channel or may be read as one; how far three lie apart.
struct Channels {
  bool one = false, three = false, colors = false;  // colors: three that differ
  double most = 0;
};

Channels channels_of(const std::string& path, const Communicator& comm) {
  Channels out;
  comm.together([&] {
    if (comm.rank() != 0) return;
    const std::int64_t stored = open_image(path)->info().channels;
    out.one = stored == 1;
    if (stored != kColors) return;
    const std::optional<Apart> found = apart(path);
    out.three = out.one = found.has_value();
    out.colors = !found;
    if (found) out.most = found->most;
  });
  comm.broadcast(&out, sizeof(out), 0);
  return out;
}

// Whether a kernel file has three channels that differ.
bool colored(const RunPlan& plan, const KernelConfig& kernel, const Communicator& comm) {
  const auto* file = std::get_if<FileKernel>(&kernel.form);
  if (!file || file->path.empty()) return false;
  const at::Tensor& taps = plan.files->taps(file->path, comm);
  return taps.size(0) == kColors && !taps.eq(taps[0]).all().item().toBool();
}

// Whether no operator tells channels apart, by its kernel or its mask.
bool alike(const RunPlan& plan, const Communicator& comm) {
  const auto& simulated = plan.job.problem.simulate.kernel;
  if (simulated && colored(plan, *simulated, comm)) return false;
  return std::none_of(plan.parts.begin(), plan.parts.end(), [&](const OperatorConfig& part) {
    if (find_operator(part.type).choice.kernel) return colored(plan, part.kernel, comm);
    OperatorConfig own = part;
    const std::vector<std::string*> files = files_of(own);
    return std::any_of(files.begin(), files.end(), [&](const std::string* file) {
      return !file->empty() && find_format(*file) && image_source_info(*file, comm).channels == kColors &&
             !plan.files->mask(*file, comm).gray;
    });
  });
}

// Whether the weights that the job names are of one channel.
bool weights_fit(const JobConfig& job, const Communicator& comm) {
  if (job.denoiser.weights.empty() || !find_denoiser(job.denoiser.network).network()) return true;
  bool fit = false;
  comm.together([&] {
    try {
      open_network(job.denoiser, 1);
      fit = true;
    } catch (const InputError&) {
      // Of three channels, or not there: which open_network() says when the image's are known.
    }
  });
  return fit;
}

// `files`: the one to be named first.
bool is_gray(RunPlan& plan, const std::vector<std::string>& files, const Communicator& comm) {
  const std::int64_t said = plan.job.problem.image.channels;
  if (said > 1) return false;
  std::string first;
  Channels of_first;
  for (const std::string& path : files) {
    if (path.empty() || !find_format(path)) continue;
    const Channels found = channels_of(path, comm);
    const std::string name = std::filesystem::path(path).filename().string();
    if (!found.one) {
      TESSERA_VALIDATE(said != 1 || !found.colors, "problem.image.channels is 1 (the channels of ", name,
                       " differ) leave it out");
      return false;
    }
    if (!found.three || !first.empty()) continue;
    first = name;
    of_first = found;
  }
  if (first.empty() || !alike(plan, comm) || (said == 0 && !weights_fit(plan.job, comm))) return false;
  plan.notices.push_back(fmt::format(
      "gray: the three channels of {} {}: {}, and so is the result ({})", first,
      of_first.most > 0 ? fmt::format("are the same but for {:.3g} at most", of_first.most) : "are the same",
      of_first.most > 0 ? "their mean is one measurement" : "they are one measurement",
      plan.job.problem.measurements.empty() ? "weights of three channels in denoiser keep them"
                                            : "'channels: 3' in problem.image keeps them"));
  return true;
}

void make_gray(ImageSpace& space) {
  if (space.channels == kColors) space = space.with_channels(1);
}

}  // namespace

void take_gray(RunPlan& plan, std::vector<std::string> files, const Communicator& comm) {
  const ProblemConfig& p = plan.job.problem;
  for (const std::string& path : {p.truth, p.weights, p.dark, p.flat, plan.job.solver.start})
    if (std::find(files.begin(), files.end(), path) == files.end()) files.push_back(path);
  plan.gray = is_gray(plan, files, comm);
  if (!plan.gray) return;
  make_gray(plan.image);
  make_gray(plan.data);
  if (plan.truth)
    make_gray(*plan.truth);
  else
    plan.job.problem.image.channels = 1;
}

bool three_alike(const std::string& path, const Communicator& comm) { return channels_of(path, comm).three; }

std::int64_t stored_channels(const RunPlan& plan, std::int64_t stored, std::int64_t wanted) {
  return plan.gray && wanted == 1 && stored == kColors ? kColors : wanted;
}

at::Tensor with_channels(const at::Tensor& stored, std::int64_t wanted) {
  return stored.size(0) == wanted ? stored : stored.mean(0, /*keepdim=*/true);
}

}  // namespace tessera
