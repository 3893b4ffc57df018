// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <limits>

namespace tessera {

/// Whether an iteration still settles, from its fixed-point residuals and chi2 alone.
///
/// Residuals are smoothed: a running geometric mean over about 8 iterations. The best iteration is the one
/// with the smallest smoothed residual since the schedules stand still. An iteration grows where for 30
/// iterations there was no better one and the smoothed residual is 3 times the smallest, or chi2 is twice
/// what it was at the best iteration and above 1.5. It stands where 3 residuals in a row are no larger than 2
/// float32 epsilons: an iteration rounds the image at its data step and at its denoiser, each by up to half
/// an epsilon, so that two images which are equal but for rounding may be that far apart. Plug-and-play
/// iterations with networks can do that after hundreds of good iterations, by a pattern that grows slowly
/// (docs/solvers.md). Plain arithmetic, equal on all ranks; a plain struct, so that a checkpoint can hold it.
struct Watch {
  enum class Verdict { best, settling, growing };

  int count = 0;        // iterations seen since the schedules stand still
  double smoothed = 0;  // logarithms
  double smallest = std::numeric_limits<double>::infinity();
  int best = -1;         // iteration
  double best_chi2 = 0;  // at it
  int still = 0;         // iterations in a row that moved by rounding alone

  /// Iteration k's numbers; `settled`: step and sigma do not change any more. Until then the newest is best.
  Verdict see(int k, double residual, double chi2, bool settled);
  /// Whether further iterations would move nothing.
  bool stands() const;
  /// At the end: whether the best is to be trusted more than the last iteration, whose smoothed residual is
  /// twice as large or more.
  bool better_than(int last) const;
};

}  // namespace tessera
