// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/samples/survey.hpp"

namespace tessera {

/// InputError where a mask or weights of 0 and 1 count what is no part of the picture: less than half of the samples
/// count, they lie far from the others around them and have little range, and the others hold a picture. Scratches,
/// dust and writing that were marked do so. Collective.
void refuse_marked_flaws(const Survey& survey, const Measurement& y, const Measurement& marks,
                         const ProductSpace& layout, const Communicator& comm);

/// InputError where weights are few whole numbers of which one stands at samples that are no part of the picture that
/// most hold, and is larger than theirs: codes of quality or classes. A line in seen.warnings where it is less, but not
/// much, where the job states a noise, and where the numbers alone tell it: large ones that differ by less than a tenth; a notice of others.
/// True: samples of one of them are another picture, whose noise says nothing of the weights. Collective.
bool refuse_class_codes(const Survey& survey, const Measurement& weights, const Measurement& y,
                        const Measurement& marks, Surveyed& seen, const Communicator& comm);

}  // namespace tessera
