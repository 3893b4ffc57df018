// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "tessera/denoise/denoiser.hpp"

namespace tessera {

struct TotalVariationOptions {
  double weight = 1.0;      // strength = weight * sigma^2 / s, s the noise level; weight * sigma without one
  int iterations = 100;     // inner iterations, at most
  double tolerance = 1e-5;  // relative change of the image that ends them
  bool warm_start = false;  // begin where the last call ended; results then depend on the calls before
};
/// argmin_x 1/2 |x - v|^2 + strength * TV(x): isotropic, per channel, forward differences, in 2-D or 3-D.
/// The strength goes with sigma^2, so that g = weight / s TV is the same prior for every step of a solver
/// (solve/strength.hpp).
///
/// Accelerated projected gradient on the dual problem, halos exchanged every few inner iterations; the result
/// is that of one rank. Source: Beck, Teboulle, IEEE Trans. Image Process. 18 (2009) 2419.
std::unique_ptr<Denoiser> make_total_variation(const TotalVariationOptions& options,
                                               const DenoiserContext& context, at::TensorOptions tensor);

}  // namespace tessera
