// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// In double quotes, as YAML wants it: control characters by their numbers.
inline std::string quoted(const std::string& text) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) {
      out += {'\\', 'x', kDigits[code / 16], kDigits[code % 16]};
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}
/// A key of a map: quoted only where it is no plain word.
inline std::string quoted_key(const std::string& text) {
  for (const char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_')) return quoted(text);
  return text.empty() ? quoted(text) : text;
}

}  // namespace tessera
