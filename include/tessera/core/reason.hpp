// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <exception>
#include <new>
#include <string>

namespace tessera {

/// What an error of any library says, without the stack frames that torch's go on with.
inline std::string reason(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "there is not enough memory";
  const std::string text = error.what();
  return text.substr(0, std::min(text.find("\nException raised from "), text.find("\nframe #")));
}

}  // namespace tessera
