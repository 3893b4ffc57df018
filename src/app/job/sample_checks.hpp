// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "tessera/app/problem.hpp"

namespace tessera {

/// Smallest and largest where `marks` is not 0; of host tensors. Collective.
std::array<double, 2> range_of(const Measurement& parts, const Measurement& marks, const Communicator& comm);

/// Whether samples have the range of the image, as those of a blur, or one of their own, as line integrals.
bool in_image_range(const RunPlan& plan);

/// Weights that are a compressed mask become 0 and 1, said in problem.notices; others stay. Collective.
void mark_weights(Measurement& weights, Problem& problem, const Communicator& comm);

/// InputError where all samples that count have one value and the others do not: marks the other way around.
/// Collective.
void refuse_inverted(const RunPlan& plan, const Measurement& y, const Measurement& marks,
                     const Communicator& comm);

/// Where a job says that a picture goes on from its last line to its first and the data show that it does not: a
/// warning, and `marks` 0 at the samples whose kernel reaches across. Collective.
void leave_out_seam(const RunPlan& plan, const Measurement& stored, Measurement& marks, Problem& problem,
                    const Communicator& comm);

/// Marks samples that pile up at the ends of their range in problem.ends, and says so. `stored`: as the file has them.
/// Collective.
void mark_ends(const RunPlan& plan, const Measurement& stored, const Measurement& marks, Problem& problem,
               const Communicator& comm);

/// A line in problem.warnings for each thing about measured values that is probably not meant: they fill little
/// of the range, leave it, pile up at their smallest or largest value, or have empty parts; or few bright ones
/// are far above a noise that no network knows. `marks`: 1 where a sample counts. The noise is known by now.
/// Collective.
void warn_of_values(const RunPlan& plan, const Measurement& y, const Measurement& marks, Problem& problem,
                    const Communicator& comm);

/// A line in problem.warnings where numbers below 0 were written in a type without a sign. `stored`: as the file has
/// them, internal range. Collective.
void warn_of_wrapped(const RunPlan& plan, const Measurement& stored, const Measurement& marks,
                     Problem& problem, const Communicator& comm);

/// A line in problem.warnings where every second slice, row or column, or pair of them, lies above those beside it by half the
/// noise or more. `y`: as inside. The noise is known by now. Collective.
void warn_of_alternate_lines(const RunPlan& plan, const Measurement& y, const Measurement& marks,
                             Problem& problem, const Communicator& comm);

/// Holds a Gaussian noise that the job states against the data's own, where a blur leaves nothing else in their
/// finest details: a line in problem.warnings where that is far larger, and with a solver that the program chose
/// it replaces what is stated. Collective.
void hold_against_data(const RunPlan& plan, const Measurement& y, const Measurement& marks, Problem& problem,
                       const Communicator& comm);

/// Whether samples are counts that may well be 0: under a Poisson likelihood, or noise with a gain.
bool may_be_zero(const RunPlan& plan, const NoiseModel& noise, double least);

/// Whether weights of a file only say which samples count: nothing but 0 and one of 1, 255, 65535. Where most
/// of those above 0 are one other number, inverse variances are assumed and held against the noise that the
/// data show. Says so in problem.notices or warnings. Collective.
bool weights_are_mask(const RunPlan& plan, const Measurement& weights, const Measurement& y,
                      const Measurement& marks, Problem& problem, const Communicator& comm);

}  // namespace tessera
