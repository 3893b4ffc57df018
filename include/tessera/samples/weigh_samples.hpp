// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <string>

#include "tessera/samples/survey.hpp"

namespace tessera {

/// A measurement as it comes in, in internal range, this rank's samples.
struct Samples {
  Measurement y;        // as measured, float32; dark frame and flat field are not yet applied
  Measurement dark;     // to subtract, float32 on the host; empty: 0
  Measurement flat;     // sensitivity of each sample, mean 1, float32 on the host; empty: 1
  Measurement weights;  // float32 on the host, times weight_unit what the file has; empty: none are given
  double weight_unit = 1;
  bool weights_compare = false;  // they say how samples compare, up to a factor
  std::string weightless = {};   // what samples of weight 0 have, for a message; empty: weight 0
  std::int64_t no_weight = 0;    // how many weights of all ranks are no numbers, which became 0
  Measurement flagged = {};      // float32 on the host, not 0 where flags say bad; empty: no flags
  std::string flags = {};        // what those are, for a message
  double masked = INFINITY;      // y from here on are marks of masked pixels
  std::string mark = {};         // what such a sample has in the file
  bool simulated = false;
  NoiseModel noise{};  // that was simulated, quantization included; both 0: none
  bool light = false;  // y is light already, whatever curve its file has
};

/// Decides which samples count, what the noise is, and what each sample weighs; fills in Surveyed::y, weights,
/// noise, noise_sigma, noise_source and notices. Collective; the same bits for any number of ranks.
void weigh_samples(const Survey& survey, Samples samples, Surveyed& seen, const Communicator& comm);

/// A line in seen.warnings for each thing about measured values that is probably not meant: they fill little
/// of the range, leave it, pile up at their smallest or largest value, or have empty parts; or few bright ones
/// are far above a noise that no network knows. `marks`: 1 where a sample counts. The noise is known by now.
/// Collective.
void warn_of_values(const Survey& survey, const Measurement& y, const Measurement& marks, Surveyed& seen,
                    const Communicator& comm);

}  // namespace tessera
