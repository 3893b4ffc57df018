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
#include <optional>
#include <span>
#include <vector>

namespace tessera {
namespace {

constexpr std::int64_t kMostOfPicture = 384, kMostOfVolume = 96;  // samples along an axis that are looked at
constexpr std::int64_t kLeast = 24;  // of the picture that is compared, in rows and columns
constexpr double kSymmetric = 0.97;
constexpr std::int64_t kParts = 12;          // of rows and of columns
constexpr double kPower = 0.3;               // of a gradient's size
constexpr double kClear = 3, kSome = 0.006;  // deviations of the parts' mean, and the difference itself
// The least power, in that of the noise, of a picture where the given kernel leaves none.
constexpr double kPicture = 1.5;
// Deviations where there are too few places of that kind: of the pictures, and of their phases under both spectra.
constexpr double kClearAlone = 4, kPhases = 2;

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

// How a kernel may lie: the axes along which it is turned around, and whether rows and columns are exchanged before.
struct Sense {
  std::array<bool, 3> flipped;
  bool transposed;
  const char *looks, *with, *why, *remedy;
};
constexpr Sense kGiven{{false, false, false}, false, "", "", "", ""};
constexpr std::array<Sense, 4> kSenses{
    Sense{
        {true, true, true},
        false,
        "turned by half a turn",
        "turned around",
        "cv2.filter2D, scipy.ndimage.correlate and conv2d of torch do not turn a kernel, a convolution does",
        "numpy.flip(kernel)"},
    Sense{{false, true, false},
          false,
          "mirrored, up and down exchanged",
          "mirrored",
          "FITS, plots and formulas count rows from the bottom, pictures and arrays from the top",
          "numpy.flip(kernel, -2)"},
    Sense{{false, false, true},
          false,
          "mirrored, left and right exchanged",
          "mirrored",
          "seen from behind, or by one mirror more, a picture's sides are exchanged",
          "numpy.flip(kernel, -1)"},
    Sense{{false, false, false},
          true,
          "transposed, rows and columns exchanged",
          "transposed",
          "MATLAB and Fortran store columns first",
          "numpy.swapaxes(kernel, -1, -2)"}};

// All channels' taps added up and divided by their sum, and the place of their origin.
struct Taps {
  at::Tensor taps;  // (d, h, w), float64
  Sizes origin{};
};
Taps laid(const Convolution& kernel, const Sense& sense) {
  at::Tensor taps = kernel.taps.to(at::kCPU, at::kDouble).sum(0);
  taps = taps.div(taps.sum());
  if (sense.transposed) taps = taps.transpose(1, 2);
  Taps out;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    const std::int64_t n = taps.size(axis);
    out.origin[d] = sense.flipped[d] ? n - 1 - n / 2 : n / 2;
    if (sense.flipped[d]) taps = taps.flip({axis});
  }
  out.taps = taps;
  return out;
}

// The kernel's spectrum on the grid of the samples.
at::Tensor spectrum_of(const at::Tensor& taps, const at::Tensor& like) {
  at::Tensor there = at::zeros(like.sizes(), at::kDouble), cut = there;
  for (std::int64_t d = 0; d < 3; ++d) cut = cut.narrow(d, 0, taps.size(d));
  cut.copy_(taps);
  return at::fft_fftn(there);
}

// Of a kernel and itself in another sense, wherever that lies best; 1: the same.
double symmetry(const at::Tensor& taps, const at::Tensor& other) {
  Sizes both{};
  for (std::size_t d = 0; d < 3; ++d)
    both[d] = taps.size(static_cast<std::int64_t>(d)) + other.size(static_cast<std::int64_t>(d));
  const at::Tensor grid = at::zeros(both, at::kDouble);
  const at::Tensor meeting =
      at::real(at::fft_ifftn(spectrum_of(taps, grid) * spectrum_of(other, grid).conj()));
  return meeting.max().item().toDouble() / taps.square().sum().item().toDouble();
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

// `y` that falls to 0 at its ends, and how wide of them is not looked at; nothing where too little would be left.
struct Tapered {
  at::Tensor y;
  Sizes margin{};
};
std::optional<Tapered> tapered(const at::Tensor& y, const Convolution& kernel) {
  Tapered out{y};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t n = y.size(static_cast<std::int64_t>(d));
    std::int64_t taps = kernel.taps.size(static_cast<std::int64_t>(d) + 1);
    if (d > 0) taps = std::max(kernel.taps.size(2), kernel.taps.size(3));
    if (taps > n) return std::nullopt;
    if (n == 1) continue;
    const std::int64_t h = std::min(taps + 2, n / 6);
    out.margin[d] = 2 * h;
    if (d > 0 && n - 4 * h < kLeast) return std::nullopt;
    at::Tensor window = at::ones({n}, at::kDouble);
    for (std::int64_t k = 0; k < h; ++k) {
      const double s =
          std::sin((static_cast<double>(k) + 0.5) / static_cast<double>(h) * std::numbers::pi / 2);
      window[k] = s * s;
      window[n - 1 - k] = s * s;
    }
    out.y = out.y * along(window, d);
  }
  return out;
}

// Kernels of other spectra tell themselves by these as well: where the given one would leave noise alone and the other
// one a picture, the power of the measurement in that of the noise. 0: there are too few such places.
double power_of_none(const at::Tensor& Y, const at::Tensor& given, const at::Tensor& other,
                     const at::Tensor& power, double noise) {
  constexpr double kNone = 0.25, kMuch = 2;
  constexpr std::int64_t kFewest = 64;
  const at::Tensor asked = (at::real(given * given.conj()) * power)
                               .lt(kNone * noise)
                               .logical_and_((at::real(other * other.conj()) * power).gt(kMuch * noise));
  const std::int64_t n = asked.sum().item().toLong();
  if (n < kFewest) return 0;
  const at::Tensor measured = at::real(Y * Y.conj()).masked_select(asked);
  return measured.mean().item().toDouble() / (noise * static_cast<double>(Y.numel()));
}

// How much less the kernel has in another sense: the difference of its mean, and that in deviations of the parts.
struct Verdict {
  double less = 0, sure = 0;
  std::size_t sense = 0;  // of kSenses
};
Verdict apart(const std::vector<double>& given, const std::vector<double>& other) {
  std::vector<double> apart, ratio;
  double sum = 0, all = 0;
  for (std::size_t k = 0; k < given.size(); ++k) {
    if (!(given[k] > 0 && other[k] > 0)) continue;
    apart.push_back(given[k] - other[k]);
    ratio.push_back(std::log(given[k] / other[k]));
    sum += apart.back();
    all += (given[k] + other[k]) / 2;
  }
  if (apart.size() < kParts * kParts / 2) return {};
  return {sum / all, std::min(deviations(apart), deviations(ratio))};
}

Verdict compare(const at::Tensor& y, const Convolution& kernel, double sigma) {
  constexpr double kStrength = 4, kFaint = 0.01;
  const std::optional<Tapered> part = tapered(y, kernel);
  if (!part) return {};
  const double scatter = y.square().mean().item().toDouble();
  const double noise = std::max(sigma * sigma, kFaint * kFaint * scatter),
               picture = std::max(scatter - noise, 0.1 * noise);
  const at::Tensor Y = at::fft_fftn(part->y), power = picture_power(y, picture),
                   extra = power.reciprocal().mul(kStrength * noise);
  // Wiener's filter of the phase of one kernel and the size of another; every picture at the same place.
  const auto edges = [&](const at::Tensor& K, const Sizes& origin, const at::Tensor& size) {
    const at::Tensor square = at::real(size * size.conj()), own = at::real(K * K.conj());
    const at::Tensor filter = K.conj() * (square / own.clamp_min(1e-30)).sqrt() / (square + extra);
    return edges_in_parts(at::real(at::fft_ifftn(Y * filter)).roll(origin, Sizes{0, 1, 2}), part->margin);
  };
  const Taps own = laid(kernel, kGiven);
  const at::Tensor K = spectrum_of(own.taps, y);
  std::vector<double> given;
  Verdict best;
  for (std::size_t k = 0; k < kSenses.size(); ++k) {
    const Taps other = laid(kernel, kSenses[k]);
    if (symmetry(own.taps, other.taps) > kSymmetric) continue;
    const at::Tensor L = spectrum_of(other.taps, y);
    if (given.empty()) given = edges(K, own.origin, K);
    Verdict v = apart(given, edges(L, other.origin, L));
    v.sense = k;
    if (v.sure < kClear || v.less < kSome) continue;
    if (k > 0) {  // of another spectrum
      const double none = power_of_none(Y, K, L, power, noise);
      if (none > 0 && none < kPicture) continue;
      const auto phases = [&](const at::Tensor& size) {
        return apart(edges(K, own.origin, size), edges(L, other.origin, size)).sure;
      };
      if (none == 0 && (v.sure < kClearAlone || std::min(phases(K), phases(L)) < kPhases)) continue;
    }
    // A mirrored kernel that is symmetric under half a turn is mirrored along both axes: the first is said.
    if (v.less > 1.001 * best.less) best = v;
  }
  return best;
}

// Two channels of which each looks blurred by the other's kernel; none: -1.
struct Exchanged {
  std::int64_t one = -1, other = -1;
};
// `y`: the middle of each channel. Where one channel's kernel leaves noise alone and another's a picture, the first has
// none and the other has one, or the kernels are exchanged.
Exchanged exchanged_channels(const std::vector<at::Tensor>& y, const Convolution& kernel, double sigma) {
  constexpr double kNothing = 1.2;  // of the noise's power
  if (!(sigma > 0)) return {};
  std::vector<at::Tensor> Y, K, power;
  for (std::size_t c = 0; c < y.size(); ++c) {
    const std::optional<Tapered> part = tapered(y[c], kernel);
    if (!part) return {};
    Y.push_back(at::fft_fftn(part->y));
    const double scatter = y[c].square().mean().item().toDouble();
    power.push_back(picture_power(y[c], std::max(scatter - sigma * sigma, 0.1 * sigma * sigma)));
    Convolution one = kernel;
    one.taps = kernel.taps.narrow(0, static_cast<std::int64_t>(c), 1);
    K.push_back(spectrum_of(laid(one, kGiven).taps, y[c]));
  }
  for (std::size_t a = 0; a < y.size(); ++a)
    for (std::size_t b = 0; b < y.size(); ++b) {
      if (a == b) continue;
      const double own = power_of_none(Y[a], K[a], K[b], power[a], sigma * sigma),
                   others = power_of_none(Y[b], K[a], K[b], power[b], sigma * sigma);
      if (own > kPicture && others > 0 && others < kNothing)
        return {static_cast<std::int64_t>(std::min(a, b)), static_cast<std::int64_t>(std::max(a, b))};
    }
  return {};
}

}  // namespace

