// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/metrics.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRadius = 5;  // of the 11 x 11 window
constexpr double kSigma = 1.5;
constexpr std::int64_t kBand = 1 << 15;  // pixels of a band of SSIM, in which a dozen images of float64 stand
constexpr std::int64_t kLeastRows = 32;  // of it: its window's rim of 10 rows is computed twice

at::Tensor window(at::TensorOptions options) {
  std::array<double, 2 * kRadius + 1> taps{};
  double sum = 0;
  for (std::int64_t i = -kRadius; i <= kRadius; ++i)
    sum += taps[static_cast<std::size_t>(i + kRadius)] =
        std::exp(-static_cast<double>(i * i) / (2 * kSigma * kSigma));
  for (double& t : taps) t /= sum;
  return at::from_blob(taps.data(), {1, 1, 2 * kRadius + 1, 1}, at::kDouble)
      .to(options, false, /*copy=*/true);
}

// Separable, valid: (C, H + 10, W + 10) -> (C, H, W).
at::Tensor smooth(const at::Tensor& x, const at::Tensor& column) {
  const at::Tensor planes = x.unsqueeze(1);  // channels as a batch
  return at::conv2d(at::conv2d(planes, column), column.transpose(2, 3)).squeeze(1);
}

// Steps of 1/255 as an 8-bit file holds them, in double: their squared errors are whole numbers, the sum over
// ranks is exact.
at::Tensor to_8bit(const at::Tensor& x) {
  return at::clamp(x.to(at::kDouble), 0, 1).mul_(255).add_(0.5).floor_();
}

// f(band of x, band of y), summed over bands of rows: what f makes on the way stays small beside an image.
template <class Sum>
at::Tensor over_bands(const at::Tensor& x, const at::Tensor& y, const Sum& f) {
  constexpr std::int64_t kPixels = 1 << 19;
  at::Tensor sum = at::zeros({}, x.options().dtype(at::kDouble));
  const std::int64_t rows = x.dim() == 3 ? x.size(1) : x.size(2), axis = x.dim() - 2;
  if (x.numel() == 0) return sum;
  const std::int64_t most = std::max<std::int64_t>(1, kPixels * rows / x.numel());
  for (std::int64_t r = 0; r < rows; r += most) {
    const std::int64_t n = std::min(most, rows - r);
    sum.add_(f(x.narrow(axis, r, n), y.narrow(axis, r, n)));
  }
  return sum;
}

at::Tensor squared_error(const at::Tensor& x, const at::Tensor& y) {
  return over_bands(x, y, [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor error = a - b;
    return local_dot(error, error);
  });
}

double over_ranks(const at::Tensor& sum, const Space& space) {
  double value = sum.item<double>();
  space.comm().all_reduce({&value, 1}, Reduce::sum);
  return value;
}

}  // namespace

double psnr_of(double squared_error, double samples) { return -10.0 * std::log10(squared_error / samples); }

struct Metrics::Impl {
  at::Tensor truth;   // of `scored`
  Box block, scored;  // this rank's pixels; those of them in the region
  Box valid;          // pixels of all ranks whose window lies in the region
  Box need;           // `scored` and a rim
  double samples = 0, valid_samples = 0;
  std::unique_ptr<Exchange> exchange;

  at::Tensor part(const at::Tensor& image) const { return crop(image, block, scored); }
  // With its surroundings, reflected at the region's border.
  at::Tensor surround(const at::Tensor& inside) {
    const at::Tensor own = inside.to(truth.scalar_type()).contiguous();
    const at::Tensor padded = empty_block(truth.size(0), need, truth.options());
    exchange->begin(view(own, scored), view(padded, need)).wait();
    return padded;
  }
};

Metrics::Metrics(at::Tensor truth, const Decomposition& decomposition, const Communicator& comm,
                 std::shared_ptr<Transport> transport)
    : Metrics(truth, decomposition, comm, std::move(transport), decomposition.image()) {}

