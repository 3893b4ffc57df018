// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of volumes with measured kernels: by FFTs of tiles (overlap-save), or tap by tap.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/fft_ifft.h>
#include <ATen/ops/fft_irfft2.h>
#include <ATen/ops/fft_rfft2.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "kernel_checks.hpp"
#include "overlap_save.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

using Taps = at::Tensor;  // (1 or C, d, h, w), float64, host

// More taps than this go by FFT by the automatic method.
constexpr std::int64_t kDirectTaps = 27;

struct VolumeTiles {
  Index3 side{}, core{}, count{};
  std::int64_t values() const { return side[0] * side[1] * side[2]; }
  std::int64_t number() const { return count[0] * count[1] * count[2]; }
};

// Tiles that cover `extent` outputs of a kernel with `overlap` = taps - 1: the cheapest of those that fit. All but
// the last along an axis have cores that `factor` divides.
VolumeTiles choose_volume_tiles(const Index3& extent, const Index3& overlap, const Index3& factor,
                                std::int64_t most) {
  std::array<std::vector<std::int64_t>, 3> cores;
  for (std::size_t d = 0; d < 3; ++d)
    for (std::int64_t n = 1; n <= 64; ++n) {
      const std::int64_t samples = ((extent[d] + n - 1) / n + factor[d] - 1) / factor[d];
      cores[d].push_back(std::min(samples * factor[d], extent[d]));
      if (cores[d].back() <= std::max<std::int64_t>(16, overlap[d] / 2)) break;
    }
  VolumeTiles best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t z : cores[0])
    for (const std::int64_t y : cores[1])
      for (const std::int64_t x : cores[2]) {
        VolumeTiles t;
        const Index3 core{z, y, x};
        for (std::size_t d = 0; d < 3; ++d) {
          t.side[d] = fast_size(core[d] + overlap[d]);
          t.core[d] = std::min(t.side[d] - overlap[d], extent[d]);
          if (t.core[d] < extent[d]) t.core[d] -= t.core[d] % factor[d];
          t.count[d] = (extent[d] + t.core[d] - 1) / t.core[d];
        }
        const auto values = static_cast<double>(t.values());
        const double cost = static_cast<double>(t.number()) * (values * std::log2(values + 1) + 2e4) *
                            (t.values() > most ? 1e30 * values : 1);
        if (cost < least) {
          least = cost;
          best = t;
        }
      }
  return best;
}

at::Tensor window(const at::Tensor& t, const Index3& begin, const Index3& extent) {
  return t.narrow(1, begin[0], extent[0]).narrow(2, begin[1], extent[1]).narrow(3, begin[2], extent[2]);
}

at::Tensor every(const at::Tensor& t, const Index3& step) {
  return t.slice(1, 0, t.size(1), step[0]).slice(2, 0, t.size(2), step[1]).slice(3, 0, t.size(3), step[2]);
}

// Where the samples of one rank begin to see its input, and of how many voxels every factor-th is one.
struct Seen {
  Index3 begin{}, extent{}, overlap{}, factor{1, 1, 1};
};

class PlacedByTaps final : public PlacedOperator {
 public:
  PlacedByTaps(const Taps& taps, const Seen& seen) : taps_(taps), seen_(seen) {}
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    at::Tensor out = y[0];
    out.zero_();
    each(out.size(0), [&](std::int64_t c, std::int64_t channels, const Index3& begin, double tap) {
      out.narrow(0, c, channels)
          .add_(every(window(x.narrow(0, c, channels), begin, seen_.extent), seen_.factor), tap);
    });
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    each(x.size(0), [&](std::int64_t c, std::int64_t channels, const Index3& begin, double tap) {
      every(window(x.narrow(0, c, channels), begin, seen_.extent), seen_.factor)
          .add_(y[0].narrow(0, c, channels), tap);
    });
  }

 private:
  // visit(first channel, channels, begin of the pixels that meet the tap, tap)
  template <class Visit>
  void each(std::int64_t of_image, Visit visit) const {
    const std::int64_t kernels = taps_.size(0), channels = kernels == 1 ? of_image : 1;
    const auto tap = taps_.accessor<double, 4>();
    for (std::int64_t k = 0; k < kernels; ++k)
      for (std::int64_t z = 0; z < taps_.size(1); ++z)
        for (std::int64_t y = 0; y < taps_.size(2); ++y)
          for (std::int64_t x = 0; x < taps_.size(3); ++x) {
            const double value = tap[k][z][y][x];
            if (value == 0) continue;
            const Index3 o = seen_.overlap;
            visit(k, channels,
                  {seen_.begin[0] + o[0] - z, seen_.begin[1] + o[1] - y, seen_.begin[2] + o[2] - x}, value);
          }
  }

  Taps taps_;
  Seen seen_;
};

