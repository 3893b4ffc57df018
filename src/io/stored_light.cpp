// SPDX-License-Identifier: BSD-3-Clause
// In which curve pictures store light.
#include "stored_light.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::uint32_t whole32(Bytes b, std::size_t at) {
  return (std::uint32_t{b[at]} << 24) | (std::uint32_t{b[at + 1]} << 16) | (std::uint32_t{b[at + 2]} << 8) |
         b[at + 3];
}
std::uint32_t whole16(Bytes b, std::size_t at) { return (std::uint32_t{b[at]} << 8) | b[at + 1]; }

// s15Fixed16Number.
double fixed32(Bytes b, std::size_t at) { return static_cast<std::int32_t>(whole32(b, at)) / 65536.0; }

std::string_view word(Bytes b, std::size_t at) { return {reinterpret_cast<const char*>(b.data()) + at, 4}; }

// The curve whose light at these stored values, 1/4, 1/2 and 3/4, a file gives: sRGB's within what tables and rounded
// parameters differ by, else the power through the middle, where it fits the others too.
std::optional<ToneCurve> curve_through(const std::array<double, 3>& light) {
  constexpr double kSame = 0.004, kNear = 0.03;
  const auto fits = [&](const ToneCurve& curve, double by) {
    for (std::size_t k = 0; k < 3; ++k)
      if (std::abs(curve.light(0.25 * static_cast<double>(k + 1)) - light[k]) > by) return false;
    return true;
  };
  if (fits(ToneCurve(), kSame)) return ToneCurve();
  if (fits(ToneCurve::srgb(), kSame)) return ToneCurve::srgb();
  if (!(light[1] > 0 && light[1] < 1)) return std::nullopt;
  const ToneCurve power = ToneCurve::power(std::round(1000 * std::log(light[1]) / std::log(0.5)) / 1000);
  return fits(power, kNear) ? std::optional(power) : std::nullopt;
}

// A tag of type curv or para: light at a quarter, half and three quarters.
std::optional<ToneCurve> tag_curve(Bytes tag) {
  if (tag.size() < 12) return std::nullopt;
  std::array<double, 3> light{};
  if (word(tag, 0) == "curv") {
    const std::size_t n = whole32(tag, 8);
    if (n > (tag.size() - 12) / 2) return std::nullopt;
    if (n == 0) return ToneCurve();
    if (n == 1) return ToneCurve::power(whole16(tag, 12) / 256.0);
    for (std::size_t k = 0; k < 3; ++k) {
      const double place = 0.25 * static_cast<double>(k + 1) * static_cast<double>(n - 1);
      const auto low = static_cast<std::size_t>(place);
      const double a = whole16(tag, 12 + 2 * low), b = whole16(tag, 12 + 2 * std::min(low + 1, n - 1));
      light[k] = (a + (place - static_cast<double>(low)) * (b - a)) / 65535;
    }
    return curve_through(light);
  }
  if (word(tag, 0) != "para") return std::nullopt;
  constexpr std::array<std::size_t, 5> kParameters{1, 3, 4, 5, 7};
  const std::size_t kind = whole16(tag, 8);
  if (kind >= kParameters.size() || tag.size() < 12 + 4 * kParameters[kind]) return std::nullopt;
  std::array<double, 7> p{};  // g a b c d e f
  for (std::size_t i = 0; i < kParameters[kind]; ++i) p[i] = fixed32(tag, 12 + 4 * i);
  const auto& [g, a, b, c, d, e, f] = p;
  for (std::size_t k = 0; k < 3; ++k) {
    const double x = 0.25 * static_cast<double>(k + 1), power = std::pow(std::max(0.0, a * x + b), g);
    switch (kind) {
      case 0:
        light[k] = std::pow(x, g);
        break;
      case 1:
        light[k] = x * a >= -b ? power : 0;
        break;
      case 2:
        light[k] = x * a >= -b ? power + c : c;
        break;
      case 3:
        light[k] = x >= d ? power : c * x;
        break;
      default:
        light[k] = x >= d ? power + e : c * x + f;
    }
  }
  return curve_through(light);
}

}  // namespace

