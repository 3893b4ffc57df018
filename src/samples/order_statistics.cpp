// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/order_statistics.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Bits that a histogram looks at, from the top: small ones travel fast.
constexpr std::array<std::uint32_t, 3> kBits = {11, 11, 10};

// Whole numbers in the order of the floats.
std::uint32_t key_of(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

float value_of(std::uint32_t key) { return std::bit_cast<float>(key >> 31 ? key & 0x7fffffffu : ~key); }

// The bin of a histogram over all ranks that holds `place`, which becomes the place inside of it.
std::uint32_t bin_of(std::vector<std::int64_t>& counts, std::int64_t& place, const Communicator& comm) {
  comm.all_reduce(counts, Reduce::sum);
  for (std::uint32_t bin = 0; bin < counts.size(); ++bin) {
    if (place < counts[bin]) return bin;
    place -= counts[bin];
  }
  throw ContractError("an order statistic was asked for beyond the last value");
}

}  // namespace

std::int64_t count_values(std::span<const float> values, const Communicator& comm) {
  auto n = static_cast<std::int64_t>(values.size());
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return n;
}

float order_statistic(std::span<const float> values, std::int64_t place, const Communicator& comm) {
  std::uint32_t known = 0, below = 32;  // the upper bits of the key so far; how many are still open
  for (const std::uint32_t bits : kBits) {
    std::vector<std::int64_t> counts(std::size_t{1} << bits);
    const std::uint32_t mask = (1u << bits) - 1, shift = below - bits;
    for (const float v : values)
      if (const std::uint32_t key = key_of(v); below == 32 || key >> below == known)
        ++counts[key >> shift & mask];
    known = known << bits | bin_of(counts, place, comm);
    below = shift;
  }
  return value_of(known);
}

float median(std::span<const float> values, const Communicator& comm) {
  const std::int64_t n = count_values(values, comm);
  return n == 0 ? 0.0F : order_statistic(values, n / 2, comm);
}

double ordered_sum(std::span<const float> values, const Communicator& comm) {
  double largest = values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
  comm.all_reduce({&largest, 1}, Reduce::max);
  if (largest <= 0) return 0;
  int exponent = 0;  // largest < 2^exponent
  std::frexp(largest, &exponent);
  std::array<std::int64_t, 2> limbs{};
  for (const float v : values) {
    const double scaled = std::ldexp(static_cast<double>(v), 30 - exponent), whole = std::floor(scaled);
    limbs[0] += static_cast<std::int64_t>(whole);
    limbs[1] += static_cast<std::int64_t>((scaled - whole) * 0x1p30);
  }
  comm.all_reduce(limbs, Reduce::sum);
  return std::ldexp(static_cast<double>(limbs[0]), exponent - 30) +
         std::ldexp(static_cast<double>(limbs[1]), exponent - 60);
}

}  // namespace tessera
