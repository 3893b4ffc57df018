// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// Few samples far above all others, and above their noise, as of stars.
struct FewBright {
  std::string seen;         // for a line: how many, how bright, how much noise
  bool faint = false;       // so little noise that networks leave marks beside them
  double least = 0;         // noise, of the brightest, that networks were trained on
  bool starry = false;      // blurred, and they may be counts
  bool gain_known = false;  // of the counts
};

}  // namespace tessera
