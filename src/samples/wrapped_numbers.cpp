// SPDX-License-Identifier: BSD-3-Clause
// Numbers that are not the ones that were meant, since they wrapped around.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "sample_checks.hpp"

namespace tessera {
namespace {

// "uint16": the numbers up to 2^16; 0 for other types.
double numbers_of(const std::string& type) {
  return type.starts_with("uint") ? std::exp2(std::stoi(type.substr(4))) : 0;
}

}  // namespace

void warn_of_wrapped(const Survey& survey, const Measurement& stored, const Measurement& marks,
                     Surveyed& seen, const Communicator& comm) {
  constexpr double kLow = 0.25, kHigh = 0.75;
  constexpr std::int64_t kOneIn = 1000;
  const double all = numbers_of(survey.data.type);
  if (!(all > 256) || !survey.in_image_range()) return;
  std::array<std::int64_t, 3> n{};  // below a quarter of the type, above three, between
  std::array<double, 3> ends{-INFINITY, -INFINITY, -INFINITY};  // the largest below; -least and largest above
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto *v = stored[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
    for (std::int64_t k = 0; k < stored[i].numel(); ++k) {
      if (m[k] == 0) continue;
      const double value = static_cast<double>(v[k]) * survey.factor + survey.offset;
      const bool high = value > kHigh * all, low = value < kLow * all;
      ++n[high ? 1 : low ? 0 : 2];
      if (low) ends[0] = std::max(ends[0], value);
      if (high) ends[1] = std::max(ends[1], -value), ends[2] = std::max(ends[2], value);
    }
  }
  comm.all_reduce(n, Reduce::sum);
  comm.all_reduce(ends, Reduce::max);
  // Negative numbers lie about as far below 0 as others above it; hot samples lie anywhere, saturated ones at one value.
  constexpr double kFar = 4;
  const double below = all + ends[1];
  if (n[2] > 0 || n[0] == 0 || n[1] * kOneIn < n[0] || below > kFar * ends[0] || -ends[1] == ends[2]) return;
  seen.warnings.push_back(
      fmt::format("{} samples of the measurement lie from {:.0f} to {:.0f}, the others below {:.0f}, and "
                  "none between (numbers below 0 "
                  "that were written without a sign, as a background subtracted in {} leaves them): write "
                  "them as what they are, "
                  "a.view('{}')",
                  n[1], -ends[1], ends[2], ends[0] + 1, survey.data.type, survey.data.type.substr(1)));
}

}  // namespace tessera
