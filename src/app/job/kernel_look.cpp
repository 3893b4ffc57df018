// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/kernel_look.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "job/hot_taps.hpp"
#include "job/kernel_background.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kSmall = 5;  // taps a side: smaller kernels are all rim
constexpr double kSymmetric = 0.9;  // correlation with the kernel turned around

struct LocalPlace {
  std::array<double, 3> center{}, spread{};
  double width() const { return std::hypot(spread[0], spread[1], spread[2]); }
};

// Center of mass and root mean square width of the taps that matter, moved by `roll`.
LocalPlace place_of(const Taps& k, const Index3& roll) {
  const double least = 0.02 * k.peak();
  LocalPlace p;
  double sum = 0;
  std::array<double, 3> squares{};
  k.each([&](const Index3& p3, double v) {
    if (v < least) return;
    sum += v;
    for (std::size_t d = 0; d < 3; ++d) {
      const auto at = static_cast<double>((p3[d] + roll[d]) % k.size[d]);
      p.center[d] += v * at;
      squares[d] += v * at * at;
    }
  });
  for (std::size_t d = 0; d < 3; ++d) {
    p.center[d] /= sum;
    p.spread[d] = std::sqrt(std::max(0.0, squares[d] / sum - p.center[d] * p.center[d]));
  }
  return p;
}

// Correlation of f(taps) with itself turned around the center of mass.
template <class Part>
double symmetry(const Taps& k, const LocalPlace& p, Part part) {
  const Index3 twice{std::llround(2 * p.center[0]), std::llround(2 * p.center[1]),
                     std::llround(2 * p.center[2])};
  double same = 0, all = 0;
  k.each([&](const Index3& at, double v) {
    same += part(v) * part(k.at({twice[0] - at[0], twice[1] - at[1], twice[2] - at[2]}));
    all += part(v) * part(v);
  });
  return all > 0 ? same / all : 1;
}

// Equal largest taps beside which the kernel falls steeply, and which are not most of it. They and what touches one of
// them are equal somewhere: along a line they are a motion.
std::int64_t clipped_top(const Taps& k) {
  const double peak = k.peak();
  std::vector<double> beside;
  std::int64_t top = 0;
  bool whole = true, filled = false;
  k.each([&](const Index3& at, double v) {
    whole = whole && v == std::floor(v);
    bool all = true, any = false;
    k.around(at, [&](double other) {
      all = all && other == peak;
      any = any || other == peak;
    });
    top += v == peak;
    filled = filled || all;
    if (v != peak && any) beside.push_back(v);
  });
  if (!whole || !filled || beside.empty() || median_of(beside) > 0.95 * peak) return 0;
  return static_cast<double>(top) * peak < 0.7 * k.sum() ? top : 0;
}

// Where its middle is, and where its origin is read.
void look_at_place(const std::string& name, const FileKernel& file, const Taps& k, const LocalPlace& p,
                   bool every_pixel, const Warn& warn, KernelLook& out) {
  const Index3 middle{k.size[0] / 2, k.size[1] / 2, k.size[2] / 2};
  const LocalPlace rolled = place_of(k, middle);
  const std::size_t first = k.first();
  Index3 origin = middle;
  for (std::size_t i = 0, n = file.center.size(); i < n; ++i) origin[3 - n + i] = file.center[i];
  const bool symmetric = symmetry(k, p, [](double v) { return v; }) > kSymmetric;
  const auto off = [&](std::size_t d) { return p.center[d] - static_cast<double>(origin[d]); };
  bool moved = false, half = false;
  for (std::size_t d = first; d < 3; ++d) {
    moved = moved || std::abs(off(d)) > (symmetric ? 0.75 : std::max(1.0, p.spread[d]));
    half = half || std::abs(std::abs(off(d)) - 0.5) < 0.1;
  }
  // Of the axes that it has, as a list.
  const auto list = [&](const char* format, const auto& value) {
    std::vector<std::string> texts;
    for (std::size_t d = first; d < 3; ++d) texts.push_back(fmt::format(fmt::runtime(format), value(d)));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  };
  const std::string center = list("{:.1f}", [&](std::size_t d) { return p.center[d]; });
  const std::string read_at = list("{}", [&](std::size_t d) { return origin[d]; });
  if (rolled.width() < 0.5 * p.width())
    warn(fmt::format(
        "has its taps around the corners, as Fourier transforms order them (its origin is read at {}, so the "
        "picture falls apart): write numpy.fft.fftshift of it",
        read_at));
  else if (moved)
    warn(
        fmt::format("is not centered: its center of mass is {}, its origin {}, so the result is shifted by "
                    "{}{:.1f} rows and {:.1f} columns: unless the blur moves the picture, write 'center: {}' "
                    "beside kernel.file",
                    center, read_at, first == 0 ? fmt::format("{:.1f} slices, ", -off(0)) : "", -off(1),
                    -off(2), list("{}", [&](std::size_t d) { return std::llround(p.center[d]); })));
  else if (every_pixel && symmetric && half)
    out.notes.push_back(fmt::format(
        "{} has its middle between two taps, at {}, and its origin at {}: the result is shifted by half a "
        "pixel; a kernel of odd size has a tap in its middle",
        name, center, read_at));
}

void look(const std::string& name, const FileKernel& file, Taps k, bool every_pixel, KernelLook& out) {
  const auto warn = [&](const std::string& text) { out.warnings.push_back(name + " " + text); };
  const bool wide = k.shortest() >= kSmall;
  const double whole = k.sum();
  if (const std::int64_t top = clipped_top(k); top > 0)
    warn(
        fmt::format("has {} taps at its largest value, {:.6g} (its top looks saturated, and the true one is "
                    "higher and narrower): measure it with less light",
                    top, k.peak()));
  if (wide && look_at_background(k, warn)) return;
  const double peak = k.peak(), sum = k.sum();
  if (!(peak > 0) || !(sum > 0)) return;  // a filter of differences
  const LocalPlace p = place_of(k, {});
  look_at_place(name, file, k, p, every_pixel, warn, out);
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
  KernelLook out{.taps = taps.contiguous().clone()};
  for (std::int64_t c = 0; c < taps.size(0); ++c) {
    const at::Tensor one = taps[c].contiguous();
    const std::string name = taps.size(0) > 1 ? concat("channel ", c, " of ", kernel) : kernel;
    Taps k{{one.size(0), one.size(1), one.size(2)}, {}};
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
    if (mend_hot_taps(k, [&](const std::string& text) { out.warnings.push_back(name + " " + text); }))
      std::copy(k.values.begin(), k.values.end(), out.taps[c].mutable_data_ptr<double>());
    look(name, file, std::move(k), every_pixel, out);
  }
  return out;
}

}  // namespace tessera
