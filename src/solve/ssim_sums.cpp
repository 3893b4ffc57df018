// SPDX-License-Identifier: BSD-3-Clause
#include "ssim_sums.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tessera/core/for_this_cpu.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kTaps = 2 * kSsimRadius + 1, kMaps = 4;  // of x, y, x^2 + y^2, x y
constexpr std::int64_t kBand = 64;                              // rows that a thread takes at a time
constexpr std::int64_t kStrip = 240;   // columns: kTaps lines of kMaps stay in the cache
constexpr std::int64_t kStride = 256;  // of a line: registers run over its end
constexpr double kSigma = 1.5, kC1 = 0.01 * 0.01, kC2 = 0.03 * 0.03;

using Taps = std::array<double, kTaps>;

Taps gaussian_window() {
  Taps taps{};
  double sum = 0;
  for (std::int64_t i = -kSsimRadius; i <= kSsimRadius; ++i)
    sum += taps[static_cast<std::size_t>(i + kSsimRadius)] =
        std::exp(-static_cast<double>(i * i) / (2 * kSigma * kSigma));
  for (double& t : taps) t /= sum;
  return taps;
}

template <int kBytes>
using Doubles = typename Register<double, kBytes>::Type;
template <int kBytes>
constexpr std::int64_t kLanes = kBytes / static_cast<int>(sizeof(double));

// One line of x and y to the four maps, smoothed along it.
struct Along {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const double* x, const double* y, const double* taps, double* maps,
                                         std::int64_t n) {
    using V = Doubles<kBytes>;
    for (std::int64_t c = 0; c < n; c += kLanes<kBytes>) {
      V sx{}, sy{}, xx{}, yy{}, xy{};
      for (std::int64_t k = 0; k < kTaps; ++k) {
        V a, b;
        std::memcpy(&a, x + c + k, sizeof a);
        std::memcpy(&b, y + c + k, sizeof b);
        const V ta = a * taps[k], tb = b * taps[k];
        sx += ta;
        sy += tb;
        xx += ta * a;
        xy += ta * b;
        yy += tb * b;
      }
      const V squares = xx + yy;
      const V* const all[kMaps] = {&sx, &sy, &squares, &xy};
      for (std::int64_t m = 0; m < kMaps; ++m) std::memcpy(maps + m * kStride + c, all[m], sizeof(V));
    }
  }
};

// Eleven such lines, smoothed across them, to SSIM at each pixel of the middle one.
struct Across {
  template <int kBytes>
  [[gnu::always_inline]] static void row(const double* const* lines, const double* taps, double* ssim,
                                         std::int64_t n) {
    using V = Doubles<kBytes>;
    for (std::int64_t c = 0; c < n; c += kLanes<kBytes>) {
      V s[kMaps] = {};
      for (std::int64_t k = 0; k < kTaps; ++k)
        for (std::int64_t m = 0; m < kMaps; ++m) {
          V v;
          std::memcpy(&v, lines[k] + m * kStride + c, sizeof v);
          s[m] += v * taps[k];
        }
      const V mx = s[0], my = s[1], mxy = mx * my, squares = mx * mx + my * my;
      const V variances = s[2] - squares, covariance = s[3] - mxy;
      const V value = (mxy * 2.0 + kC1) * (covariance * 2.0 + kC2) / ((squares + kC1) * (variances + kC2));
      std::memcpy(ssim + c, &value, sizeof value);
    }
  }
};

double sum_of(const double* values, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += values[i];
  return sum;
}

template <class T>
class PlaneSums {
 public:
  PlaneSums(const at::Tensor& x, const at::Tensor& y, const std::array<std::int64_t, 4>& inner)
      : x_(x.const_data_ptr<T>()),
        y_(y.const_data_ptr<T>()),
        x_stride_(x.stride(0)),
        y_stride_(y.stride(0)),
        height_(x.size(0) - 2 * kSsimRadius),
        width_(x.size(1) - 2 * kSsimRadius),
        inner_(inner) {}

  std::array<double, 2> sums() const {
    const std::int64_t bands = (height_ + kBand - 1) / kBand;
    std::vector<std::array<double, 2>> of(static_cast<std::size_t>(bands));
    at::parallel_for(0, bands, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        of[static_cast<std::size_t>(b)] = band(b * kBand, std::min(height_, (b + 1) * kBand));
    });
    std::array<double, 2> all{};
    for (const auto& s : of) all = {all[0] + s[0], all[1] + s[1]};
    return all;
  }

 private:
  std::array<double, 2> band(std::int64_t first, std::int64_t last) const {
    std::vector<double> room((kTaps * kMaps + 3) * kStride);
    double* const x = room.data() + kTaps * kMaps * kStride;
    double *const y = x + kStride, *const ssim = y + kStride;
    std::array<double, 2> sums{};
    for (std::int64_t left = 0; left < width_; left += kStrip) {
      const std::int64_t n = std::min(kStrip, width_ - left);
      const auto line = [&](std::int64_t r) { return room.data() + r % kTaps * kMaps * kStride; };
      for (std::int64_t r = first; r < last + 2 * kSsimRadius; ++r) {
        std::copy_n(x_ + r * x_stride_ + left, n + 2 * kSsimRadius, x);
        std::copy_n(y_ + r * y_stride_ + left, n + 2 * kSsimRadius, y);
        ForThisCpu<Along, const double*, const double*, const double*, double*, std::int64_t>::row(
            x, y, taps_.data(), line(r), n);
        const std::int64_t middle = r - 2 * kSsimRadius;  // the row whose window ends here
        if (middle < first) continue;
        std::array<const double*, kTaps> lines{};
        for (std::int64_t k = 0; k < kTaps; ++k) lines[static_cast<std::size_t>(k)] = line(middle + k);
        ForThisCpu<Across, const double* const*, const double*, double*, std::int64_t>::row(
            lines.data(), taps_.data(), ssim, n);
        sums[0] += sum_of(ssim, 0, n);
        if (middle >= inner_[0] && middle < inner_[1])
          sums[1] += sum_of(ssim, std::clamp<std::int64_t>(inner_[2] - left, 0, n),
                            std::clamp<std::int64_t>(inner_[3] - left, 0, n));
      }
    }
    return sums;
  }

  const T *x_, *y_;
  std::int64_t x_stride_, y_stride_, height_, width_;
  std::array<std::int64_t, 4> inner_;
  Taps taps_ = gaussian_window();
};

}  // namespace

std::array<double, 2> ssim_sums(const at::Tensor& x, const at::Tensor& y,
                                const std::array<std::int64_t, 4>& inner) {
  if (x.size(0) <= 2 * kSsimRadius || x.size(1) <= 2 * kSsimRadius) return {};
  if (x.scalar_type() == at::kDouble) return PlaneSums<double>(x, y, inner).sums();
  return PlaneSums<float>(x, y, inner).sums();
}

}  // namespace tessera
