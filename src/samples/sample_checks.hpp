// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "tessera/samples/survey.hpp"

namespace tessera {

/// Smallest and largest where `marks` is not 0; of host tensors. Collective.
std::array<double, 2> range_of(const Measurement& parts, const Measurement& marks, const Communicator& comm);

/// The convolution of which a part's samples are a picture, on its own grid; null: they are something else.
const Convolution* picture_kernel(const OperatorTraits& traits, const ProductSpace& layout, std::size_t part);

/// Weights that are a compressed mask become 0 and 1, said in seen.notices; others stay. Collective.
void mark_weights(Measurement& weights, Surveyed& seen, const Communicator& comm);

/// InputError where all samples that count have one value and the others do not: marks the other way around.
/// Collective.
void refuse_inverted(const Survey& survey, const Measurement& y, const Measurement& marks,
                     const Communicator& comm);

/// Where a job says that a picture goes on from its last line to its first and the data show that it does not: a
/// warning, and `marks` 0 at the samples whose kernel reaches across. Collective.
void leave_out_seam(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                    const Communicator& comm);

/// `marks` 0, and a note, where samples were replaced by the smallest or the largest number, each alone. Collective.
void leave_out_impulses(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                        const Communicator& comm);

/// `marks` 0, and a note, where slices, rows or columns of a blurred picture are exact copies of those beside them: a frame
/// that was filled, lost lines. Collective.
void leave_out_copies(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                      const Communicator& comm);

/// Marks samples that pile up at the ends of their range in seen.ends, and says so. `stored`: as the file has them.
/// Collective.
void mark_ends(const Survey& survey, const Measurement& stored, const Measurement& marks, Surveyed& seen,
               const Communicator& comm);

/// A line in seen.warnings where numbers below 0 were written in a type without a sign. `stored`: as the file has
/// them, internal range. Collective.
void warn_of_wrapped(const Survey& survey, const Measurement& stored, const Measurement& marks,
                     Surveyed& seen, const Communicator& comm);

/// A line in seen.warnings where every second slice, row or column, or pair of them, lies above those beside it by
/// half the noise or more. `y`: as inside. The noise is known by now. Collective.
void warn_of_alternate_lines(const Survey& survey, const Measurement& y, const Measurement& marks,
                             Surveyed& seen, const Communicator& comm);

/// A line in seen.warnings where rows or columns of a blurred picture do not go on from those before them: single ones, or
/// all, unless something was `told` of lines. `y`: as inside. Collective.
void warn_of_misfits(const Survey& survey, const Measurement& y, const Measurement& marks, bool told,
                     Surveyed& seen, const Communicator& comm);

/// A line in seen.warnings where rows or columns of a blurred picture have an offset of their own each. `y`: as inside. The
/// noise is known by now. Collective.
void warn_of_line_offsets(const Survey& survey, const Measurement& y, const Measurement& marks,
                          Surveyed& seen, const Communicator& comm);

/// A line in seen.warnings where samples are darker where the flat field, by which they will be divided, is larger: it
/// is a gain. `y`: as inside, not divided yet. Collective.
void warn_of_inverse_flat(const Measurement& y, const Measurement& flat, const Measurement& marks,
                          Surveyed& seen, const Communicator& comm);

/// Holds a Gaussian noise that the job states against the data's own, where a blur leaves nothing else in their
/// finest details: a line in seen.warnings where that is far larger, and with a solver that the program chose
/// it replaces what is stated. Collective.
void hold_against_data(const Survey& survey, const Measurement& y, const Measurement& marks, Surveyed& seen,
                       const Communicator& comm);

/// Whether weights of a file only say which samples count: nothing but 0 and one of 1, 255, 65535. Where most
/// of those above 0 are one other number, inverse variances are assumed and held against the noise that the
/// data show. Says so in seen.notices or warnings. Collective.
bool weights_are_mask(const Survey& survey, const Measurement& weights, const Measurement& y,
                      const Measurement& marks, Surveyed& seen, const Communicator& comm);

}  // namespace tessera
