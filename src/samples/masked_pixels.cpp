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
constexpr int kExtreme = 96;    // powers of two beyond which 30 bits below the largest leave float32

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

MaskedPixels::MaskedPixels(const std::string& type) : marks_(marks_of(type)) {}

bool MaskedPixels::count(double v) {
  if (!std::isfinite(v)) return false;
  if (!marks_.empty() && v >= static_cast<double>(static_cast<float>(marks_.front())) * (1 - FLT_EPSILON))
    for (const double mark : marks_)  // which may have come through float32
      if (v == mark || (mark < FLT_MAX && v == static_cast<double>(static_cast<float>(mark)))) {
        ++own_[v];
        return false;
      }
  largest_ = std::max(largest_, v);
  ++others_;
  return true;
}

void MaskedPixels::sum(const Communicator& comm) {
  std::array<std::int64_t, 2> n{0, others_};
  mark_ = own_.empty() ? INFINITY : own_.begin()->first;
  for (const auto& [value, seen] : own_) n[0] += seen;
  comm.all_reduce({&mark_, 1}, Reduce::min);
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
