// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The words of an enum in job files, on the command line and in what is written, in the order of its values:
/// one list beside each such enum. Nothing else turns the one into the other.
template <class E>
inline constexpr std::array<const char*, 0> kWords{};

template <class E>
const char* word(E value) {
  return kWords<E>[static_cast<std::size_t>(value)];
}

template <class E>
std::optional<E> from_word(std::string_view text) {
  for (std::size_t i = 0; i < kWords<E>.size(); ++i)
    if (text == kWords<E>[i]) return static_cast<E>(i);
  return std::nullopt;
}

template <class E>
std::vector<std::string> words() {
  return {kWords<E>.begin(), kWords<E>.end()};
}

}  // namespace tessera