// One forward and one inverse transform of each tile. Tiles go one after another, so that what overlaps is summed
// in their order; a transform has all threads.
class PlacedByTiles final : public PlacedOperator {
 public:
  PlacedByTiles(const Taps& taps, const Seen& seen, const VolumeTiles& tiles,
                const LocalOperator::Placement& p)
      : seen_(seen), tiles_(tiles) {
    const Index3& side = tiles_.side;
    const at::ScalarType complex = at::toComplexType(p.options.dtype().toScalarType());
    // Output m of a tile is sum_j taps[j] tile[m + overlap - j]: tap j stands at j - overlap, modulo the side.
    at::Tensor placed = at::zeros({taps.size(0), side[0], side[1], side[2]}, at::kDouble);
    window(placed, {}, {taps.size(1), taps.size(2), taps.size(3)}).copy_(taps);
    placed = placed.roll({-seen.overlap[0], -seen.overlap[1], -seen.overlap[2]}, {1, 2, 3});
    spectrum_ = transformed(placed)
                    .to(p.options.dtype(complex))
                    .view({taps.size(0), side[0] * side[1], side[2] / 2 + 1});
    tile_ = at::empty({p.image.planes(), side[0], side[1], side[2]}, p.options);
  }
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    each([&](const Index3& first, const Index3& core) {
      Index3 begin = first, extent = core;
      for (std::size_t d = 0; d < 3; ++d) {
        begin[d] += seen_.begin[d];
        extent[d] += seen_.overlap[d];
      }
      tile_.zero_();
      window(tile_, {}, extent).copy_(window(x, begin, extent));
      samples(y[0], first, core).copy_(every(window(filtered(Filter::as_is), {}, core), seen_.factor));
    });
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    each([&](const Index3& first, const Index3& core) {
      Index3 begin = first, extent = core;
      for (std::size_t d = 0; d < 3; ++d) {
        begin[d] += seen_.begin[d];
        extent[d] += seen_.overlap[d];
      }
      tile_.zero_();
      every(window(tile_, {}, core), seen_.factor).copy_(samples(y[0], first, core));
      window(x, begin, extent).add_(window(filtered(Filter::conjugate), {}, extent));
    });
  }

 private:
  // visit(first output, outputs) of every tile.
  template <class Visit>
  void each(Visit visit) const {
    for (std::int64_t z = 0; z < tiles_.count[0]; ++z)
      for (std::int64_t y = 0; y < tiles_.count[1]; ++y)
        for (std::int64_t x = 0; x < tiles_.count[2]; ++x) {
          Index3 first{z * tiles_.core[0], y * tiles_.core[1], x * tiles_.core[2]}, core{};
          for (std::size_t d = 0; d < 3; ++d) core[d] = std::min(tiles_.core[d], seen_.extent[d] - first[d]);
          visit(first, core);
        }
  }
  // Those among `core` outputs from `first` on, which the factor divides.
  at::Tensor samples(const at::Tensor& y, const Index3& first, const Index3& core) const {
    Index3 begin{}, extent{};
    for (std::size_t d = 0; d < 3; ++d) {
      begin[d] = first[d] / seen_.factor[d];
      extent[d] = (core[d] + seen_.factor[d] - 1) / seen_.factor[d];
    }
    return window(y, begin, extent);
  }
  // Slice by slice, then along the slices: bits of a transform of all three axes depend on the number of threads.
  static at::Tensor transformed(const at::Tensor& t) {
    return at::fft_fft(at::fft_rfft2(t, std::nullopt, at::IntArrayRef{2, 3}), std::nullopt, 1).contiguous();
  }
  at::Tensor filtered(Filter filter) {
    const Index3& side = tiles_.side;
    const at::Tensor values = transformed(tile_);
    const at::Tensor rows = values.view({values.size(0), side[0] * side[1], side[2] / 2 + 1});
    multiply_spectra(rows, rows, spectrum_, filter, Into::replace);
    return at::fft_irfft2(at::fft_ifft(values, std::nullopt, 1), at::IntArrayRef(side.data() + 1, 2),
                          at::IntArrayRef{2, 3});
  }

  Seen seen_;
  VolumeTiles tiles_;
  at::Tensor spectrum_;  // (1 or C, rows, side / 2 + 1)
  at::Tensor tile_;
};

