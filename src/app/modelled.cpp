// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/modelled.hpp"

#include <algorithm>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {

Modelled model_job(const Geometry& g, bool gpu) {
  Modelled m;
  m.op = g.op;
  if (gpu != g.device.is_cuda()) m.op = describe(g, g.parts, 0, Device{gpu ? 0 : -1}, Communicator());
  m.data.op = m.op.get();
  m.data.image = g.image;
  m.data.solver = g.job.solver.name;
  m.data.inner = std::min(static_cast<double>(g.job.solver.prox_iterations), kInnerIterations);
  m.data.weighted = !g.job.problem.weights.empty() || g.job.problem.saturation > 0;
  m.data.truth = g.truth.has_value();
  const DenoiserRow& row = find_denoiser(g.job.denoiser.network);
  m.data.prior = g.image.volume() ? row.images_of_volume : row.images;
  if (g.network) m.network = network_work(*g.network, scalar_type(g.job.execution.precision), gpu);
  return m;
}

bool runs_conjugate_gradients(const Geometry& g, const Modelled& m) {
  return data_traffic(g.decomposition, m.data, 0).iterative();
}

Execution wanted_execution(const Geometry& g, const Machine& machine) {
  Execution e = g.job.execution;
  e.transport = transport_on(machine, e.transport);
  return e;
}

}  // namespace tessera
