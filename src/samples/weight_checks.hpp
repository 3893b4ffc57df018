// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "tessera/samples/survey.hpp"

namespace tessera {

/// InputError where weights or a mask count bad samples, not good ones: flags, of which 0 is good. That shows where
/// most samples do not count, though they hold a picture, and the few others lie scattered, and are outliers of their
/// neighbors or have several whole numbers as weights. `weights`: of the file, empty: of a mask. Collective.
void refuse_flags(const Survey& survey, const Measurement& weights, const Measurement& y,
                  const Measurement& marks, const ProductSpace& layout, const Communicator& comm);

/// InputError where few samples have weights of 1e4 times the middle one and more, which would count alone: maps of
/// standard deviations mark bad samples by 1e30. Collective.
void refuse_few_heavy(const Survey& survey, const Measurement& weights, const Measurement& marks,
                      const Communicator& comm);

/// Inverse variances of a file held against the data: `stated` is the deviation of a sample of average weight, internal
/// range, `even` the samples times the root of the (smoothed) weight over their mean. The deviation that the data show,
/// where it is another by so much that the weights are known up to a factor; else nothing. In between a line in
/// seen.warnings. Collective.
std::optional<double> level_of_data(const Survey& survey, const Measurement& even, const Measurement& marks,
                                    double stated, Surveyed& seen, const Communicator& comm);

/// A line in seen.warnings where weights are a function of each sample itself, as 1 / counts, while the samples have noise:
/// those that it made dark then weigh more. Collective.
void warn_of_own_weights(const Measurement& weights, const Measurement& y, const Measurement& marks,
                         Surveyed& seen, const Communicator& comm);

}  // namespace tessera