// A rank without samples.
class PlacedNowhere final : public PlacedOperator {
 public:
  void apply(const at::Tensor&, std::span<const at::Tensor>) override {}
  void adjoint(std::span<const at::Tensor>, const at::Tensor&) override {}
};

class VolumeBlur final : public LocalOperator {
 public:
  explicit VolumeBlur(VolumeBlurOptions options)
      : boundary_(options.boundary),
        factor_(options.factor),
        phase_(options.phase),
        tile_values_(options.tile_values) {
    taps_ = checked_taps(options.kernel, 3, "slices, rows and columns", "d, h, w");
    origin_ = options.origin.value_or(Index3{size(0) / 2, size(1) / 2, size(2) / 2});
    check_origin(taps_, origin_);
    check_decimation(factor_, phase_);
    by_fft_ = options.method == BlurMethod::automatic ? size(0) * size(1) * size(2) > kDirectTaps
                                                      : options.method == BlurMethod::fft;
  }

  std::string name() const override { return factor_ == Index3{1, 1, 1} ? "blur" : "downsampling"; }
  std::int64_t channels(std::int64_t of_image) const override {
    check_kernels(taps_, of_image);
    return of_image;
  }
  Reach reach() const override {
    Reach r;
    for (std::size_t d = 0; d < 3; ++d) {
      r.lo[d] = size(d) - 1 - origin_[d];
      r.hi[d] = origin_[d];
    }
    return r;
  }
  Anchor anchor() const override {
    return {factor_, boundary_ == Boundary::valid ? phase_ + reach().lo : phase_};
  }
  Border border() const override { return border_of(boundary_); }
  Box measurement(const Box& image) const override {
    Index3 hi{};
    for (std::size_t d = 0; d < 3; ++d)
      hi[d] = samples_along(static_cast<std::int64_t>(d), image.extent(d), size(d),
                            boundary_ == Boundary::valid, factor_[d], phase_[d]);
    return {{0, 0, 0}, hi};
  }
  std::optional<Convolution> convolution() const override { return Convolution{taps_, origin_, factor_}; }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const> group,
                                        const Placement& placement) const override {
    const Box& samples = placement.samples[0];
    if (samples.empty()) return std::make_unique<PlacedNowhere>();
    Seen seen{.extent = outputs(samples), .factor = factor_};
    for (std::size_t d = 0; d < 3; ++d) {
      seen.overlap[d] = size(d) - 1;
      seen.begin[d] = factor_[d] * samples.lo()[d] + anchor().offset[d] - (size(d) - 1 - origin_[d]) -
                      placement.input.lo()[d];
    }
    if (!by_fft_) return std::make_unique<PlacedByTaps>(taps_, seen);
    return std::make_unique<PlacedByTiles>(taps_, seen, tiles_of(samples), placement);
  }
  OperatorWork work(std::span<const LocalOperator* const> group, std::span<const Box> samples,
                    std::int64_t channels) const override {
    if (!by_fft_) return LocalOperator::work(group, samples, channels);
    if (samples[0].empty()) return {};
    // Tiles of float32 and per channel: that which is filled, two of complex numbers, the filtered one.
    constexpr double kTiles = 4;
    const VolumeTiles tiles = tiles_of(samples[0]);
    const auto values = static_cast<double>(tiles.values()), c = static_cast<double>(channels);
    OperatorWork w;
    w.transforms.push_back({4.0 * static_cast<double>(tiles.number()), c * values, 1});
    w.moment = (kTiles - 1) * 4 * c * values;
    w.kept = 4 * values * (static_cast<double>(taps_.size(0)) + c);
    return w;
  }

 private:
  std::int64_t size(std::size_t axis) const { return taps_.size(static_cast<std::int64_t>(axis) + 1); }
  // From the first to the last sample, in voxels.
  Index3 outputs(const Box& samples) const {
    Index3 extent{};
    for (std::size_t d = 0; d < 3; ++d) extent[d] = factor_[d] * (samples.extent(d) - 1) + 1;
    return extent;
  }
  VolumeTiles tiles_of(const Box& samples) const {
    return choose_volume_tiles(outputs(samples), {size(0) - 1, size(1) - 1, size(2) - 1}, factor_,
                               tile_values_);
  }

  Taps taps_;
  Index3 origin_{};
  Boundary boundary_;
  Index3 factor_, phase_;
  std::int64_t tile_values_;
  bool by_fft_ = false;
};

}  // namespace

std::unique_ptr<LocalOperator> make_volume_blur(VolumeBlurOptions options) {
  return std::make_unique<VolumeBlur>(std::move(options));
}

}  // namespace tessera
