// SPDX-License-Identifier: BSD-3-Clause
#include "kernel_sense.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/fft_fftfreq.h>
#include <ATen/ops/fft_fftn.h>
#include <ATen/ops/fft_ifftn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

namespace tessera {
namespace {

constexpr std::int64_t kMostOfPicture = 384, kMostOfVolume = 96;  // samples along an axis that are looked at
constexpr std::int64_t kLeast = 24;  // of the picture that is compared, in rows and columns
constexpr double kSymmetric = 0.97;
constexpr std::int64_t kParts = 12;            // of rows and of columns
constexpr double kPower = 0.3;                 // of a gradient's size
constexpr double kClear = 2.5, kSome = 0.006;  // deviations of the parts' mean, and the difference itself

using Sizes = std::array<std::int64_t, 3>;

// The middle of a part, all channels added up, on all ranks; and how many of its samples count.
struct MiddlePart {
  at::Tensor y, counted;  // (D, H, W), float64
};
MiddlePart middle_of(const at::Tensor& y, const at::Tensor& marks, const Box& block, const Box& all,
                     const Communicator& comm) {
  const std::int64_t most = all.extent(0) > 1 ? kMostOfVolume : kMostOfPicture;
  Index3 lo{}, hi{};
  Sizes size{};
  for (std::size_t d = 0; d < 3; ++d) {
    size[d] = std::min(most, all.extent(d));
    lo[d] = all.lo()[d] + (all.extent(d) - size[d]) / 2;
    hi[d] = lo[d] + size[d];
  }
  MiddlePart out{at::zeros(size, at::kDouble), at::zeros(size, at::kDouble)};
  if (const Box mine = block.intersect(Box(lo, hi)); !mine.empty()) {
    const auto part = [&](const at::Tensor& t, const Box& whole) {
      at::Tensor cut = t;
      for (std::size_t d = 0; d < 3; ++d)
        cut = cut.narrow(static_cast<std::int64_t>(d) - 3, mine.lo()[d] - whole.lo()[d], mine.extent(d));
      return cut;
    };
    const auto as_volume = [&](const at::Tensor& t) {
      return t.dim() == 4 ? t : t.unsqueeze(1);  // (C, D, H, W)
    };
    const at::Tensor counts = part(as_volume(marks).ne(0), block).all(0);
    const at::Tensor sum = part(as_volume(y).to(at::kDouble), block).sum(0);
    part(out.y, Box(lo, hi)).copy_(sum.masked_fill(counts.logical_not(), 0));
    part(out.counted, Box(lo, hi)).copy_(counts);
  }
  for (const at::Tensor& t : {out.y, out.counted})
    comm.all_reduce(std::span<double>(t.data_ptr<double>(), static_cast<std::size_t>(t.numel())),
                    Reduce::sum);
  return out;
}

// Samples that do not count become the mean of those around that do.
at::Tensor filled(const MiddlePart& in) {
  const auto summed = [](at::Tensor t) {
    for (const std::int64_t axis : {1, 2}) {
      at::Tensor sum = t.clone();
      const std::int64_t n = t.size(axis);
      for (const std::int64_t step : {std::int64_t{1}, std::int64_t{2}}) {
        sum.narrow(axis, 0, n - step).add_(t.narrow(axis, step, n - step));
        sum.narrow(axis, step, n - step).add_(t.narrow(axis, 0, n - step));
      }
      t = sum;
    }
    return t;
  };
  const double mean = in.y.sum().item().toDouble() / in.counted.sum().item().toDouble();
  const at::Tensor none = in.counted.eq(0);
  if (!none.any().item().toBool()) return in.y - mean;
  const at::Tensor number = summed(in.counted);
  const at::Tensor around = summed(in.y).div(number.clamp_min(1)).masked_fill_(number.eq(0), mean);
  return in.y.where(in.counted.ne(0), around) - mean;
}

at::Tensor along(const at::Tensor& line, std::size_t axis) {
  Sizes shape{1, 1, 1};
  shape[axis] = line.numel();
  return line.view(shape);
}

// The kernel's spectrum on the grid of the samples.
at::Tensor spectrum_of(const Convolution& kernel, const at::Tensor& like) {
  const at::Tensor taps = kernel.taps.to(at::kCPU, at::kDouble).sum(0);
  at::Tensor there = at::zeros(like.sizes(), at::kDouble), cut = there;
  for (std::int64_t d = 0; d < 3; ++d) cut = cut.narrow(d, 0, taps.size(d));
  cut.copy_(taps.div(taps.sum()));
  return at::fft_fftn(there);
}

// Of a kernel and itself turned, wherever that lies best; 1: the same.
double symmetry(const at::Tensor& spectrum) {
  const at::Tensor both = at::real(at::fft_ifftn(spectrum.square()));
  const at::Tensor own = at::real(at::fft_ifftn(spectrum * spectrum.conj()));
  return both.max().item().toDouble() / own.max().item().toDouble();
}

// About the power of a picture of this variance, 1 / f^2.
at::Tensor picture_power(const at::Tensor& like, double variance) {
  at::Tensor squares = at::zeros(like.sizes(), at::kDouble);
  std::int64_t longest = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t n = like.size(static_cast<std::int64_t>(d));
    squares.add_(along(at::fft_fftfreq(n, 1.0, at::TensorOptions(at::kDouble)).square(), d));
    longest = std::max(longest, n);
  }
  const auto lowest = 1 / static_cast<double>(longest * longest);
  const at::Tensor power = squares.clamp_min(lowest).reciprocal();
  return power.mul(variance * static_cast<double>(like.numel()) / power.sum().item().toDouble());
}

// The sizes of gradients to kPower, `margin` from the ends, added up in kParts x kParts parts.
std::vector<double> edges_in_parts(const at::Tensor& x, const Sizes& margin) {
  at::Tensor squares = at::zeros(x.sizes(), at::kDouble);
  for (std::int64_t d = 0; d < 3; ++d)
    if (const std::int64_t n = x.size(d) - 1; n > 0)
      squares.narrow(d, 0, n).add_((x.narrow(d, 1, n) - x.narrow(d, 0, n)).square());
  at::Tensor roots = squares.pow(kPower / 2);
  for (std::size_t d = 0; d < 3; ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    roots = roots.narrow(axis, margin[d], x.size(axis) - 2 * margin[d]);
  }
  std::vector<double> out;
  for (const at::Tensor& band : roots.chunk(kParts, 1))
    for (const at::Tensor& part : band.chunk(kParts, 2)) out.push_back(part.sum().item().toDouble());
  return out;
}

// The mean in its own deviations.
double deviations(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v, squares += v * v;
  const auto n = static_cast<double>(values.size());
  const double variance = (squares - sum * sum / n) / (n - 1);
  return variance > 0 ? sum / std::sqrt(n * variance) : 0;
}

// How much less the kernel has when it is turned: the difference of its mean, and that in deviations of the parts.
struct Verdict {
  double less = 0, sure = 0;
};
Verdict compare(const at::Tensor& y, const Convolution& kernel, double sigma) {
  constexpr double kStrength = 4, kFaint = 0.01;
  Sizes margin{};
  at::Tensor tapered = y;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t n = y.size(static_cast<std::int64_t>(d)),
                       taps = kernel.taps.size(static_cast<std::int64_t>(d) + 1);
    if (taps > n) return {};
    if (n == 1) continue;
    const std::int64_t h = std::min(taps + 2, n / 6);
    margin[d] = 2 * h;
    if (d > 0 && n - 4 * h < kLeast) return {};
    at::Tensor window = at::ones({n}, at::kDouble);
    for (std::int64_t k = 0; k < h; ++k) {
      const double s =
          std::sin((static_cast<double>(k) + 0.5) / static_cast<double>(h) * std::numbers::pi / 2);
      window[k] = s * s;
      window[n - 1 - k] = s * s;
    }
    tapered = tapered * along(window, d);
  }
  const at::Tensor K = spectrum_of(kernel, y);
  if (symmetry(K) > kSymmetric) return {};
  const double scatter = y.square().mean().item().toDouble();
  const double noise = std::max(sigma * sigma, kFaint * kFaint * scatter),
               picture = std::max(scatter - noise, 0.1 * noise);
  const at::Tensor Y = at::fft_fftn(tapered),
                   under =
                       at::real(K * K.conj()) + picture_power(y, picture).reciprocal().mul(kStrength * noise);
  const auto origin = [&](const at::Tensor& x, bool turned) {  // both pictures at the same place
    Sizes by{};
    const Sizes axes{0, 1, 2};
    for (std::size_t d = 0; d < 3; ++d)
      by[d] = (turned ? -1 : 1) * (kernel.taps.size(static_cast<std::int64_t>(d) + 1) / 2);
    return x.roll(by, axes);
  };
  const std::vector<double> given =
      edges_in_parts(origin(at::real(at::fft_ifftn(Y * K.conj() / under)), false), margin);
  const std::vector<double> turned =
      edges_in_parts(origin(at::real(at::fft_ifftn(Y * K / under)), true), margin);
  std::vector<double> apart, ratio;
  double sum = 0, all = 0;
  for (std::size_t k = 0; k < given.size(); ++k) {
    if (!(given[k] > 0 && turned[k] > 0)) continue;
    apart.push_back(given[k] - turned[k]);
    ratio.push_back(std::log(given[k] / turned[k]));
    sum += apart.back();
    all += (given[k] + turned[k]) / 2;
  }
  if (apart.size() < kParts * kParts / 2) return {};
  return {sum / all, std::min(deviations(apart), deviations(ratio))};
}

}  // namespace

