// SPDX-License-Identifier: BSD-3-Clause
#include "numbers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "half.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

template <class Sample>
double stored_value(const std::uint8_t* from, bool swapped) {
  std::uint8_t bytes[sizeof(Sample)];
  std::memcpy(bytes, from, sizeof bytes);
  if (swapped) std::reverse(bytes, bytes + sizeof bytes);
  Sample value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

NumberOf number_of(const std::string& type) {
  static const std::pair<const char*, NumberOf> known[] = {
      {"bool", [](const std::uint8_t* b, bool) { return *b ? 1.0 : 0.0; }},
      {"uint8", stored_value<std::uint8_t>},
      {"int8", stored_value<std::int8_t>},
      {"uint16", stored_value<std::uint16_t>},
      {"int16", stored_value<std::int16_t>},
      {"uint32", stored_value<std::uint32_t>},
      {"int32", stored_value<std::int32_t>},
      {"uint64", stored_value<std::uint64_t>},
      {"int64", stored_value<std::int64_t>},
      {"float16",
       [](const std::uint8_t* b, bool swapped) {
         return half_value(static_cast<std::uint16_t>(stored_value<std::uint16_t>(b, swapped)));
       }},
      {"float32", stored_value<float>},
      {"float64", stored_value<double>}};
  for (const auto& [name, convert] : known)
    if (type == name) return convert;
  throw ContractError("samples of the type " + type);
}

}  // namespace tessera::io
