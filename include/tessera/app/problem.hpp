// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "tessera/app/run_plan.hpp"
#include "tessera/samples/survey.hpp"

namespace tessera {

/// The job's data on this rank: operator, measurement with what it shows, truth.
struct Problem : Surveyed {
  at::Tensor truth;  // undefined without one
};

/// Reads or simulates. Collective. Clean data are computed in double, part by part, so that the noise
/// (Poisson counts too) does not depend on the ranks.
Problem make_problem(const RunPlan& plan, const Communicator& comm,
                     const std::shared_ptr<Transport>& transport);

/// The plan with what the samples showed of noise and light, for resolved.yaml: with it the same run needs no estimate.
RunPlan with_estimate(RunPlan plan, const Problem& problem);

/// The problem on the blocks of another plan of the same image. Collective.
Problem on_blocks(Problem problem, const RunPlan& plan, const Communicator& comm,
                  const std::shared_ptr<Transport>& transport);

/// This rank's block of a picture, .npy or HDF5 image, in internal range. `marks`: of measured ones, samples
/// that a detector marks become NaN, and it is told what they have; null: they are values. Collective.
at::Tensor read_block(const std::string& path, const RunPlan& plan, const Communicator& comm,
                      std::string* marks = nullptr);

/// This rank's block of problem.truth.scene, which is in internal range.
at::Tensor scene_block(const RunPlan& plan, const Communicator& comm);

}  // namespace tessera