void warn_of_exchanged_kernels(const Measurement& y, const Measurement& marks, Surveyed& seen,
                               const Communicator& comm) {
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t i = 0; i < layout.parts() && i < traits.parts.size(); ++i) {
    const auto& kernel = traits.parts[i].convolution;
    const std::int64_t channels = kernel ? kernel->taps.size(0) : 1;
    if (channels == 1 || channels > 4 || kernel->decimates()) continue;
    std::vector<at::Tensor> middles;
    bool enough = true;
    for (std::int64_t c = 0; c < channels; ++c) {
      const at::Tensor& m = marks[i];
      const MiddlePart middle = middle_of(y[i].narrow(0, c, 1), m.size(0) == channels ? m.narrow(0, c, 1) : m,
                                          layout.block(i, comm.rank()), layout.part(i).box(), comm);
      enough = enough && 20 * middle.counted.eq(0).sum().item().toLong() <= middle.counted.numel();
      if (enough) middles.push_back(filled(middle));
    }
    if (!enough) continue;
    std::array<double, 2> said{};
    comm.together([&] {
      if (comm.rank() != 0) return;
      const Exchanged found = exchanged_channels(middles, *kernel, seen.noise_sigma);
      said = {static_cast<double>(found.one + 1), static_cast<double>(found.other + 1)};
    });
    comm.all_reduce(said, Reduce::sum);
    if (said[0] <= 0) continue;
    seen.warnings.push_back(
        fmt::format("the kernels of channels {:.0f} and {:.0f}{} look exchanged: one channel has a picture "
                    "where its kernel would "
                    "leave noise alone, the other none where its own would let one through (OpenCV's "
                    "pictures are blue, green, "
                    "red) write them in the order of the image's channels, as kernel[::-1], and try which "
                    "picture is right",
                    said[0], said[1], layout.parts() > 1 ? fmt::format(" of part {}", i) : ""));
  }
}

