// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/domain/state.hpp"

namespace tessera {

/// D(in, sigma) on a distributed image.
///
/// Shapes: (C, [D,] H, W), this rank's block, float32 (float64 for tests). sigma in the image's range.
/// Collective.
class Denoiser {
 public:
  virtual ~Denoiser() = default;
  /// out <- D(in, sigma); out has in's shape and is another tensor.
  virtual void apply(const at::Tensor& in, double sigma, at::Tensor& out) = 0;
  /// The noise level s of the data, once it is known: what D(., sigma) is the prox of, sigma^2 g, may depend
  /// on it.
  virtual void set_noise(double s) {}
  /// This rank's share of sigma^2 g(x), 0-dim float64, where D(., sigma) is the prox of sigma^2 g and g is
  /// known; undefined else (of networks, which are no prox). Collective.
  virtual at::Tensor prior(const at::Tensor& x, double sigma) { return {}; }
  /// This rank's share of g(in) of the last apply(in, sigma, out), 0-dim float64, where D(x, sigma) =
  /// x - grad g(x) and g is known and was asked for (NetworkOptions::potential); undefined else.
  virtual at::Tensor potential() const { return {}; }
  /// Bytes this rank sends per call; for iterative denoisers per inner iteration, see `bytes_are_exact`.
  virtual std::int64_t bytes_sent() const = 0;
  virtual bool bytes_are_exact() const { return true; }
  /// What was chosen, for resolved.yaml and the log: mode, patch, batch, windows, halo.
  virtual std::string description() const = 0;
  /// One line that the user should read (a gray image through a color network); empty: nothing to say.
  virtual std::string notice() const { return {}; }
  /// What the next call depends on beside its arguments, for checkpoints.
  virtual std::vector<StateField> state() { return {}; }
  /// Gives back what the last call left for the next one: its features, not the weights.
  virtual void release() {}
  /// Automatic choices that the result's last bits depend on, by their key in the job: a resumed run keeps
  /// them.
  virtual std::vector<std::pair<std::string, std::int64_t>> choices() const { return {}; }
};

/// What a denoiser is built on: image layout, where messages go.
struct DenoiserContext {
  Decomposition decomposition;
  ImageSpace image;
  Communicator comm;
  std::shared_ptr<Transport> transport;
};

/// D, and below `level`, where a network does not contract, in + (sigma / level)^2 (D(in, level) - in).
///
/// By Tweedie's formula D(in, sigma) - in = sigma^2 grad log p_sigma(in): the gradient at `level` serves
/// below it. So |D(in, sigma) - in| falls with sigma^2, the bounded denoiser of Chan, Wang, Elgendy, IEEE
/// Trans. Comput. Imaging 3 (2017) 84. `inner` must outlive it.
std::unique_ptr<Denoiser> make_continued(Denoiser& inner, double level);

/// `early` from `level` on, `exact` below: strong noise levels forgive a coarser arithmetic, the last ones make the
/// result. Working memory is that of one of them. Neither may have a state of its own. `exact` must outlive it.
std::unique_ptr<Denoiser> make_early(std::unique_ptr<Denoiser> early, Denoiser& exact, double level);

/// out <- f(in, sigma), pixel by pixel or block by block: f sees this rank's block alone, (C, [D,] H, W), and
/// may be any callable. `description`: what it is, for the log.
std::unique_ptr<Denoiser> make_function_denoiser(
    std::function<void(const at::Tensor& in, double sigma, at::Tensor& out)> f, std::string description);

/// D(in) = in: no prior.
std::unique_ptr<Denoiser> make_identity_denoiser();

}  // namespace tessera
