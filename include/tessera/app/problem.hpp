// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/run_plan.hpp"
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/settings/facts.hpp"

namespace tessera {

/// The job's data on this rank: truth, operator, measurement.
struct Problem {
  std::shared_ptr<DistributedOperator> A;
  Measurement y;        // internal range; corrected for dark frame and flat field
  Measurement weights;  // inverse to the variance, 1 on average over samples that count; empty: 1 everywhere
  Measurement
      ends;  // 1 at samples that are clipped at their largest value, -1 at their smallest; empty: none
  double noise_sigma = 0;        // internal range, > 0: the variance of a sample is noise_sigma^2 / weight
  NoiseModel noise;              // what it comes from; both 0 where weights of a file say it
  std::string noise_source;      // how it is known, for one line
  bool noise_estimated = false;  // `noise` is the data's own estimate and serves all samples
  bool noise_replaced = false;   // `noise` is that estimate in place of what the job says
  ToneCurve curve;               // in which the file of y stores light, which y is
  bool noise_colored = false;    // it is weaker in fine details than white noise of its level
  bool noise_uneven = false;     // its level is that of places where it is stronger
  bool compressed = false;       // by JPEG, which takes some of its noise
  bool mosaic = false;           // neighbors are of two kinds, which was said
  bool noise_stored = false;     // `noise` is of stored values, and of y by the curve's slope
  bool marked = false;           // weights are 0 and 1: they only say which samples count
  double missing = 0;            // share of the samples that does not count
  std::optional<Facts::FewBright> few_bright;
  at::Tensor truth;                   // undefined without one
  std::vector<std::string> notices;   // one line each, for the user
  std::vector<std::string> warnings;  // of values that are probably not meant
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
