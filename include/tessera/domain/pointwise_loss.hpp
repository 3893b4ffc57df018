// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace tessera {

/// phi(m; y), convex in m = (A x)_i, of one sample y: what a data term sums.
///
/// Tensors of one part, elementwise, any real type and device. f / s_n^2 is the negative log-likelihood up to
/// a constant, s_n the noise level. Not collective.
class PointwiseLoss {
 public:
  virtual ~PointwiseLoss() = default;
  virtual at::Tensor value(const at::Tensor& m, const at::Tensor& y) const = 0;
  virtual at::Tensor derivative(const at::Tensor& m, const at::Tensor& y) const = 0;
  /// phi'' at m; where it jumps, one of its values.
  virtual at::Tensor curvature(const at::Tensor& m, const at::Tensor& y) const = 0;
  /// The largest curvature for each sample, over all m.
  virtual at::Tensor steepest(const at::Tensor& y) const = 0;
  /// argmin_u  gamma phi(u; y) + (u - z)^2 / 2.
  virtual at::Tensor prox(const at::Tensor& z, double gamma, const at::Tensor& y) const = 0;
  /// Of counts: b, what is there without an image; others are no counts.
  virtual std::optional<double> background() const { return std::nullopt; }
  /// Squared deviation of y from m over its variance: 1 on average where the model holds.
  virtual at::Tensor deviation(const at::Tensor& m, const at::Tensor& y) const = 0;
};

/// Poisson counts with gain g over a background b: y + b = g P((m + b) / g), b taken off the data.
///
///   phi = s_n^2 / g (v - c log v),  v = m + b,  c = max(y + b, 0)
///
/// (Kullback and Leibler's divergence, up to a constant), continued below e = max(b, c / 4, g / 4) by a parabola
/// of its slope and curvature there, or of (e - c) / e^2 where that is more, so that it is finite, its curvature
/// bounded, and no negative mean likelier than 0: a quarter of a count's own value is an unlikely mean, and
/// without a count phi alone would be a line that falls for ever. With read noise of variance r^2 beside the counts pass b + r^2 / g: the shifted Poisson
/// approximation. Source: Bertero, Boccacci, Desidera, Vicidomini, Inverse Problems 25 (2009) 123006;
/// Snyder, Hammoud, White, J. Opt. Soc. Am. A 10 (1993) 1014 (the shift).
std::unique_ptr<PointwiseLoss> make_poisson_loss(double gain, double background, double noise_sigma);

/// Huber's: (m - y)^2 / 2 up to |m - y| = t s_n, straight lines beyond: outliers pull with a bounded force.
/// Source: Huber, Ann. Math. Stat. 35 (1964) 73.
std::unique_ptr<PointwiseLoss> make_huber_loss(double threshold, double noise_sigma);

}  // namespace tessera
