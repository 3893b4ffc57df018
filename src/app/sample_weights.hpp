// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/app/problem.hpp"

namespace tessera {

/// A measurement as it comes in, in internal range, this rank's samples.
struct Samples {
  Measurement y;        // as measured, float32; dark frame and flat field are not yet applied
  Measurement dark;     // to subtract, float32 on the host; empty: 0
  Measurement flat;     // sensitivity of each sample, mean 1, float32 on the host; empty: 1
  Measurement weights;  // as the file has them, float32 on the host; empty: none are given
  bool simulated = false;
};

/// Decides which samples count, what the noise is, and what each sample weighs; fills in Problem::y, weights,
/// noise, noise_sigma, noise_source and notices. Collective; the same bits for any number of ranks.
void weigh_samples(const Geometry& g, Samples samples, Problem& problem, const Communicator& comm);

}  // namespace tessera
