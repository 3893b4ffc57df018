// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <limits>
#include <memory>

#include "tessera/comm/exchange.hpp"
#include "tessera/core/tone_curve.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/space.hpp"

namespace tessera {

/// SSIM of one pair of images, by the two conventions in use. NaN where it is undefined.
struct Ssim {
  double reflected = std::numeric_limits<double>::quiet_NaN();  // mean over all pixels
  double valid = std::numeric_limits<double>::quiet_NaN();      // of the pixels whose window lies inside
};

/// Scores of a distributed image against a truth, both in range [0, 1], neither clamped unless said.
/// docs/metrics.md.
///
/// PSNR = -10 log10(MSE), squared error summed in double; infinite for equal images.
/// PSNR of 8-bit pictures: both clamped to [0, 1] and rounded to multiples of 1/255 first, as in most papers.
/// SSIM: Gaussian window 11 x 11, sigma 1.5, K = 0.01, 0.03, range 1, mean over pixels and channels (Wang,
/// Bovik, Sheikh, Simoncelli, IEEE Trans. Image Process. 13 (2004) 600). `reflected`: the image continues
/// beyond its border by reflection (torchmetrics 1.9); `valid`: pixels nearer than 5 to the border do not
/// count (scikit-image; undefined below 11 x 11). 2-D images.
class Metrics {
 public:
  /// `truth`: this rank's block. Collective.
  Metrics(at::Tensor truth, const Decomposition& decomposition, const Communicator& comm,
          std::shared_ptr<Transport> transport);
  /// Only `region`, a part of the image, is scored, as if it had been cut out of both images first.
  /// Images of light are scored as a file stores them under `curve`.
  Metrics(const at::Tensor& truth, const Decomposition& decomposition, const Communicator& comm,
          std::shared_ptr<Transport> transport, const Box& region, const ToneCurve& curve = {});
  ~Metrics();

  /// Rides on the iteration's reduction. `image`: this rank's whole block, here and below.
  Deferred psnr(const at::Tensor& image, Reducer& reducer) const;
  double psnr(const at::Tensor& image, const Space& space) const;       ///< collective, waits
  double psnr_8bit(const at::Tensor& image, const Space& space) const;  ///< collective, waits
  Ssim ssim(const at::Tensor& image, const Space& space);               ///< collective, waits

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// -10 log10(squared_error / samples): infinite without an error.
double psnr_of(double squared_error, double samples);

}  // namespace tessera
