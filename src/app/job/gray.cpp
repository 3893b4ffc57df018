// SPDX-License-Identifier: BSD-3-Clause
#include "job/gray.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <variant>

#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

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
      return !file->empty() && find_format(*file) &&
             plan.files->headers().image(*file, comm).channels == kColors &&
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
  GrayChannels of_first;
  for (const std::string& path : files) {
    if (path.empty() || !find_format(path)) continue;
    const GrayChannels found = gray_channels(path, comm);
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

bool three_alike(const std::string& path, const Communicator& comm) {
  return gray_channels(path, comm).three;
}

std::int64_t stored_channels(const RunPlan& plan, std::int64_t stored, std::int64_t wanted) {
  return plan.gray && wanted == 1 && stored == kColors ? kColors : wanted;
}

at::Tensor with_channels(const at::Tensor& stored, std::int64_t wanted) {
  return stored.size(0) == wanted ? stored : stored.mean(0, /*keepdim=*/true);
}

}  // namespace tessera
