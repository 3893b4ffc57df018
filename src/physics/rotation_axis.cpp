// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/rotation_axis.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr std::int64_t kEnds = 4;   // columns at an end, whose mean a line goes through
constexpr std::int64_t kApart = 4;  // columns between which by_edges takes differences
constexpr std::int64_t kFiner = 8;  // places per half column, before the parabola
constexpr double kAgree = 2;        // columns

// Half a turn at even angles, each view between two that were measured.
struct HalfTurn {
  struct View {
    std::size_t low, high;  // places in the list
    double share;           // of the higher one
  };
  std::vector<View> views;
};

std::vector<HalfTurn> half_turns(const std::vector<double>& angles, std::string& problem) {
  std::vector<std::size_t> order(angles.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return angles[a] < angles[b]; });
  std::vector<double> gaps;
  for (std::size_t k = 1; k < order.size(); ++k) gaps.push_back(angles[order[k]] - angles[order[k - 1]]);
  std::erase_if(gaps, [](double gap) { return gap < 1e-6; });  // a view that was taken twice
  if (gaps.size() < 7) {
    problem = "there are fewer than 8 views";
    return {};
  }
  std::nth_element(gaps.begin(), gaps.begin() + std::ssize(gaps) / 2, gaps.end());
  const double step = gaps[gaps.size() / 2], widest = *std::max_element(gaps.begin(), gaps.end());
  const double first = angles[order.front()], span = angles[order.back()] - first;
  if (span + 1.5 * step < kPi) {
    problem = "the views go over less than half a turn";
    return {};
  }
  if (widest > 4 * step) {
    problem = "the angles have a gap";
    return {};
  }
  std::vector<HalfTurn> out;
  const auto count = static_cast<std::int64_t>(std::llround(kPi / step));
  for (std::int64_t half = 0; half < 2; ++half) {
    if (span + 1.5 * step < kPi * static_cast<double>(half + 1)) break;
    HalfTurn& turn = out.emplace_back();
    std::size_t at = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const double angle =
          first + kPi * (static_cast<double>(half) + static_cast<double>(k) / static_cast<double>(count));
      while (at + 2 < order.size() && angles[order[at + 1]] < angle) ++at;
      const double low = angles[order[at]], high = angles[order[at + 1]];
      turn.views.push_back(
          {order[at], order[at + 1], high > low ? std::clamp((angle - low) / (high - low), 0.0, 1.0) : 0});
    }
  }
  return out;
}

at::Tensor at_even_angles(const at::Tensor& sinogram, const HalfTurn& turn) {
  const std::int64_t columns = sinogram.size(1);
  at::Tensor out = at::empty({static_cast<std::int64_t>(turn.views.size()), columns}, at::kDouble);
  for (std::size_t k = 0; k < turn.views.size(); ++k) {
    const HalfTurn::View& v = turn.views[k];
    const double *low = sinogram.const_data_ptr<double>() + static_cast<std::int64_t>(v.low) * columns,
                 *high = sinogram.const_data_ptr<double>() + static_cast<std::int64_t>(v.high) * columns;
    double* to = out.data_ptr<double>() + static_cast<std::int64_t>(k) * columns;
    for (std::int64_t i = 0; i < columns; ++i) to[i] = (1 - v.share) * low[i] + v.share * high[i];
  }
  return out;
}

// Less the line through the means of a few columns at both ends.
at::Tensor without_line(const at::Tensor& p) {
  const std::int64_t n = p.size(1), k = std::min(kEnds, n / 4);
  at::Tensor out = p.clone();
  for (std::int64_t v = 0; v < p.size(0); ++v) {
    double* row = out.data_ptr<double>() + v * n;
    const double left = std::accumulate(row, row + k, 0.0) / static_cast<double>(k),
                 right = std::accumulate(row + n - k, row + n, 0.0) / static_cast<double>(k);
    for (std::int64_t i = 0; i < n; ++i) {
      const double t = static_cast<double>(i) / static_cast<double>(n - 1);
      row[i] -= left * (1 - t) + right * t;
    }
  }
  return out;
}

// Differences over some columns, led to 0 at both ends.
at::Tensor edges(const at::Tensor& p, std::int64_t apart) {
  const std::int64_t n = p.size(1) - apart, rim = std::max<std::int64_t>(1, n / 50);
  at::Tensor out = (p.narrow(1, apart, n) - p.narrow(1, 0, n)).contiguous();
  for (std::int64_t v = 0; v < out.size(0); ++v)
    for (std::int64_t i = 0; i < rim; ++i) {
      const double fade =
          0.5 - 0.5 * std::cos(kPi * (static_cast<double>(i) + 0.5) / static_cast<double>(rim));
      out.data_ptr<double>()[v * n + i] *= fade;
      out.data_ptr<double>()[v * n + n - 1 - i] *= fade;
    }
  return out;
}

