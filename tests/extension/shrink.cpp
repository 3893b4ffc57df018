// SPDX-License-Identifier: BSD-3-Clause
// A denoiser that is a function: values are drawn toward one level, the farther the less.
#include <ATen/core/Tensor.h>
#include <ATen/ops/sub.h>

#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {

DenoiserRow shrink() {
  const Option level{"level", 0.5, {}, "", "toward which values are drawn"};
  return {.name = "shrink",
          .options = {level},
          .make = [level](const DenoiserContext&, const Options& options, at::TensorOptions) {
            const double m = options.number(level);
            return make_function_denoiser(
                [m](const at::Tensor& in, double sigma, at::Tensor& out) {
                  at::sub_out(out, in, in.sub(m).clamp_(-sigma, sigma));  // soft thresholding about m
                },
                "shrink");
          }};
}

}  // namespace tessera
