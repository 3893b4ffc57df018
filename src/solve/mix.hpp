// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tessera {

/// Every bit of the input reaches every bit: splitmix64's finalizer (Steele, Lea, Flood, OOPSLA 2014).
inline std::uint64_t mix(std::uint64_t v) {
  v += 0x9e3779b97f4a7c15ULL;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ULL;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebULL;
  return v ^ (v >> 31);
}

}  // namespace tessera
