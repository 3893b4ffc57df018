// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/job_denoiser.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/app/tuning.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/io/posix_file.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

bool has_default_weights(std::int64_t image_channels) { return image_channels == 1 || image_channels == 3; }

std::string default_weights(const std::string& network, std::int64_t image_channels) {
  const DenoiserRow& row = find_denoiser(network);
  return row.shipped ? row.shipped(image_channels) : std::string();
}

// By themselves levels fall from strong denoising and end where the plain weights are better than the stable ones.
// At a level that the job writes an iteration may stay for hundreds of steps: where it is low, and with solvers
// that take it from the start, only the stable ones bear that.
std::string job_weights(const JobConfig& job, std::int64_t channels) {
  constexpr double kEnough = 0.04;
  const ScheduleConfig& sigma = job.solver.sigma;
  const double last = sigma.values.empty() ? sigma.last : sigma.values.back();
  const bool prox = find_solver(job.solver.name).data_step == DataStep::prox;
  const bool stable = !sigma.automatic && (!prox || (sigma.form != "dpir" && last < kEnough));
  return default_weights(job.denoiser.network, channels) + (stable ? "_stable" : "");
}

Network open_network(const DenoiserConfig& config, std::int64_t image_channels) {
  if (config.weights == "random") {
    return random_network(network_options(find_denoiser(config.network), image_channels, config.options), 0);
  }
  const std::string weights =
      config.weights.empty() ? default_weights(config.network, image_channels) : config.weights;
  return load_network(config.network, weights, image_channels);
}

std::string assumed(const Network& network, const std::string& weights) {
  if (weights == "random" || !network.weights.contains("m_head.weight"))
    return {};  // all other names show it
  const std::string path = find_weights(weights);
  const io::InputFile file(path);
  std::uint64_t length = 0;  // of the header, little-endian; load_network has checked it
  file.read(0, sizeof length, &length);
  std::string header(length, '\0');
  file.read(sizeof length, static_cast<std::int64_t>(length), header.data());
  const nlohmann::json json = nlohmann::json::parse(header, nullptr, false);
  const auto about = json.find("__metadata__");
  if (about != json.end() && about->contains("network")) return {};
  for (const Node& node : network.graph.nodes())
    if (node.op == Op::relu || node.op == Op::elu)
      return concat(std::filesystem::path(path).filename().string(),
                    " does not say its activation (names and shapes do not show it): ", word(node.op),
                    " is assumed, as published; jobs/convert_weights.py tries what it is");
  return {};
}

std::unique_ptr<Denoiser> make_denoiser(const RunPlan& plan, const Communicator& comm,
                                        const std::shared_ptr<Transport>& transport) {
  const DenoiserContext context{plan.decomposition, plan.image, comm, transport};
  const DenoiserConfig& d = plan.job.denoiser;
  if (const DenoiserRow& row = find_denoiser(d.network); !row.network())
    return row.make(context, d.options, plan.options());
  ExecutionOptions options = execution_options(plan, comm.local_size());
  comm.all_reduce({&options.memory_bytes, 1}, Reduce::min);  // the cut into windows is the same on all ranks
  return make_network_denoiser(*plan.network, options, context);
}

// By measurement: bfloat16 down to three times the last level moves the pictures of 40 right models by 0.02 dB at most,
// to the last step but one by 0.06. Where noise is strong, levels that are above all rounding are few multiples of it.
std::unique_ptr<Denoiser> make_early_denoiser(const RunPlan& plan, Denoiser& exact,
                                              const SolverOptions& options, const Communicator& comm,
                                              const std::shared_ptr<Transport>& transport) {
  constexpr double kFar = 3, kStrong = 0.06;
  const Precision precision = plan.job.denoiser.early_precision;
  if (precision == Precision::float32 || precision == plan.job.execution.precision) return {};
  TESSERA_VALIDATE(
      options.level > 0 && options.sigma.values().size() > 1, "denoiser.early_precision is ", word(precision),
      " (the network's sigma does not fall by itself here, so that no iteration is an early one) ",
      "leave it out, or leave solver.sigma and solver.step open");
  TESSERA_VALIDATE(
      plan.job.execution.averaging != Averaging::cycle, "denoiser.early_precision is ", word(precision),
      " (denoiser.averaging is cycle: two networks would count its turns) write none, flips or all");
  RunPlan early = plan;
  Execution& e = early.job.execution;
  e.precision = precision;
  for (const auto& [key, value] : exact.choices())  // the same cut, in a resumed run too
    (key == "patch" ? e.patch : key == "batch" ? e.batch : e.halo_depth) = value;
  const double from = std::max(std::min(kFar * options.level, kStrong), 1.01 * options.level);
  return make_early(make_denoiser(early, comm, transport), exact, from);
}

}  // namespace tessera
