// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/modelled.hpp"

#include <algorithm>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {

Modelled model_job(const RunPlan& plan, bool gpu) {
  Modelled m;
  m.op = plan.op;
  if (gpu != plan.device.is_cuda())
    m.op = describe(plan, plan.parts, 0, Device{gpu ? 0 : -1}, Communicator());
  m.data.op = m.op.get();
  m.data.image = plan.image;
  m.data.solver = plan.job.solver.name;
  m.data.inner = std::min(static_cast<double>(plan.job.solver.prox_iterations), kInnerIterations);
  m.data.weighted = !plan.job.problem.weights.empty() || plan.job.problem.saturation > 0;
  m.data.truth = plan.truth.has_value();
  const DenoiserRow& row = find_denoiser(plan.job.denoiser.network);
  m.data.prior = plan.image.volume() ? row.images_of_volume : row.images;
  if (plan.network) m.network = network_work(*plan.network, scalar_type(plan.job.execution.precision), gpu);
  return m;
}

bool runs_conjugate_gradients(const RunPlan& plan, const Modelled& m) {
  return data_traffic(plan.decomposition, m.data, 0).iterative();
}

Execution wanted_execution(const RunPlan& plan, const Machine& machine) {
  Execution e = plan.job.execution;
  e.transport = transport_on(machine, e.transport);
  return e;
}

}  // namespace tessera
