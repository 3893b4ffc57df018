// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

namespace tessera {

/// What random numbers are for; two uses never share a stream.
enum class RandomStream : std::uint32_t {
  noise = 1,
  mask = 2,
  power_iteration = 3,
  weights = 4,
  training = 5,
  scene = 6,
  probe = 7
};

/// Counter-based random numbers: a pure function of (seed, stream, part, iteration, index, draw).
///
/// `index` is a sample's global index, so that the numbers do not depend on the number of ranks.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11: Philox4x32-10.
class Random {
 public:
  /// part: operator of a stack, layer of a network and so on, < 2^16. iteration < 2^32.
  Random(std::uint64_t seed, RandomStream stream, std::uint32_t part = 0, std::uint32_t iteration = 0);

  /// Uniform in (0, 1), 53 bits.
  double uniform(std::int64_t index, std::uint32_t draw = 0) const;
  /// Standard normal (Box-Muller on two uniforms of the same counter).
  double normal(std::int64_t index, std::uint32_t draw = 0) const;
  /// Poisson count with this mean >= 0 (inversion below 10, PTRS transformed rejection above).
  double poisson(std::int64_t index, double mean) const;
  /// Four independent 32-bit words.
  std::array<std::uint32_t, 4> words(std::int64_t index, std::uint32_t draw = 0) const;

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t stream_;  // stream and part
  std::uint32_t iteration_;
};

}  // namespace tessera
