// SPDX-License-Identifier: BSD-3-Clause
// What the tables hold, in the parser's terms.
#include "tessera/app/operator_table.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

void know_choices() {
  Choices all;
  for (const OperatorRow& row : operator_table()) all.operators.push_back(row.choice);
  for (const SolverRow& row : solver_table())
    all.solvers.push_back({.name = row.name,
                           .options = row.options,
                           .penalty = row.data_step == DataStep::prox,
                           .proximal = takes_prox(row.data_step),
                           .weighs = weighs(row.data_step),
                           .bare = row.bare,
                           .counts = row.counts,
                           .once = row.once});
  for (const DenoiserRow& row : denoiser_table())
    all.denoisers.push_back({.name = row.name,
                             .options = row.options,
                             .network = row.network(),
                             .takes_sigma = row.takes_sigma,
                             .shipped = row.shipped != nullptr});
  set_choices(std::move(all));
}

}  // namespace tessera
