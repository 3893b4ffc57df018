// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/tone_curve.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(ToneCurve, SrgbHasThePublishedValues) {
  const ToneCurve srgb = ToneCurve::srgb();
  EXPECT_NEAR(srgb.light(0.5), 0.2140411, 1e-6);
  EXPECT_NEAR(srgb.light(10 / 255.), 0.0030353, 1e-6);
  EXPECT_NEAR(srgb.stored(0.18), 0.4613561, 1e-6);
  EXPECT_DOUBLE_EQ(srgb.light(1), 1);
  EXPECT_DOUBLE_EQ(srgb.light(0), 0);
}

TEST(ToneCurve, GoesBackAndForthAlsoBeyondItsEnds) {
  for (const ToneCurve& curve :
       {ToneCurve(), ToneCurve::srgb(), ToneCurve::power(2.2), ToneCurve::power(0.45)})
    for (double v = -0.5; v < 2; v += 0.0137) {
      EXPECT_NEAR(curve.stored(curve.light(v)), v, 2e-5) << v;
      EXPECT_DOUBLE_EQ(curve.light(-v), -curve.light(v));
      if (std::abs(v) < 0.01 || std::abs(std::abs(v) - 0.04045) < 0.001) continue;
      EXPECT_NEAR(curve.slope(v), (curve.light(v + 1e-5) - curve.light(v - 1e-5)) / 2e-5,
                  1e-3 * curve.slope(v))
          << v;
    }
  EXPECT_TRUE(ToneCurve::power(1).none());
}

}  // namespace
}  // namespace tessera
