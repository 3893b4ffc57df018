// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <string>

namespace tessera {

/// How a picture stores light: stored = f(light), both 0 at black and 1 at white.
///
/// A lens, a shutter and a sensor work on light, screens and files on a curve of it. Beyond [0, 1] the curve goes
/// on, below 0 as its mirror image, so that noise around black stays noise around black.
class ToneCurve {
 public:
  enum class Kind { none, srgb, power };

  /// The identity: samples are what they are.
  ToneCurve() = default;
  /// IEC 61966-2-1 (1999).
  static ToneCurve srgb() { return ToneCurve(Kind::srgb, 1); }
  /// stored = light^(1 / gamma); gamma > 0, and 1 is none.
  static ToneCurve power(double gamma) { return gamma == 1 ? ToneCurve() : ToneCurve(Kind::power, gamma); }

  Kind kind() const { return kind_; }
  double gamma() const { return gamma_; }
  bool none() const { return kind_ == Kind::none; }

  double light(double stored) const {
    if (none()) return stored;
    const double v = std::abs(stored);
    if (kind_ == Kind::power) return std::copysign(std::pow(v, gamma_), stored);
    return std::copysign(v <= kStored ? v / kSlope : std::pow((v + kShift) / (1 + kShift), 2.4), stored);
  }
  double stored(double light) const {
    if (none()) return light;
    const double v = std::abs(light);
    if (kind_ == Kind::power) return std::copysign(std::pow(v, 1 / gamma_), light);
    return std::copysign(v <= kLight ? v * kSlope : (1 + kShift) * std::pow(v, 1 / 2.4) - kShift, light);
  }
  /// d light / d stored.
  double slope(double stored) const {
    if (none()) return 1;
    const double v = std::abs(stored);
    if (kind_ == Kind::power) return gamma_ * std::pow(v, gamma_ - 1);
    return v <= kStored ? 1 / kSlope : 2.4 / (1 + kShift) * std::pow((v + kShift) / (1 + kShift), 1.4);
  }

  friend bool operator==(const ToneCurve&, const ToneCurve&) = default;

 private:
  ToneCurve(Kind kind, double gamma) : kind_(kind), gamma_(gamma) {}
  static constexpr double kStored = 0.04045, kLight = 0.0031308, kSlope = 12.92, kShift = 0.055;
  Kind kind_ = Kind::none;
  double gamma_ = 1;
};

/// What a file says of the curve in which it stores light.
struct StoredLight {
  /// nothing: the file does not say. convention: neither, but its format has sRGB where a file says nothing.
  enum class Says { nothing, convention, curve };
  Says says = Says::nothing;
  ToneCurve curve{};    // none, said as a curve: linear
  std::string by{};     // what says it: "ICC profile", "gAMA"
  bool camera = false;  // a camera's own words stand beside it: exposure, model
  friend bool operator==(const StoredLight&, const StoredLight&) = default;
};

}  // namespace tessera