void warn_of_turned_kernel(const Measurement& y, const Measurement& marks, Surveyed& seen,
                           const Communicator& comm) {
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t i = 0; i < layout.parts() && i < traits.parts.size(); ++i) {
    const auto& kernel = traits.parts[i].convolution;
    if (!kernel || kernel->decimates() || kernel->taps.numel() == kernel->taps.size(0)) continue;
    const MiddlePart middle =
        middle_of(y[i], marks[i], layout.block(i, comm.rank()), layout.part(i).box(), comm);
    std::array<double, 3> said{};
    comm.together([&] {
      const double channels = static_cast<double>(y[i].size(0));
      if (comm.rank() != 0 || 20 * middle.counted.eq(0).sum().item().toLong() > middle.counted.numel())
        return;
      const Verdict v = compare(filled(middle), *kernel, seen.noise_sigma * std::sqrt(channels));
      said = {v.less, v.sure, static_cast<double>(v.sense)};
    });
    comm.all_reduce(said, Reduce::sum);
    if (said[0] <= 0) continue;
    const Sense& sense = kSenses.at(static_cast<std::size_t>(said[2]));
    seen.warnings.push_back(fmt::format(
        "the kernel{} looks {}: deconvolved with it {}, the middle of the measurement has sharper edges with "
        "less ringing, by {:.1f} deviations ({}) write it as {}, and try which picture is right",
        layout.parts() > 1 ? fmt::format(" of part {}", i) : "", sense.looks, sense.with, said[1], sense.why,
        sense.remedy));
  }
}

}  // namespace tessera
