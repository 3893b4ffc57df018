// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/domain/operator_plan.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {

/// A problem in memory. Values are in internal range: what networks were trained on lies in [0, 1].
struct ArrayProblem {
  ImageSpace image;                  // the unknown
  std::shared_ptr<OperatorPlan> op;  // on it
  /// This rank's samples, part by part, float32 on the host: points range.block(i, rank) of part i. NaN: not
  /// measured. Called once, on every rank.
  std::function<Tensors(const ProductSpace& range, int rank)> samples;
  double noise =
      0;  // standard deviation; 0: what the settings say in problem.noise, else the data's own estimate
};

/// What an iteration left: this rank's block of the image.
struct Reconstruction {
  at::Tensor image;  // (C, [D,] H, W) over `block`
  Box block;
  LoopResult loop;
  std::vector<std::string> notices;  // what a job's log says of data and choices
};

/// Reconstructs arrays: no file is read, no folder is made. `settings`: the sections denoiser, solver, domain of
/// a job file, YAML, or empty; of its problem noise, likelihood and saturation. `observers` see every iteration. Collective over `comm`; InputError on all ranks.
/// Phases go to the thread's Recorder. `stop_requested` is asked once per iteration; one rank's yes is everybody's.
Reconstruction reconstruct(const ArrayProblem& problem, const std::string& settings, const Communicator& comm,
                           const std::vector<Observer*>& observers = {},
                           const std::function<bool()>& stop_requested = {});

}  // namespace tessera
