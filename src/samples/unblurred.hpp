// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/samples/survey.hpp"

namespace tessera {

/// Leaves out parts of a blurred measurement that the blur did not make: bars beside a picture, marks and text burnt in,
/// a dark outside of a round field, the corners of a turned photograph. They have one value, or nearly one from a corner
/// of the frame on, and edges that are sharper than the kernel makes any. One line in seen.notices. `stored`: as the
/// file has them. Collective.
void leave_out_unblurred(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                         const Communicator& comm);

/// Leaves out samples beside missing ones that lie far below all others: their number for nothing (-9999) was mixed into
/// them as the picture was resampled. One line in seen.notices. `stored`: as the file has them. Collective.
void leave_out_blended(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                       const Communicator& comm);

}  // namespace tessera
