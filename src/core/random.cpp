// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/random.hpp"

#include <cmath>
#include <numbers>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

double to_uniform(std::uint32_t hi, std::uint32_t lo) {
  const std::uint64_t bits = ((std::uint64_t{hi} << 32) | lo) >> 11;  // 53 bits
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

}  // namespace

Random::Random(std::uint64_t seed, RandomStream stream, std::uint32_t part, std::uint32_t iteration)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      stream_((static_cast<std::uint32_t>(stream) << 16) | part),
      iteration_(iteration) {
  TESSERA_EXPECT(part < (1u << 16), "random part is ", part, " (16 bits are kept) use fewer parts");
}

std::array<std::uint32_t, 4> Random::words(std::int64_t index, std::uint32_t draw) const {
  // 40 bits of index in the counter's first word and a half leave 24 bits for the draw; larger indices fold
  // their upper bits into the key, which keeps every (index, draw) pair distinct up to 2^63 samples.
  const auto i = static_cast<std::uint64_t>(index);
  const std::array<std::uint32_t, 2> key = {key_[0] ^ static_cast<std::uint32_t>(i >> 40),
                                            key_[1] ^ iteration_ * 0x9E3779B9u};
  return philox({static_cast<std::uint32_t>(i), (static_cast<std::uint32_t>(i >> 32) & 0xFFu) | (draw << 8),
                 stream_, iteration_},
                key);
}

double Random::uniform(std::int64_t index, std::uint32_t draw) const {
  const auto w = words(index, draw);
  return to_uniform(w[0], w[1]);
}

double Random::normal(std::int64_t index, std::uint32_t draw) const {
  const auto w = words(index, draw);
  const double radius = std::sqrt(-2.0 * std::log(to_uniform(w[0], w[1])));
  return radius * std::cos(2.0 * std::numbers::pi * to_uniform(w[2], w[3]));
}

double Random::poisson(std::int64_t index, double mean) const {
  TESSERA_EXPECT(mean >= 0, "Poisson mean is ", mean, " (a count's mean is not negative) clamp it");
  if (mean == 0) return 0;
  if (mean < 10) {  // inversion: one uniform walks up the distribution
    double p = std::exp(-mean), u = uniform(index), k = 0;
    while (u > p && p > 0) {
      u -= p;
      k += 1;
      p *= mean / k;
    }
    return k;
  }
  // W. Hoermann, "The transformed rejection method for generating Poisson random variables" (1993), PTRS.
  const double log_mean = std::log(mean);
  const double b = 0.931 + 2.53 * std::sqrt(mean);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double v_r = 0.9277 - 3.6224 / (b - 2.0);
  for (std::uint32_t draw = 0;; ++draw) {
    const auto w = words(index, draw);
    const double u = to_uniform(w[0], w[1]) - 0.5, v = to_uniform(w[2], w[3]);
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2.0 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_mean - mean - std::lgamma(k + 1.0))
      return k;
  }
}

}  // namespace tessera
