// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "tessera/comm/exchange.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/space.hpp"

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
  /// Bytes this rank sends per call; for iterative denoisers per inner iteration, see `bytes_are_exact`.
  virtual std::int64_t bytes_sent() const = 0;
  virtual bool bytes_are_exact() const { return true; }
  /// What was chosen, for resolved.yaml and the log: mode, patch, batch, windows, halo.
  virtual std::string description() const = 0;
};

enum class ExecutionMode { automatic, whole, patch, layer };
/// One pass, or the mean over flips and rotations: cycle takes the next of the 8 at every call.
enum class Averaging { none, cycle, flips4, all8 };

struct ExecutionOptions {
  ExecutionMode mode = ExecutionMode::automatic;
  std::int64_t patch = 0;  // side of a core; 0: chosen
  std::int64_t batch = 0;  // windows per call; 0: chosen
  Averaging averaging = Averaging::none;
  bool fused = true;  // fused and packed convolutions where the library has them
  at::ScalarType type = at::kFloat;
  Device device;
};

/// What a denoiser is built on: image layout, where messages go.
struct DenoiserContext {
  Decomposition decomposition;
  std::int64_t channels = 1;  // of the image
  Communicator comm;
  std::shared_ptr<Transport> transport;
};

/// A network run on whole images (one rank) or on windows with exact halos. Gray images through a color
/// network are replicated and averaged. InputError where the mode cannot work (whole on more than one rank).
std::unique_ptr<Denoiser> make_network_denoiser(Network network, const ExecutionOptions& options,
                                                const DenoiserContext& context);

/// argmin_x 1/2 |x - v|^2 + weight * sigma * TV(x), isotropic, per channel: a distributed Condat iteration.
struct TotalVariationOptions {
  double weight = 1.0;      // strength = weight * sigma
  int iterations = 100;     // inner iterations, at most
  double tolerance = 1e-5;  // relative change that ends them
};
std::unique_ptr<Denoiser> make_total_variation(const TotalVariationOptions& options,
                                               const DenoiserContext& context, at::TensorOptions tensor);

/// D(in) = in: no prior.
std::unique_ptr<Denoiser> make_identity_denoiser();

}  // namespace tessera
