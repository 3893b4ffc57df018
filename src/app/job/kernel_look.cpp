// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/kernel_look.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kSmall = 5;  // taps a side: smaller kernels are all rim
constexpr double kShare = 0.02;     // of a kernel's sum that a pedestal holds
constexpr double kSymmetric = 0.9;  // correlation with the kernel turned around

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

using Index2 = std::array<std::int64_t, 2>;

// One channel's taps.
struct Taps {
  std::int64_t rows, columns;
  std::vector<double> values;

  double at(std::int64_t r, std::int64_t c) const {
    return r < 0 || c < 0 || r >= rows || c >= columns ? 0
                                                       : values[static_cast<std::size_t>(r * columns + c)];
  }
  template <class Visit>
  void each(Visit visit) const {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) visit(r, c, at(r, c));
  }
  double sum() const {
    double s = 0;
    for (const double v : values) s += v;
    return s;
  }
  double peak() const { return *std::max_element(values.begin(), values.end()); }
  double median_of(Index2 lo, Index2 hi) const {
    std::vector<double> v;
    for (std::int64_t r = lo[0]; r < hi[0]; ++r)
      for (std::int64_t c = lo[1]; c < hi[1]; ++c) v.push_back(at(r, c));
    return median(std::move(v));
  }
  double median_of_ring(std::int64_t k) const {
    std::vector<double> v;
    each([&](std::int64_t r, std::int64_t c, double value) {
      if (std::min({r, c, rows - 1 - r, columns - 1 - c}) == k) v.push_back(value);
    });
    return median(std::move(v));
  }
};

