// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/blur_spectrum.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace tessera {
namespace {

constexpr std::int64_t kGrid = 128;  // of the kernel's own spectrum
constexpr double kRing = 0.04, kFirst = 0.03;
constexpr std::size_t kRings = 18, kSectors = 8;
constexpr double kAlone = 0.1, kMostly = 0.3;  // of what is there: what the picture may have
constexpr double kFineFrom = 0.54;             // cycles per sample from which details are the finest

// |K|^2 on kGrid x kGrid, the largest of the channels; taps beyond the grid fold, which samples the same spectrum.
std::vector<double> kernel_power(const at::Tensor& taps) {
  const at::Tensor t = taps.to(at::kCPU, at::kDouble).sum(1).contiguous();  // a picture's have depth 1
  const std::int64_t rows = t.size(1), columns = t.size(2);
  std::vector<std::complex<double>> waves;
  for (std::int64_t k = 0; k < kGrid; ++k)
    waves.push_back(std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / kGrid));
  std::vector<double> out(kGrid * kGrid, 0.0);
  std::vector<std::complex<double>> lines(static_cast<std::size_t>(rows * kGrid));
  for (std::int64_t c = 0; c < t.size(0); ++c) {
    const double* v = t.const_data_ptr<double>() + c * rows * columns;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < kGrid; ++k) {
        std::complex<double> sum = 0;
        for (std::int64_t i = 0; i < columns; ++i)
          sum += v[r * columns + i] * waves[static_cast<std::size_t>(i * k % kGrid)];
        lines[static_cast<std::size_t>(r * kGrid + k)] = sum;
      }
    for (std::int64_t m = 0; m < kGrid; ++m)
      for (std::int64_t k = 0; k < kGrid; ++k) {
        std::complex<double> sum = 0;
        for (std::int64_t r = 0; r < rows; ++r)
          sum +=
              lines[static_cast<std::size_t>(r * kGrid + k)] * waves[static_cast<std::size_t>(r * m % kGrid)];
        double& at = out[static_cast<std::size_t>(m * kGrid + k)];
        at = std::max(at, std::norm(sum));
      }
  }
  return out;
}

std::size_t ring_of(std::size_t bin) {
  const double f = TileSpectra::frequency(bin);
  return f < kFirst ? kRings : std::min(kRings - 1, static_cast<std::size_t>((f - kFirst) / kRing));
}

// Direction of a bin's wave, in eighths of half a turn.
std::size_t sector_of(std::size_t bin) {
  const auto row = static_cast<std::int64_t>(bin) / TileSpectra::kHalf;
  const double y = static_cast<double>(row > TileSpectra::kSide / 2 ? row - TileSpectra::kSide : row);
  const double x = static_cast<double>(static_cast<std::int64_t>(bin) % TileSpectra::kHalf);
  const double angle = std::atan2(y, x) / std::numbers::pi + 0.5;  // 0 to 1
  return std::min(kSectors - 1, static_cast<std::size_t>(angle * kSectors));
}

std::vector<double> most_of_picture(const std::vector<double>& power, const std::vector<double>& kernel) {
  std::vector<double> out(power.size(), std::numeric_limits<double>::infinity());
  for (std::size_t sector = 0; sector < kSectors; ++sector) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t ring = 0; ring < kRings; ++ring) {
      std::vector<std::size_t> bins;
      double top = 0;
      for (std::size_t b = 0; b < power.size(); ++b)
        if (ring_of(b) == ring && sector_of(b) == sector) {
          bins.push_back(b);
          top = std::max(top, kernel[b]);
        }
      double there = 0, passed = 0;
      for (const std::size_t b : bins)
        if (2 * kernel[b] >= top) {
          there += power[b];
          passed += kernel[b];
        }
      if (passed > 0) least = std::min(least, there / passed);
      for (const std::size_t b : bins) out[b] = least * kernel[b];
    }
  }
  return out;
}

}  // namespace

BlurSpectrum read_blur_spectrum(const std::vector<double>& power, const Convolution& kernel) {
  BlurSpectrum out;
  out.picture = most_of_picture(power, TileSpectra::expected(kernel_power(kernel.taps), kGrid));
  out.beyond.assign(power.size(), 0.0);
  struct Sum {
    double all = 0, seen = 0, noise = 0;
    double level() const { return seen >= 2 && seen >= 0.15 * all ? noise / seen : 0; }
  };
  std::array<Sum, kRings> rings{};
  Sum fine;
  for (std::size_t b = 0; b < power.size(); ++b) {
    const std::size_t ring = ring_of(b);
    if (ring == kRings || !(power[b] > 0)) continue;
    const double times = TileSpectra::times(b), share = out.picture[b] / power[b];
    if (share < kAlone) out.beyond[b] = 1;
    for (Sum* const sum : {&rings[ring], TileSpectra::frequency(b) >= kFineFrom ? &fine : nullptr}) {
      if (!sum) continue;
      sum->all += times;
      if (share >= kMostly) continue;
      sum->seen += times;
      sum->noise += times * (power[b] - out.picture[b]);
    }
  }
  double near = 0;
  std::size_t first = 0;
  while (first < kRings && rings[first].level() == 0) ++first;
  for (std::size_t k = first; k < std::min(first + 2, kRings); ++k) near = std::max(near, rings[k].level());
  out.near = std::sqrt(std::max(0.0, near));
  out.far = std::sqrt(std::max(0.0, fine.level()));
  out.coarse = out.near;
  if (!out.colored()) return out;
  // Of compressed and demosaicked pictures the logarithm falls along a line; of enlarged ones it stays until it falls.
  constexpr double kCoarse = 0.12, kSteep = 6, kMost = 3.5, kMiddleFine = 0.62;
  const double at = kFirst + kRing * (static_cast<double>(first) + 1);
  const double rate = std::log(out.near / out.far) / std::max(kMiddleFine - at, kRing);
  if (rate < kSteep && at > kCoarse) out.coarse *= std::min(kMost, std::exp(rate * (at - kCoarse)));
  return out;
}

}  // namespace tessera
