// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/metrics.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ssim_sums.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

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
  ToneCurve curve;
  at::Tensor truth;   // of `scored`
  Box block, scored;  // this rank's pixels; those of them in the region
  Box valid;          // pixels of all ranks whose window lies in the region
  Box need;           // `scored` and a rim
  double samples = 0, valid_samples = 0;
  std::unique_ptr<Exchange> exchange;

  at::Tensor part(const at::Tensor& image) const { return stored_of(crop(image, block, scored), curve); }
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
                 std::shared_ptr<Transport> transport, const Box& region, const ToneCurve& curve)
    : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.curve = curve;
  const std::int64_t channels = truth.size(0);
  std::vector<Box> boxes;
  for (int r = 0; r < comm.size(); ++r) boxes.push_back(decomposition.block(r).intersect(region));
  const Layout own(boxes);
  m.block = decomposition.block(comm.rank());
  m.scored = own.box(comm.rank());
  m.truth = m.part(truth);
  m.samples = static_cast<double>(region.pixels() * channels);
  if (region.extent(0) > 1) return;  // volumes: PSNR alone
  if (region.extent(1) > 2 * kSsimRadius && region.extent(2) > 2 * kSsimRadius)
    m.valid = Box(region.lo() + Index3{0, kSsimRadius, kSsimRadius},
                  region.hi() - Index3{0, kSsimRadius, kSsimRadius});
  m.valid_samples = static_cast<double>(m.valid.pixels() * channels);
  const Layout need = own.grow({{0, kSsimRadius, kSsimRadius}, {0, kSsimRadius, kSsimRadius}});
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
  const at::Tensor truth = m.surround(m.truth).cpu(), padded = m.surround(m.part(image)).cpu();
  std::array<double, 2> sums{0, 0};  // over all pixels, over those of `valid`
  const Box inner = m.scored.intersect(m.valid);
  const auto from = [&](std::int64_t at, std::size_t axis) {
    return inner.empty() ? 0 : at - m.scored.lo()[axis];
  };
  for (std::int64_t c = 0; c < padded.size(0) && !m.scored.empty(); ++c) {
    const std::array<double, 2> of_plane = ssim_sums(
        padded[c], truth[c],
        {from(inner.lo()[1], 1), from(inner.hi()[1], 1), from(inner.lo()[2], 2), from(inner.hi()[2], 2)});
    for (std::size_t i = 0; i < 2; ++i) sums[i] += of_plane[i];
  }
  space.comm().all_reduce(sums, Reduce::sum);
  Ssim out;
  out.reflected = sums[0] / m.samples;
  if (m.valid_samples > 0) out.valid = sums[1] / m.valid_samples;
  return out;
}

}  // namespace tessera
