// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/space.hpp"

namespace tessera {

/// Scores of a distributed image against a truth, both in range [0, 1], neither clamped.
///
/// PSNR = -10 log10(MSE), capped at 80 dB, squared error summed in double.
/// SSIM: Gaussian window 11 x 11, sigma 1.5, K = 0.01, 0.03, range 1, the image reflected at its border, mean
/// over all pixels and channels (Wang, Bovik, Sheikh, Simoncelli, IEEE Trans. Image Process. 13 (2004) 600;
/// the border as in torchmetrics 1.9). 2-D images.
class Metrics {
 public:
  /// `truth`: this rank's block. Collective.
  Metrics(at::Tensor truth, const Decomposition& decomposition, const Communicator& comm,
          std::shared_ptr<Transport> transport);
  ~Metrics();

  /// Rides on the iteration's reduction.
  Deferred psnr(const at::Tensor& image, Reducer& reducer) const;
  double psnr(const at::Tensor& image, const Space& space) const;  ///< collective, waits
  double ssim(const at::Tensor& image, const Space& space);        ///< collective, waits

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// -10 log10(squared_error / samples), at most 80 dB.
double psnr_of(double squared_error, double samples);

}  // namespace tessera