Metrics::Metrics(const at::Tensor& truth, const Decomposition& decomposition, const Communicator& comm,
                 std::shared_ptr<Transport> transport, const Box& region)
    : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  const std::int64_t channels = truth.size(0);
  std::vector<Box> boxes;
  for (int r = 0; r < comm.size(); ++r) boxes.push_back(decomposition.block(r).intersect(region));
  const Layout own(boxes);
  m.block = decomposition.block(comm.rank());
  m.scored = own.box(comm.rank());
  m.truth = m.part(truth);
  m.samples = static_cast<double>(region.pixels() * channels);
  if (region.extent(0) > 1) return;  // volumes: PSNR alone
  if (region.extent(1) > 2 * kRadius && region.extent(2) > 2 * kRadius)
    m.valid = Box(region.lo() + Index3{0, kRadius, kRadius}, region.hi() - Index3{0, kRadius, kRadius});
  m.valid_samples = static_cast<double>(m.valid.pixels() * channels);
  const Layout need = own.grow({{0, kRadius, kRadius}, {0, kRadius, kRadius}});
  m.need = need.box(comm.rank());
  m.exchange = std::make_unique<Exchange>(ExchangePlan(own, need, region, Border::reflect, comm.rank()),
                                          std::move(transport), channels, element_type(truth.scalar_type()));
}
Metrics::~Metrics() = default;

Deferred Metrics::psnr(const at::Tensor& image, Reducer& reducer) const {
  return reducer.add(
      {squared_error(impl_->part(image), impl_->truth)},
      [samples = impl_->samples](const std::vector<double>& s) { return psnr_of(s[0], samples); });
}

double Metrics::psnr(const at::Tensor& image, const Space& space) const {
  return psnr_of(over_ranks(squared_error(impl_->part(image), impl_->truth), space), impl_->samples);
}

double Metrics::psnr_8bit(const at::Tensor& image, const Space& space) const {
  const at::Tensor sum =
      over_bands(impl_->part(image), impl_->truth, [](const at::Tensor& a, const at::Tensor& b) {
        const at::Tensor steps = to_8bit(a).sub_(to_8bit(b));
        return local_dot(steps, steps);
      });
  return psnr_of(over_ranks(sum, space), impl_->samples * 255 * 255);
}

Ssim Metrics::ssim(const at::Tensor& image, const Space& space) {
  Impl& m = *impl_;
  if (!m.exchange) return {};
  constexpr double c1 = 0.01 * 0.01, c2 = 0.03 * 0.03;
  // The variances are differences of nearly equal numbers: double, in bands of one plane.
  const at::Tensor truth = m.surround(m.truth), padded = m.surround(m.part(image));
  std::array<double, 2> sums{0, 0};  // over all pixels, over those of `valid`
  const at::Tensor column = window(m.truth.options().dtype(at::kDouble));
  const std::int64_t rows = m.scored.extent(1);
  const std::int64_t most =
      m.scored.empty() ? 1 : std::max<std::int64_t>(kLeastRows, kBand / m.scored.extent(2));
  for (std::int64_t c = 0; c < padded.size(0) && !m.scored.empty(); ++c)
    for (std::int64_t r = 0; r < rows; r += most) {
      Box band = m.scored;
      band = Box({band.lo()[0], band.lo()[1] + r, band.lo()[2]},
                 {band.hi()[0], band.lo()[1] + std::min(rows, r + most), band.hi()[2]});
      const auto part = [&](const at::Tensor& t) {
        return t.narrow(0, c, 1).narrow(1, r, band.extent(1) + 2 * kRadius).to(at::kDouble);
      };
      const at::Tensor x = part(padded), y = part(truth);
      const at::Tensor mx = smooth(x, column), my = smooth(y, column);
      const at::Tensor xx = smooth(x * x, column) - mx * mx, yy = smooth(y * y, column) - my * my;
      const at::Tensor xy = smooth(x * y, column) - mx * my;
      const at::Tensor above = (mx * my * 2.0 + c1) * (xy * 2.0 + c2);
      const at::Tensor below = ((mx * mx + my * my + c1) * (xx + yy + c2)).reciprocal_();
      // Not sum(): it depends on the threads.
      sums[0] += local_dot(above, below).item().toDouble();
      if (const Box inner = band.intersect(m.valid); !inner.empty())
        sums[1] += local_dot(crop(above, band, inner), crop(below, band, inner)).item().toDouble();
    }
  space.comm().all_reduce(sums, Reduce::sum);
  Ssim out;
  out.reflected = sums[0] / m.samples;
  if (m.valid_samples > 0) out.valid = sums[1] / m.valid_samples;
  return out;
}

}  // namespace tessera
