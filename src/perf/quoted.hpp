// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// In double quotes, as YAML wants it.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace tessera
