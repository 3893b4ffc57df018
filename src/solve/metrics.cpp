// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/metrics.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRadius = 5;  // of the 11 x 11 window
constexpr double kSigma = 1.5;

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

}  // namespace

double psnr_of(double squared_error, double samples) {
  return -10.0 * std::log10(squared_error / samples + 1e-8);
}

struct Metrics::Impl {
  at::Tensor truth, padded_truth, padded;
  Box need;
  double samples = 0;
  std::unique_ptr<Exchange> exchange;
  Box block;

  at::Tensor surround(const at::Tensor& image) {
    const at::Tensor block_image = image.to(padded.scalar_type());
    exchange->begin(view(block_image, block), view(padded, need)).wait();
    return padded;
  }
};

Metrics::Metrics(at::Tensor truth, const Decomposition& decomposition, const Communicator& comm,
                 std::shared_ptr<Transport> transport)
    : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.truth = std::move(truth);
  m.samples = static_cast<double>(decomposition.image().pixels() * m.truth.size(0));
  if (decomposition.image().extent(0) > 1) return;  // volumes: PSNR alone
  m.block = decomposition.block(comm.rank());
  const Layout own = decomposition.layout();
  const Layout need = own.grow({{0, kRadius, kRadius}, {0, kRadius, kRadius}});
  m.need = need.box(comm.rank());
  const auto type = m.truth.scalar_type();
  m.exchange =
      std::make_unique<Exchange>(ExchangePlan(own, need, decomposition.image(), Border::reflect, comm.rank()),
                                 std::move(transport), m.truth.size(0), element_type(type));
  m.padded = empty_block(m.truth.size(0), m.need, m.truth.options());
}
Metrics::~Metrics() = default;

Deferred Metrics::psnr(const at::Tensor& image, Reducer& reducer) const {
  const at::Tensor error = image - impl_->truth;
  return reducer.add({local_dot(error, error)}, [samples = impl_->samples](const std::vector<double>& s) {
    return psnr_of(s[0], samples);
  });
}

double Metrics::psnr(const at::Tensor& image, const Space& space) const {
  const at::Tensor error = image - impl_->truth;
  return psnr_of(space.dot(error, error), impl_->samples);
}

double Metrics::ssim(const at::Tensor& image, const Space& space) {
  Impl& m = *impl_;
  if (!m.exchange) return std::numeric_limits<double>::quiet_NaN();
  constexpr double c1 = 0.01 * 0.01, c2 = 0.03 * 0.03;
  const bool mine = !m.block.empty();
  // The variances are differences of nearly equal numbers: double, plane by plane to keep the workspace
  // small.
  if (!m.padded_truth.defined()) m.padded_truth = m.surround(m.truth).clone();
  const at::Tensor& padded = m.surround(image);
  double local = 0;
  if (mine) {
    const at::Tensor column = window(m.truth.options().dtype(at::kDouble));
    for (std::int64_t c = 0; c < padded.size(0); ++c) {
      const at::Tensor x = padded.narrow(0, c, 1).to(at::kDouble),
                       y = m.padded_truth.narrow(0, c, 1).to(at::kDouble);
      const at::Tensor mx = smooth(x, column), my = smooth(y, column);
      const at::Tensor xx = smooth(x * x, column) - mx * mx, yy = smooth(y * y, column) - my * my;
      const at::Tensor xy = smooth(x * y, column) - mx * my;
      const at::Tensor above = (mx * my * 2.0 + c1) * (xy * 2.0 + c2);
      const at::Tensor below = (mx * mx + my * my + c1) * (xx + yy + c2);
      local +=
          local_dot(above, below.reciprocal()).item().toDouble();  // not sum(): it depends on the threads
    }
  }
  space.comm().all_reduce({&local, 1}, Reduce::sum);
  return local / m.samples;
}

}  // namespace tessera
