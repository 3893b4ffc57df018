// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// To what a JPEG file's details were rounded: the root mean square of the steps of its first table (of the
/// luminance) over the quarters of lowest and of highest frequencies, in the file's 8-bit units.
struct JpegSteps {
  double low = 0, high = 0;
  bool coarse_color = false;  // its color has fewer samples than its luminance
};

/// All 0: no such file, or none that can be read. Not collective.
/// Source: ITU-T T.81 (1992), B.2.2 and B.2.4.1; the zigzag order is figure 5's.
JpegSteps jpeg_steps(const std::string& path);

}  // namespace tessera
