// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/solve/solver.hpp"

namespace tessera {

/// What step, sigma and lambda are chosen from.
struct ScheduleRequest {
  Strength said{};          // what the user says; a form 'dpir' written out
  bool sigma_open = true;   // nothing, not even a form, is said of sigma
  const SolverRow& solver;  // of options.iterations
  bool network = false;     // the prior is one
  bool takes_sigma = true;  // the denoiser
  bool pixels = false;      // every sample is a pixel of the image
  bool volume = false;      // the image has a depth
  bool convolves = false;   // every part of the operator is a convolution or a mask
  bool denoising = false;   // and every pixel has one, of equal noise
  double noise = 0;         // standard deviation of a sample of weight 1; 0: not known
  double L = 1;             // Lipschitz constant of the data term's gradient
};

/// Fills in step, sigma, level, lambda, weight and pixels of `options`, whose iterations are known. The rule was
/// chosen by measurement: docs/solvers.md and docs/defaults.md have the tables. InputError as settle().
void choose_schedules(const ScheduleRequest& in, SolverOptions& options);

}  // namespace tessera
