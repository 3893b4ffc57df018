// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/denoise/network.hpp"
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
  /// Bytes this rank sends per call; for iterative denoisers per inner iteration, see `bytes_are_exact`.
  virtual std::int64_t bytes_sent() const = 0;
  virtual bool bytes_are_exact() const { return true; }
  /// What was chosen, for resolved.yaml and the log: mode, patch, batch, windows, halo.
  virtual std::string description() const = 0;
  /// One line that the user should read (a gray image through a color network); empty: nothing to say.
  virtual std::string notice() const { return {}; }
  /// What the next call depends on beside its arguments, for checkpoints.
  virtual std::vector<StateField> state() { return {}; }
  /// Automatic choices that the result's last bits depend on, by their key in the job: a resumed run keeps
  /// them.
  virtual std::vector<std::pair<std::string, std::int64_t>> choices() const { return {}; }
};

enum class ExecutionMode { automatic, whole, patch, layer };
/// One pass, or the mean over flips and rotations: cycle takes the next of the 8 at every call.
enum class Averaging { none, cycle, flips4, all8 };

struct ExecutionOptions {
  ExecutionMode mode = ExecutionMode::automatic;
  std::int64_t patch = 0;  // side of a core; 0: chosen
  std::int64_t batch = 0;  // windows per call; 0: chosen
  Averaging averaging = Averaging::none;
  bool fused = true;                 // fused and packed convolutions where the library has them
  at::ScalarType type = at::kFloat;  // of the arithmetic; kDouble wants float64 images, all others float32
  bool tf32 = false;                 // CUDA only, with kFloat
  std::int64_t memory_bytes = 0;     // that features of one call may take; 0: any
  std::int64_t halo = -1;            // pixels around a core; -1: what exactness needs. Less is approximate.
  int halo_depth = 0;                // layer mode: convolutions that share an exchange; 0: chosen
  bool deterministic = false;        // CUDA only: the same bits every time
  Device device{};
};

/// What a denoiser is built on: image layout, where messages go.
struct DenoiserContext {
  Decomposition decomposition;
  std::int64_t channels = 1;  // of the image
  Communicator comm;
  std::shared_ptr<Transport> transport;
};

/// A network run on whole images (one rank); on windows with exact halos, one exchange per call; or layer by
/// layer on whole blocks, a thin halo for each convolution. Gray images through a color network are
/// replicated and averaged. Automatic: the whole image, or block, as one window where memory allows, else the
/// fewest windows that fit. InputError where the mode cannot work (whole on more than one rank), equal on all
/// ranks. The blocks must be cut on the network's alignment.
std::unique_ptr<Denoiser> make_network_denoiser(Network network, const ExecutionOptions& options,
                                                const DenoiserContext& context);

/// Bytes that `rank` sends per call of such a denoiser, by arithmetic alone; float32 images.
std::int64_t network_bytes_sent(const Decomposition& decomposition, std::int64_t halo, std::int64_t channels,
                                int rank);

/// Its exchange: own image pixels -> blocks with their halos; the padding at the image's end is filled on the
/// way.
ExchangePlan network_plan(const Decomposition& decomposition, std::int64_t halo, int rank);

/// Convolutions that share an exchange in layer mode: what the options say, or a choice by the blocks' size.
int layer_halo_depth(const Graph& graph, const Decomposition& decomposition, const ExecutionOptions& options);

/// What each rank sends per call in layer mode, by arithmetic alone. Averaging multiplies it; with
/// Averaging::cycle it is one pass.
class LayerTraffic {
 public:
  LayerTraffic(const Graph& graph, const Decomposition& decomposition, const ExecutionOptions& options,
               std::int64_t channels);
  LayerTraffic(LayerTraffic&&) noexcept;
  LayerTraffic& operator=(LayerTraffic&&) noexcept;
  ~LayerTraffic();

  /// Exchanges of one kind: this many per call, each of so many bytes in so many messages.
  struct Exchanges {
    std::int64_t count = 0, bytes = 0, messages = 0;
  };
  std::vector<Exchanges> of(int rank) const;
  std::int64_t exchanges() const;  // per call
  std::int64_t bytes_sent(int rank) const;
  std::int64_t messages(int rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TotalVariationOptions {
  double weight = 1.0;      // strength = weight * sigma^2 / s, s the noise level; weight * sigma without one
  int iterations = 100;     // inner iterations, at most
  double tolerance = 1e-5;  // relative change of the image that ends them
  bool warm_start = false;  // begin where the last call ended; results then depend on the calls before
};
/// argmin_x 1/2 |x - v|^2 + strength * TV(x): isotropic, per channel, forward differences, in 2-D or
/// 3-D. The strength
/// goes with sigma^2, so that g = weight / s TV is the same prior for every step of a solver
/// (solve/strength.hpp).
///
/// Accelerated projected gradient on the dual problem, halos exchanged every few inner iterations; the result
/// is that of one rank. Source: Beck, Teboulle, IEEE Trans. Image Process. 18 (2009) 2419.
std::unique_ptr<Denoiser> make_total_variation(const TotalVariationOptions& options,
                                               const DenoiserContext& context, at::TensorOptions tensor);

/// D, and below `level`, where a network does not contract, in + (sigma / level)^2 (D(in, level) - in).
///
/// By Tweedie's formula D(in, sigma) - in = sigma^2 grad log p_sigma(in): the gradient at `level` serves
/// below it. So |D(in, sigma) - in| falls with sigma^2, the bounded denoiser of Chan, Wang, Elgendy, IEEE
/// Trans. Comput. Imaging 3 (2017) 84. `inner` must outlive it.
std::unique_ptr<Denoiser> make_continued(Denoiser& inner, double level);

/// D(in) = in: no prior.
std::unique_ptr<Denoiser> make_identity_denoiser();

}  // namespace tessera
