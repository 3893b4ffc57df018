// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/job.hpp"
#include "tessera/core/tone_curve.hpp"
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/io/image_source.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/samples/few_bright.hpp"

namespace tessera {

/// What the job and headers say of samples that are to be judged. Equal on all ranks.
struct Survey {
  /// An operator of the job's list; none where it is in memory.
  struct Part {
    bool kernel = false;     // it has one
    bool own_range = false;  // its samples are not in the range of the image
    std::string boundary{};
  };
  const ProblemConfig& problem;
  Chosen chosen{};       // what the job leaves open
  bool network = false;  // one denoises
  std::vector<Part> parts{};
  bool scan = false, counts = false;  // the measurements are one; it has what a detector counted
  SourceInfo data{};                  // the file of the samples
  double offset = 0, factor = 1;      // file value = curve.stored(internal) * factor + offset
  ToneCurve curve{};
  bool curve_open = false;      // until the samples are seen
  bool curve_unsaid = false;    // neither job nor file say one, or that there is none
  at::TensorOptions options{};  // of what is made of them

  /// Whether samples have the range of the image, as those of a blur, or one of their own, as line integrals.
  bool in_image_range() const {
    return std::none_of(parts.begin(), parts.end(), [](const Part& part) { return part.own_range; });
  }
  /// Whether samples are counts that may well be 0: under a Poisson likelihood, or noise with a gain.
  bool may_be_zero(const NoiseModel& noise, double least) const {
    const bool are_counts = problem.likelihood.type == "poisson" || noise.poisson > 0;
    return are_counts && least <= noise.poisson / 2;  // below one count
  }
};

/// Samples, what they show, and what is to be said of them.
struct Surveyed {
  std::shared_ptr<DistributedOperator> A;
  Measurement y;        // internal range; corrected for dark frame and flat field
  Measurement weights;  // inverse to the variance, 1 on average over samples that count; empty: 1 everywhere
  Measurement
      ends;  // 1 at samples that are clipped at their largest value, -1 at their smallest; empty: none
  double noise_sigma = 0;        // internal range, > 0: the variance of a sample is noise_sigma^2 / weight
  NoiseModel noise;              // what it comes from; both 0 where weights of a file say it
  std::string noise_source;      // how it is known, for one line
  bool noise_estimated = false;  // `noise` is the data's own estimate and serves all samples
  bool noise_replaced = false;   // `noise` is that estimate in place of what the job says
  double noise_proportional =
      0;            // above 0: each sample's is so much of the signal; `noise` is that of their mean
  ToneCurve curve;  // in which the file of y stores light, which y is
  bool noise_colored = false;    // it is weaker in fine details than white noise of its level
  bool noise_uneven = false;     // its level is that of places where it is stronger
  bool noise_patterned = false;  // it was found between the peaks of a regular pattern
  bool noise_doubtful = false;   // it was estimated, and what shows of it is not white
  bool noise_stored = false;     // `noise` is of stored values, and of y by the curve's slope
  bool compressed = false;       // by JPEG, which takes some of its noise
  bool mosaic = false;           // neighbors are of two kinds, which was said
  bool marked = false;           // weights are 0 and 1: they only say which samples count
  double missing = 0;            // share of the samples that does not count
  std::optional<FewBright> few_bright;
  std::vector<std::string> notices;   // one line each, for the user
  std::vector<std::string> warnings;  // of values that are probably not meant
};

}  // namespace tessera