void warn_of_turned_kernel(const Measurement& y, const Measurement& marks, Surveyed& seen,
                           const Communicator& comm) {
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t i = 0; i < layout.parts() && i < traits.parts.size(); ++i) {
    const auto& kernel = traits.parts[i].convolution;
    if (!kernel || kernel->decimates() || kernel->taps.numel() == kernel->taps.size(0)) continue;
    const MiddlePart middle =
        middle_of(y[i], marks[i], layout.block(i, comm.rank()), layout.part(i).box(), comm);
    std::array<double, 2> said{};
    comm.together([&] {
      const double channels = static_cast<double>(y[i].size(0));
      if (comm.rank() != 0 || 20 * middle.counted.eq(0).sum().item().toLong() > middle.counted.numel())
        return;
      const Verdict v = compare(filled(middle), *kernel, seen.noise_sigma * std::sqrt(channels));
      said = {v.less, v.sure};
    });
    comm.all_reduce(said, Reduce::sum);
    if (said[0] < kSome || said[1] < kClear) continue;
    seen.warnings.push_back(fmt::format(
        "the kernel{} looks turned by half a turn: deconvolved with it turned around, the middle of the "
        "measurement has sharper edges with less ringing, by {:.1f} deviations (cv2.filter2D, "
        "scipy.ndimage.correlate and conv2d of torch do not turn a kernel, a convolution does) write it as "
        "numpy.flip(kernel), and try which picture is right",
        layout.parts() > 1 ? fmt::format(" of part {}", i) : "", said[1]));
  }
}

}  // namespace tessera
