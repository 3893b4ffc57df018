// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/masked_pixels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>

namespace tessera {
namespace {

constexpr double kFar = 0.125;  // of the mark: what no other sample reaches
constexpr std::array<int, 7> kCounters{10, 12, 14, 16, 18, 20, 24};  // bits that detectors count with
constexpr int kExtreme = 96;  // powers of two beyond which 30 bits below the largest leave float32

// The largest number of a type; floats may hold what a detector wrote as whole numbers of 32 bits, and have no largest
// number that programs agree on.
std::vector<double> marks_of(const std::string& type) {
  const bool real = type.starts_with("float");
  if (real && type.ends_with("16")) return {};
  if (real) return {0x1p32 - 1, 1e20, 1e30, 0x1.ep122, static_cast<double>(FLT_MAX), DBL_MAX};
  const std::size_t at = type.find("int");
  if (at == std::string::npos || type == "uint8" || type == "int8") return {};
  const int bits = std::stoi(type.substr(at + 3));
  return {std::exp2(type.front() == 'u' ? bits : bits - 1) - 1};
}

}  // namespace

MaskedPixels::MaskedPixels(const std::string& type)
    : marks_(marks_of(type)),
      least_(marks_.empty() ? INFINITY : std::min(marks_.front() * (1 - 2 * FLT_EPSILON), 1023.0)) {}

// Whether it is 2^N - 1 of a counter.
static bool full_counter(double v) {
  if (v > 0x1p25) return false;
  const auto n = static_cast<std::int64_t>(v);
  return static_cast<double>(n) == v && (n & (n + 1)) == 0 &&
         std::any_of(kCounters.begin(), kCounters.end(), [&](int bits) { return n + 1 == 1LL << bits; });
}

bool MaskedPixels::count(double v) {
  if (!std::isfinite(v)) return false;
  if (v >= least_) {
    const bool mark =
        std::any_of(marks_.begin(), marks_.end(), [&](double m) {  // may have come through float32
          return v == m || (m < FLT_MAX && v == static_cast<double>(static_cast<float>(m)));
        });
    if (mark || full_counter(v)) {
      ++own_[v];
      return false;
    }
  }
  largest_ = std::max(largest_, v);
  ++others_;
  return true;
}

void MaskedPixels::sum(const Communicator& comm) {
  const auto of_type = [&](double v) {
    return !marks_.empty() &&
           v >= static_cast<double>(static_cast<float>(marks_.front())) * (1 - FLT_EPSILON);
  };
  // The least of the type's marks that were seen, else the largest full counter.
  std::array<double, 2> ends{-INFINITY, -INFINITY};
  for (const auto& [value, seen] : own_)
    if (of_type(value))
      ends[0] = std::max(ends[0], -value);
    else
      ends[1] = std::max(ends[1], value);
  comm.all_reduce(ends, Reduce::max);
  mark_ = std::isfinite(ends[0]) ? -ends[0] : std::isfinite(ends[1]) ? ends[1] : INFINITY;
  std::array<std::int64_t, 2> n{0, others_};
  for (const auto& [value, seen] : own_) {
    n[value < mark_ ? 1 : 0] += seen;
    if (value < mark_) largest_ = std::max(largest_, value);
  }
  comm.all_reduce(n, Reduce::sum);
  marked_ = n[0];
  others_ = n[1];
  comm.all_reduce({&largest_, 1}, Reduce::max);
}

bool MaskedPixels::found() const {
  return marked_ > 0 && marked_ < others_ && largest_ > 0 && largest_ < kFar * mark_;
}

std::string MaskedPixels::mark_text() const {
  return mark_ < 0x1p53 ? fmt::format("{:.0f}", mark_) : fmt::format("{:.6g}", mark_);
}

std::string MaskedPixels::text() const { return fmt::format("{} samples of {}", marked_, mark_text()); }

int float_exponent(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::abs(exponent) <= kExtreme ? 0 : exponent;
}

}  // namespace tessera