// A level on which all of the kernel stands: that of its corners and of the middles of its sides, where these
// hardly differ. Tails fall from the middles to the corners.
double pedestal(const Taps& k) {
  const std::int64_t h = k.rows, w = k.columns, m = std::max<std::int64_t>(1, std::min(h, w) / 6);
  std::vector<double> levels = {k.median_of({0, 0}, {m, m}),
                                k.median_of({0, w - m}, {m, w}),
                                k.median_of({h - m, 0}, {h, m}),
                                k.median_of({h - m, w - m}, {h, w}),
                                k.median_of({0, w / 3}, {1, w - w / 3}),
                                k.median_of({h - 1, w / 3}, {h, w - w / 3}),
                                k.median_of({h / 3, 0}, {h - h / 3, 1}),
                                k.median_of({h / 3, w - 1}, {h - h / 3, w})};
  std::sort(levels.begin(), levels.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  const double low = levels.front(), most = levels[5];  // a tail may reach two of the sides
  const bool flat = low != 0 && most / low > 0 && most / low < 1.35 && std::abs(low) < 0.3 * k.peak();
  return flat ? levels[3] : 0;
}

struct Place {
  std::array<double, 2> center{}, spread{};
};

// Center of mass and root mean square width of the taps that matter, rows and columns moved by `roll`.
Place place_of(const Taps& k, Index2 roll) {
  const double least = 0.02 * k.peak();
  Place p;
  double sum = 0;
  std::array<double, 2> squares{};
  k.each([&](std::int64_t r, std::int64_t c, double v) {
    if (v < least) return;
    const std::array<double, 2> at{static_cast<double>((r + roll[0]) % k.rows),
                                   static_cast<double>((c + roll[1]) % k.columns)};
    sum += v;
    for (std::size_t d = 0; d < 2; ++d) p.center[d] += v * at[d], squares[d] += v * at[d] * at[d];
  });
  for (std::size_t d = 0; d < 2; ++d) {
    p.center[d] /= sum;
    p.spread[d] = std::sqrt(std::max(0.0, squares[d] / sum - p.center[d] * p.center[d]));
  }
  return p;
}

// Correlation of f(taps) with itself turned around the center of mass.
template <class Part>
double symmetry(const Taps& k, const Place& p, Part part) {
  const Index2 twice{std::llround(2 * p.center[0]), std::llround(2 * p.center[1])};
  double same = 0, all = 0;
  k.each([&](std::int64_t r, std::int64_t c, double v) {
    same += part(v) * part(k.at(twice[0] - r, twice[1] - c));
    all += part(v) * part(v);
  });
  return all > 0 ? same / all : 1;
}

// Equal largest taps beside which the kernel falls steeply, and which are not most of it. They fill 3 x 3 somewhere: along
// a line they are a motion.
std::int64_t clipped_top(const Taps& k) {
  const double peak = k.peak();
  std::vector<double> beside;
  std::int64_t top = 0;
  bool whole = true, filled = false;
  k.each([&](std::int64_t r, std::int64_t c, double v) {
    whole = whole && v == std::floor(v);
    if (v == peak) {
      ++top;
      bool all = true;
      for (std::int64_t i = -1; i <= 1; ++i)
        for (std::int64_t j = -1; j <= 1; ++j) all = all && k.at(r + i, c + j) == peak;
      filled = filled || all;
      return;
    }
    for (std::int64_t i = -1; i <= 1; ++i)
      for (std::int64_t j = -1; j <= 1; ++j)
        if (k.at(r + i, c + j) == peak) {
          beside.push_back(v);
          return;
        }
  });
  if (!whole || !filled || beside.empty() || median(beside) > 0.95 * peak) return 0;
  return static_cast<double>(top) * peak < 0.7 * k.sum() ? top : 0;
}

void look(const std::string& name, const FileKernel& file, Taps k, bool every_pixel, KernelLook& out) {
  const auto warn = [&](const std::string& text) { out.warnings.push_back(name + " " + text); };
  const bool wide = std::min(k.rows, k.columns) >= kSmall;
  const double whole = k.sum();
  if (const std::int64_t top = clipped_top(k); top > 0)
    warn(
        fmt::format("has {} taps at its largest value, {:.6g} (its top looks saturated, and the true one is "
                    "higher and narrower): measure it with less light",
                    top, k.peak()));
  if (const double level = wide ? pedestal(k) : 0; level != 0) {
    const double share = level * static_cast<double>(k.values.size()) / whole;
    if (share > kShare)
      warn(
          fmt::format("stands on a pedestal: its rim is {:.4g} all around, its peak {:.4g}, and {:.0f} % of "
                      "its sum is that level (a camera's offset or a background, which the result then "
                      "overcorrects): subtract {:.4g} from the kernel",
                      level, k.peak(), 100 * share, level));
    if (share < -kShare)
      warn(
          fmt::format("lies below 0 all around its rim, at {:.4g}, which is {:.0f} % of its sum (too much "
                      "background was subtracted): add {:.4g} to the kernel",
                      level, -100 * share, -level));
    if (std::abs(share) > kShare)
      for (double& v : k.values) v -= level;
  }
  const double peak = k.peak(), sum = k.sum();
  if (!(peak > 0) || !(sum > 0)) return;  // a filter of differences
  const Place p = place_of(k, {0, 0});
  const Index2 origin = file.center.value_or(Index2{k.rows / 2, k.columns / 2});
  const Place rolled = place_of(k, {k.rows / 2, k.columns / 2});
  const bool symmetric = symmetry(k, p, [](double v) { return v; }) > kSymmetric;
  const auto off = [&](std::size_t d) { return p.center[d] - static_cast<double>(origin[d]); };
  const auto moved = [&](std::size_t d) {
    return std::abs(off(d)) > (symmetric ? 0.75 : std::max(1.0, p.spread[d]));
  };
  if (std::hypot(rolled.spread[0], rolled.spread[1]) < 0.5 * std::hypot(p.spread[0], p.spread[1]))
    warn(fmt::format(
        "has its taps around the corners, as Fourier transforms order them (its origin is read at "
        "[{}, {}], so the picture falls apart): write numpy.fft.fftshift of it",
        origin[0], origin[1]));
  else if (moved(0) || moved(1))
    warn(
        fmt::format("is not centered: its center of mass is [{:.1f}, {:.1f}], its origin [{}, {}], so the "
                    "result is shifted by {:.1f} rows and {:.1f} columns: unless the blur moves the picture, "
                    "write 'center: [{}, {}]' beside kernel.file",
                    p.center[0], p.center[1], origin[0], origin[1], -off(0), -off(1),
                    std::llround(p.center[0]), std::llround(p.center[1])));
  else if (const auto half = [&](std::size_t d) { return std::abs(std::abs(off(d)) - 0.5) < 0.1; };
           every_pixel && symmetric && (half(0) || half(1)))
    out.notes.push_back(fmt::format(
        "{} has its middle between two taps, at [{:.1f}, {:.1f}], and its origin at [{}, {}]: the result is "
        "shifted by half a pixel; a kernel of odd size has a tap in its middle",
        name, p.center[0], p.center[1], origin[0], origin[1]));
  if (wide) {
    const double rim = k.median_of_ring(0) / peak, beyond = 2 * rim - k.median_of_ring(1) / peak;
    if (rim < 0.8 && beyond > 0.25)
      warn(fmt::format(
          "is cut off: its rim still has {:.0f} % of its peak (what lies beyond is missing in the "
          "model): give it with its tails",
          100 * rim));
  }
  double below = 0;
  for (const double v : k.values) below += std::max(0.0, -v);
  // Interpolation kernels have symmetric lobes below 0; noise is not symmetric.
  if (below > 0.05 * sum && symmetry(k, p, [](double v) { return std::min(v, 0.0); }) < 0.6)
    warn(
        fmt::format("has taps below 0 that add up to {:.0f} % of its sum and have no order (noise, which the "
                    "blur then spreads): set taps that are no higher than its noise to 0, or cut it smaller",
                    100 * below / sum));
  if (k.values.size() > 1 && peak > 0.99 * sum)
    out.notes.push_back(
        fmt::format("{} has {:.4g} % of its sum in one tap: it hardly blurs", name, 100 * peak / sum));
  if (!file.normalize && (whole > 20 || whole < 0.05))
    warn(
        fmt::format("has the sum {:.4g} and normalize is false (white in the image would be {:.4g} in the "
                    "measurement): remove 'normalize: false'",
                    whole, whole));
}

}  // namespace