// Adds the correlation's spectrum of half a turn, (length / 2 + 1) complex numbers. With A the spectrum of the half
// turn continued by zeros to a whole one, that of its mirror image is (-1)^m e^{-2 pi i f (n - 1)} A(m, -f).
void add_correlation(const at::Tensor& p, double sign, std::vector<std::complex<double>>& sum) {
  const std::int64_t views = p.size(0), n = p.size(1), whole = 2 * views;
  const std::int64_t length = 2 * (std::ssize(sum) - 1);
  // Beyond this frequency the wedge holds all of the angles.
  const std::int64_t last =
      std::min(std::ssize(sum) - 1,
               views * length / static_cast<std::int64_t>(std::ceil(kPi * static_cast<double>(n))));
  const at::Tensor lines = at::fft_rfft(p, length, 1).narrow(1, 0, last + 1);
  const at::Tensor spectrum = at::fft_fft(lines, whole, 0).contiguous();
  const auto* a =
      reinterpret_cast<const std::complex<double>*>(spectrum.const_data_ptr<c10::complex<double>>());
  for (std::int64_t f = 1; f <= last; ++f) {
    const double wedge =
        kPi * static_cast<double>(f) / static_cast<double>(length) * static_cast<double>(n) + 2;
    std::complex<double> energy = 0;
    for (auto m = static_cast<std::int64_t>(std::floor(wedge)) + 1; m <= views; ++m)
      for (const std::int64_t at : {m, whole - m}) {
        if (at == whole - m && m == views) continue;  // both are one
        const double turn = m % 2 == 0 ? sign : -sign;
        energy += turn * std::conj(a[at * (last + 1) + f] * a[(whole - at) % whole * (last + 1) + f]);
      }
    const double shift =
        -2 * kPi * static_cast<double>(f) / static_cast<double>(length) * static_cast<double>(n - 1);
    sum[static_cast<std::size_t>(f)] += energy * std::polar(1.0, shift);
  }
}

// The column about which the mirror image leaves the least energy: twice of it is n - 1 and a shift d, for which
// the sum of Re(spectrum(f) e^{-2 pi i f d}) is least.
double least_energy(const std::vector<std::complex<double>>& sum, std::int64_t n) {
  const std::int64_t length = 2 * (std::ssize(sum) - 1), finer = length * kFiner;
  at::Tensor spectrum = at::zeros({finer / 2 + 1}, at::kComplexDouble);
  auto* s = reinterpret_cast<std::complex<double>*>(spectrum.data_ptr<c10::complex<double>>());
  for (std::size_t f = 0; f < sum.size(); ++f) s[f] = std::conj(sum[f]);
  const at::Tensor energies = at::fft_irfft(spectrum, finer).contiguous();
  const auto* e = energies.const_data_ptr<double>();
  const auto energy = [&](std::int64_t place) { return e[(place % finer + finer) % finer]; };
  const std::int64_t most = n * kFiner / 2;  // the axis is seen in the middle half
  std::int64_t best = 0;
  for (std::int64_t place = -most; place <= most; ++place)
    if (energy(place) < energy(best)) best = place;
  const double before = energy(best - 1), at = energy(best), after = energy(best + 1),
               bend = before - 2 * at + after;
  const double off = bend > 0 ? std::clamp(0.5 * (before - after) / bend, -0.5, 0.5) : 0;
  return (static_cast<double>(n - 1) + (static_cast<double>(best) + off) / static_cast<double>(kFiner)) / 2;
}

}  // namespace

RotationAxis find_rotation_axis(const at::Tensor& rows, const std::vector<double>& angles) {
  TESSERA_EXPECT(rows.dim() == 3 && rows.size(1) == std::ssize(angles), "sinograms of ", rows.size(1),
                 " views, ", angles.size(), " angles");
  RotationAxis out;
  const std::int64_t columns = rows.size(2), apart = columns < 64 ? 2 : kApart;
  if (columns < 16) {
    out.problem = "there are fewer than 16 columns";
    return out;
  }
  const std::vector<HalfTurn> turns = half_turns(angles, out.problem);
  if (!out.problem.empty()) return out;
  std::int64_t length = 2;
  while (length < 2 * columns) length *= 2;
  std::vector<std::complex<double>> values(static_cast<std::size_t>(length / 2 + 1)), differences(values);
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const at::Tensor sinogram = rows.select(0, row).contiguous();
    for (const HalfTurn& turn : turns) {
      const at::Tensor p = at_even_angles(sinogram, turn);
      add_correlation(without_line(p), 1, values);
      add_correlation(edges(p, apart), -1, differences);
    }
  }
  const auto nothing = [](const std::complex<double>& v) { return !(std::abs(v) > 0); };
  if (std::all_of(values.begin(), values.end(), nothing)) {
    out.problem = "the views show nothing, or their columns are many for so few views";
    return out;
  }
  out.by_values = least_energy(values, columns);
  out.by_edges = least_energy(differences, columns - apart) + static_cast<double>(apart) / 2;
  out.column =
      std::abs(out.by_values - out.by_edges) <= kAgree ? (out.by_values + out.by_edges) / 2 : out.by_edges;
  return out;
}

}  // namespace tessera
