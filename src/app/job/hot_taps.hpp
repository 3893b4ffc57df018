// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "job/kernel_background.hpp"

namespace tessera {

/// Single taps far above all that touch them, of a kernel that is a smooth spot elsewhere: hot pixels of the camera
/// that measured it. They become the median of their neighbors, with a line. Motion one pixel wide, masks and sparse
/// kernels have no smooth spot, a sharp core on a halo is in its middle: they stay. True: there were some.
bool mend_hot_taps(Taps& k, const Warn& warn);

}  // namespace tessera
