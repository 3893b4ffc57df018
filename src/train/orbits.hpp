// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scenes.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/train/train.hpp"

namespace tessera::training {

/// |2 D'(x) - 1| along given directions, per item (N), differentiable with respect to the weights; `image` is
/// D(x, sigma). D' v is the quotient (D(x + h v) - D(x)) / h, h = 2 sigma: small against the noise in every
/// pixel unless v is a single pixel, and large against float32's rounding. One backward pass then does what a
/// derivative of a derivative would.
/// x, v (N, C, H, W), |v| = 1 per item; sigma (N).
at::Tensor reflection_norm(const Graph& graph, const std::map<std::string, at::Tensor>& weights,
                           const at::Tensor& x, const at::Tensor& image, const at::Tensor& sigma,
                           const at::Tensor& v);

/// What a visit to orbits measured, over all ranks.
struct Visit {
  double penalty = 0;       // weight * mean of max(0, norm^2 - bound^2); in the loss
  double norm = 0;          // mean estimate of |2 D' - 1| over the orbits visited
  double largest_norm = 0;  // the largest of them
};

/// Small reconstructions that run beside the training, so that the penalty on |2 D' - 1| acts where
/// plug-and-play iterations lead and not only near noisy pictures.
///
/// Each orbit has its own crop, operator A (circular Gaussian blur, then a random mask or every second pixel;
/// any of them may be absent),
/// measurement y = A x + n and sigma. A visit takes one step of proximal gradient, x <- D(x - A'(A x - y),
/// sigma), with the weights as they are: patterns that would grow over hundreds of iterations do so here, and
/// meet the penalty. The direction of largest gain is kept along the orbit and turned by a few steps of the
/// power method per visit. After `length` visits, or when its values leave [-4, 5], an orbit begins anew.
/// If 2 D - 1 is nonexpansive, D is firmly so, and the iterations of pgd, hqs, admm converge.
/// Source: Pesquet, Repetti, Terris, Wiaux, "Learning maximally monotone operators for image recovery", SIAM
/// J. Imaging Sci. 14 (2021) 1206 (arXiv 2012.13247); there the points lie between clean and noisy pictures.
///
/// Orbit i belongs to rank i mod ranks. Random numbers depend on (seed, step, orbit) alone.
class Orbits {
 public:
  explicit Orbits(const TrainOptions& options);

  /// Visits the orbits of this step: adds the penalty's gradient to those of `weights` (leaves), then moves
  /// the orbits on. Collective.
  Visit visit(const Graph& graph, const std::map<std::string, at::Tensor>& weights,
              const std::vector<Picture>& pictures, std::int64_t step, const Communicator& comm);

  /// Collective: afterwards every rank holds the state of all orbits.
  void share(const Communicator& comm);
  /// By name, for the state file; complete after share(). Loading writes into these tensors.
  const std::map<std::string, at::Tensor>& state() const { return state_; }

 private:
  void begin(std::int64_t orbit, const std::vector<Picture>& pictures, std::int64_t step);
  at::Tensor measure(std::int64_t orbit, const at::Tensor& x) const;  // A x, (C, side, side)
  at::Tensor adjoint(std::int64_t orbit, const at::Tensor& y) const;  // A' y
  at::Tensor blur(std::int64_t orbit) const;                          // (side, side), symmetric
  float& number(std::int64_t orbit, int which);

  TrainOptions options_;
  at::Tensor image_, measured_, direction_;    // (orbits, C, side, side): where D is applied next, y, v
  at::Tensor mask_;                            // (orbits, 1, side, side): not 0 where measured
  at::Tensor numbers_;                         // (orbits, 3): sigma, width of the blur, visits left
  std::map<std::string, at::Tensor> state_{};  // the five above
};

}  // namespace tessera::training