KernelLook look_at_kernel(const FileKernel& file, const at::Tensor& taps, bool every_pixel) {
  const std::string kernel = "kernel " + file.path;
  const std::int64_t odd = taps.isfinite().logical_not().sum().item().toLong();
  TESSERA_VALIDATE(odd == 0, kernel, " has ", odd, " of ", taps.numel(),
                   " taps that are not numbers (the blur would be NaN everywhere) set them to 0, or to the "
                   "mean of their neighbors");
  KernelLook out;
  for (std::int64_t c = 0; c < taps.size(0); ++c) {
    const at::Tensor one = taps[c].contiguous();
    const std::string name = taps.size(0) > 1 ? concat("channel ", c, " of ", kernel) : kernel;
    Taps k{one.size(0), one.size(1), {}};
    k.values.assign(one.const_data_ptr<double>(), one.const_data_ptr<double>() + one.numel());
    double sizes = 0;
    for (const double v : k.values) sizes += std::abs(v);
    TESSERA_VALIDATE(sizes > 0, name,
                     " is 0 everywhere (nothing would be measured) is it the right file, and "
                     "were small numbers rounded to whole ones?");
    const double sum = k.sum();
    TESSERA_VALIDATE(!file.normalize || sum > 1e-9 * sizes, name, " has the sum ", sum,
                     " (taps are divided by their sum, which must be above 0) correct the file, or, where it "
                     "is a filter of "
                     "differences, write 'normalize: false' beside kernel.file");
    look(name, file, std::move(k), every_pixel, out);
  }
  return out;
}

}  // namespace tessera
