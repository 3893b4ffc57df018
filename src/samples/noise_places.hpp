// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/samples/survey.hpp"

namespace tessera {

/// An estimated level (problem.noise) held against the places of the measurement: where it is stronger over much of the
/// picture, that level is taken; neighbors of two kinds (a mosaic of colors) are not noise. One line each in
/// seen.warnings. `y`: as inside. Collective.
void hold_noise_against_places(const Survey& survey, const Measurement& y, const Measurement& marks,
                               Surveyed& seen, const Communicator& comm);

/// Weights of a file, whose samples are to scatter the less the larger they are: InputError where it is the other way
/// around (standard deviations, variances), a line where they look like roots. `told`: the job says the level, so that
/// only a line is said. Collective.
void hold_weights_against_scatter(const Survey& survey, const Measurement& weights, const Measurement& y,
                                  const Measurement& marks, bool told, Surveyed& seen,
                                  const Communicator& comm);

/// Leaves out an empty part of the measurement: a hundredth of the samples or more that lie side by side, have the
/// smallest value and are far below all others, which noise does not do. Nothing where the job has weights. Collective.
void leave_out_empty_part(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                          const Communicator& comm);

}  // namespace tessera
