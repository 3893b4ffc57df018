// SPDX-License-Identifier: BSD-3-Clause
#include "byte_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMost = 1 << 16;  // pairs of a rank
constexpr std::int64_t kFewest = 256;   // of all

// The number that the same two bytes are in the other order.
double exchanged(double v, bool with_sign) {
  const auto bits = static_cast<std::uint16_t>(static_cast<std::int32_t>(v));
  const auto other = static_cast<std::uint16_t>((bits << 8) | (bits >> 8));
  return with_sign ? static_cast<double>(static_cast<std::int16_t>(other)) : static_cast<double>(other);
}

}  // namespace

ByteOrder::ByteOrder(const std::string& type) : asked_(type == "uint16" || type == "int16") {}

void ByteOrder::look(const double* values, std::int64_t count) {
  constexpr std::int64_t kAtOnce = 4096;
  if (!asked_ || near_.size() >= kMost || count < 4) return;
  const std::int64_t apart = count * 5 / 13,  // not a multiple of a row's length
      n = std::min(kAtOnce, count - apart), from = (count - apart - n) / 2;
  const auto number = [](double v) { return v == std::floor(v) && v >= -32768 && v <= 65535; };
  for (std::int64_t k = from; k < from + n; ++k) {
    const double here = values[k], next = values[k + 1 < count ? k + 1 : k - 1], other = values[k + apart];
    if (!number(here) || !number(next) || !number(other)) continue;
    const bool sign = here < 0 || next < 0 || other < 0;
    const double swapped = exchanged(here, sign);
    near_.push_back(static_cast<float>(std::abs(here - next)));
    far_.push_back(static_cast<float>(std::abs(here - other)));
    near_swapped_.push_back(static_cast<float>(std::abs(swapped - exchanged(next, sign))));
    far_swapped_.push_back(static_cast<float>(std::abs(swapped - exchanged(other, sign))));
  }
}

void ByteOrder::refuse(const std::string& name, const std::string& meant, const Communicator& comm) const {
  constexpr double kRough = 0.05, kSmoother = 0.4,
                   kPicture = 0.5;  // of what any two differ by; of that of the numbers as read
  if (!asked_ || count_values(near_, comm) < kFewest) return;
  const auto roughness = [&](const std::vector<float>& near, const std::vector<float>& far) {
    const auto any = static_cast<double>(median(far, comm));
    return any > 0 ? static_cast<double>(median(near, comm)) / any : 0;
  };
  const double as_read = roughness(near_, far_), swapped = roughness(near_swapped_, far_swapped_);
  TESSERA_VALIDATE(
      as_read < kRough || swapped == 0 || swapped > std::min(kPicture, kSmoother * as_read), name,
      " looks as if the two bytes of each number were exchanged (",
      fmt::format(
          "neighbors differ {:.2g} times as much as any two samples; with the bytes in the other order "
          "{:.2g} times, as in a picture",
          as_read, swapped),
      ") write a.byteswap(), or the file in its other order of bytes; ", meant);
}

}  // namespace tessera
