// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace tessera::io {

/// A number as its bytes lie in a file; `swapped`: not in this machine's order.
using NumberOf = double (*)(const std::uint8_t* bytes, bool swapped);
/// Of bool, integers of 8 to 64 bits, float16, float32 and float64; ContractError for another type.
NumberOf number_of(const std::string& type);

}  // namespace tessera::io
