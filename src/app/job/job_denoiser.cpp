// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/job_denoiser.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "tessera/app/modelled.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/host.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/network_work.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

bool has_default_weights(std::int64_t image_channels) { return image_channels == 1 || image_channels == 3; }

std::string default_weights(const std::string& network, std::int64_t image_channels) {
  return concat(network, "_small_", image_channels == 1 ? "gray" : "color");
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

std::int64_t available_bytes(const RunPlan& plan, int ranks_on_host) {
  if (!plan.device.is_cuda()) return host_memory().available / std::max(1, ranks_on_host);
  std::size_t free = 0, total = 0;  // of the current device, which is this rank's
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = static_cast<std::size_t>(host_memory().available);
  return static_cast<std::int64_t>(free) / plan.sharers;
}

namespace {

// Bytes of the fullest rank that are not features: state, truth, measurement, halos, weights, and what a step
// or the simulation takes for a moment. By the cost model, which is within 15 %.
std::int64_t other_bytes(const RunPlan& plan) {
  constexpr double kMargin = 1.15;
  const Modelled m = model_job(plan, plan.device.is_cuda());
  const Index3 halo = plan.network ? window_halo(*plan.network) : Index3{};
  double most = 0;
  for (const auto& [rank, count] :
       representatives(plan.decomposition, std::max<std::int64_t>(longest(halo), 64)))
    most = std::max(most, static_cast<double>(data_memory(plan.decomposition, m.data, halo,
                                                          plan.job.execution.planes, rank)) +
                              data_moment(m.data, plan.decomposition, rank));
  if (m.network) most += weight_memory(*m.network, plan.job.execution.precision, plan.device.is_cuda());
  return static_cast<std::int64_t>(kMargin * most) + (std::int64_t{16} << 20);
}

}  // namespace

ExecutionOptions execution_options(const RunPlan& plan, int ranks_on_host) {
  ExecutionOptions o = execution_options(plan.job.execution, plan.device);
  o.deterministic = plan.job.deterministic;
  // Features take what a budget leaves beside everything else; without one, at most half of what is free.
  const std::int64_t available = available_bytes(plan, ranks_on_host);
  o.memory_bytes = available / 2;
  if (!plan.network) return o;
  const auto budget = memory_budget(plan.job, available);
  // A budget is of the whole process; what is free is beside what it has already.
  const std::int64_t program = budget && !plan.device.is_cuda() ? process_bytes() : 0;
  const std::int64_t other = other_bytes(plan) + program, most = budget.value_or(available);
  TESSERA_VALIDATE(most > other, budget ? "memory is " : "free memory is ",
                   format_bytes(static_cast<double>(most)), " per rank (",
                   program > 0 ? "program, libraries, state" : "state",
                   ", data and weights of a rank take up to ", format_bytes(static_cast<double>(other)),
                   ", which leaves the network nothing) ",
                   budget ? "raise it, or use more ranks" : "use more ranks on more nodes");
  o.memory_bytes = budget ? most - other : std::min(o.memory_bytes, most - other);
  return o;
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

}  // namespace tessera
