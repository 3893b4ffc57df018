// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/samples/survey.hpp"

namespace tessera {

/// A line in seen.warnings where the samples say that a kernel is turned by half a turn, as correlation has it,
/// mirrored or transposed: under the wrong sense a deconvolved picture's edges come apart. The middle of the
/// measurement is deconvolved in each (Wiener's filter for a picture of spectrum 1/f^2), and its gradients' sizes to
/// the power 0.3 are added up: the sharper picture has less, in most parts of it. Both ends of a half turn have one
/// spectrum. The others do not, and a picture with a grain may look sharper under a wrong one: there the
/// measurement's power must be more than the noise's where the given kernel leaves none, or, where there are too few
/// such places, the phases must be better under either spectrum. `y`: samples as light, corrected. Collective.
void warn_of_turned_kernel(const Measurement& y, const Measurement& marks, Surveyed& seen,
                           const Communicator& comm);
/// Likewise where kernels of single channels lie in another order than those of the image: where one channel's kernel
/// leaves noise alone and another's a picture, the first has no picture and the other has one, or they are exchanged.
/// Collective.
void warn_of_exchanged_kernels(const Measurement& y, const Measurement& marks, Surveyed& seen,
                               const Communicator& comm);

}  // namespace tessera
