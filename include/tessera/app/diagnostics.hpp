// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/app/output.hpp"
#include "tessera/denoise/denoiser.hpp"

namespace tessera {

/// How much D(., sigma) stretches small changes v of an image: |D(x + v) - D(x)| / |v|, each v the change
/// that came out before, scaled to 0.01 at its largest. Power iteration on the Jacobian without its
/// transpose: every gain is a lower bound of the local Lipschitz constant; the last one approaches the
/// largest eigenvalue by absolute value, where it is real and the iteration long enough.
struct Expansion {
  std::vector<double> gains;
  double largest() const;
  double last() const { return gains.empty() ? 0 : gains.back(); }
};
/// `start`: 0: the first v is D(x) - x, which lies where networks expand, at edges; else random, of this
/// seed. passes + 1 calls of the denoiser, which is left in the state it had; one that cycles over flips is
/// held at its next one. Arithmetic below float32 rounds more than such changes. Collective.
Expansion expansion(Denoiser& denoiser, const at::Tensor& x, double sigma, int passes, std::uint64_t start,
                    const Decomposition& decomposition, const Space& space);

/// How a result was reached, as far as its faults may come from that.
struct Solved {
  double sigma = 0;  // the level of the denoiser at the end
  int iterations = 0;
  double moved = 0;         // by the last iteration, relative
  double strength = 0;      // lambda; NaN: not known
  bool stated = true;       // the noise, by the job; else it was found in the data
  bool colored = false;     // the noise falls towards fine details
  bool compressed = false;  // the file has less of it than its camera had
  bool clipped = false;     // samples at the ends of their range are bounds
  bool gradient = false;    // by small steps down the gradient
};

/// Judges a result without knowing the truth: the `diagnostics` of summary.json. Writes residual.png (gray is
/// 0, black and white are 4 noise levels; of the first part, where that is a picture of at most 4096 x 4096)
/// and chi2.png (blue 0, white 1, red 3); of a scan also geometry.png. expansion() of a network in float32 at its level takes a tenth of the
/// run's passes, 11 at most; none in runs of fewer than 30 iterations. `warnings`: a line each, what is off and
/// what to do. Collective.
nlohmann::ordered_json diagnose(const RunPlan& plan, DataTerm& data, const at::Tensor& image,
                                Denoiser& denoiser, const Solved& solved, const OutputFolder& folder,
                                const Space& space, std::vector<std::string>& warnings);

}  // namespace tessera
