// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/samples/survey.hpp"

namespace tessera {

/// A line in seen.warnings where the samples say that a kernel is turned by half a turn, as correlation has it. Both
/// senses have one spectrum, so the data cannot tell them; but under the wrong one a deconvolved picture's edges come
/// apart. The middle of the measurement is deconvolved both ways (Wiener's filter for a picture of spectrum 1/f^2), and
/// its gradients' sizes to the power 0.3 are added up: the sharper picture has less, in most parts of it. `y`: samples
/// as light, corrected. Collective.
void warn_of_turned_kernel(const Measurement& y, const Measurement& marks, Surveyed& seen,
                           const Communicator& comm);

}  // namespace tessera
