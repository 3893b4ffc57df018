// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/app/run_plan.hpp"
#include "tessera/samples/weigh_samples.hpp"

namespace tessera {

struct Simulation {
  at::Tensor truth;  // on the unknown's grid
  Samples samples;
};

/// The truth as problem.simulate has it measured. Clean samples are computed in double, part by part, so that
/// the noise (Poisson counts too) does not depend on the ranks. With another kernel, another boundary or a
/// finer truth, a blur is computed on the whole of the truth's grid, averaged over the pixels of the unknown,
/// and sampled where `layout`, which is that of the reconstructing operator, has its samples. Collective.
Simulation simulate_samples(const RunPlan& plan, const ProductSpace& layout, const Communicator& comm);

}  // namespace tessera