std::optional<ToneCurve> profile_curve(Bytes profile) {
  constexpr std::size_t kTags = 128, kMostTags = 1000;
  if (profile.size() < kTags + 4) return std::nullopt;
  const std::size_t n = whole32(profile, kTags);
  if (n > kMostTags || profile.size() < kTags + 4 + 12 * n) return std::nullopt;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = kTags + 4 + 12 * i;
    const std::string_view name = word(profile, at);
    if (name != "gTRC" && name != "kTRC") continue;
    const std::size_t from = whole32(profile, at + 4), size = whole32(profile, at + 8);
    if (from > profile.size() || size > profile.size() - from) return std::nullopt;
    return tag_curve(profile.subspan(from, size));
  }
  return std::nullopt;
}

StoredLight png_light(const InputFile& file, Bytes profile) {
  using Says = StoredLight::Says;
  constexpr std::size_t kSignature = 8, kHead = 8, kEnd = 4;
  constexpr int kMostChunks = 10'000;
  std::optional<StoredLight> coded, named, gamma;  // cICP, sRGB, gAMA
  std::int64_t at = kSignature;
  const std::int64_t size = file.size();
  for (int k = 0; k < kMostChunks && at + static_cast<std::int64_t>(kHead) <= size; ++k) {
    std::array<std::uint8_t, kHead> head{};
    file.read(at, head.size(), head.data());
    const std::int64_t length = whole32(head, 0);
    const std::string_view name = word(head, 4);
    if (name == "IDAT" || length > size - at) break;
    std::array<std::uint8_t, 4> data{};
    if ((name == "cICP" || name == "gAMA") && length == 4) file.read(at + kHead, 4, data.data());
    if (name == "sRGB") named = {Says::curve, ToneCurve::srgb(), "sRGB"};
    if (name == "gAMA" && whole32(data, 0) > 0) {
      // 1/2.2 stands for sRGB: the specification asks for it beside that.
      const double value = std::round(1e8 / whole32(data, 0)) / 1000;
      gamma = {Says::curve, std::abs(value - 2.2) < 0.01 ? ToneCurve::srgb() : ToneCurve::power(value),
               "gAMA"};
      if (!(gamma->curve.gamma() >= 0.2 && gamma->curve.gamma() <= 5)) gamma.reset();
    }
    if (name == "cICP" && length == 4) {
      // ITU-T H.273, table 3; 601 and 2020 have the curve of 709.
      constexpr int kLinear = 8, kSrgb = 13, k709 = 1, k601 = 6, k2020 = 14, k2020Of12 = 15, k22 = 4, k28 = 5,
                    kPq = 16, kHlg = 18;
      const int transfer = data[1];
      if (transfer == kLinear) coded = {Says::curve, ToneCurve(), "cICP"};
      if (transfer == kSrgb || transfer == k709 || transfer == k601 || transfer == k2020 ||
          transfer == k2020Of12)
        coded = {Says::curve, ToneCurve::srgb(), "cICP"};
      if (transfer == k22) coded = {Says::curve, ToneCurve::power(2.2), "cICP"};
      if (transfer == k28) coded = {Says::curve, ToneCurve::power(2.8), "cICP"};
      if (transfer == kPq || transfer == kHlg)
        coded = {Says::nothing, ToneCurve(), transfer == kPq ? "cICP: PQ" : "cICP: HLG"};
    }
    at += static_cast<std::int64_t>(kHead + kEnd) + length;
  }
  if (coded) return *coded;
  if (const std::optional<ToneCurve> curve = profile_curve(profile))
    return {Says::curve, *curve, "ICC profile"};
  if (named) return *named;
  if (gamma) return *gamma;
  return {Says::convention, ToneCurve::srgb(), "PNG"};
}

}  // namespace tessera::io
