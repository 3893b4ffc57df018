// SPDX-License-Identifier: BSD-3-Clause
// Convolutions that are products of one per axis, on images of any depth.
#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "separable_rows.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

// Blocks have the axes (C, [D,] H, W): this is the one of a global axis, counted from the last.
std::int64_t dim(std::size_t axis) { return static_cast<std::int64_t>(axis) - 3; }

class PlacedSeparable final : public PlacedOperator {
 public:
  PlacedSeparable(const SeparableKernel& kernel, const Index3& offset, LocalOperator::Placement placement)
      : kernel_(kernel), p_(std::move(placement)) {
    const Box& samples = p_.samples[0];
    for (std::size_t d = 0; d < 3; ++d)
      begin_[d] = samples.lo()[d] + offset[d] - (kernel_.size(d) - 1 - kernel_.origin[d]) - p_.input.lo()[d];
  }

  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    if (p_.samples[0].empty()) return;
    at::Tensor from = window(x);
    if (from.is_cpu() && rows_of(y[0])) return by_rows(from, y[0], /*adjoint=*/false);
    for (std::size_t d = 3; d-- > 0;) {
      const std::int64_t taps = kernel_.size(d), n = p_.samples[0].extent(d);
      if (taps == 1 && kernel_.taps[d][0] == 1) continue;
      at::Tensor sum =
          from.narrow(dim(d), 0, n).mul(tap(d, taps - 1));  // x[i + origin - j]: the last tap first
      for (std::int64_t k = 1; k < taps; ++k) sum.add_(from.narrow(dim(d), k, n), tap(d, taps - 1 - k));
      from = std::move(sum);
    }
    at::Tensor out = y[0];
    out.copy_(from);
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    if (p_.samples[0].empty()) return;
    if (x.is_cpu() && rows_of(window(x))) return by_rows(y[0], window(x), /*adjoint=*/true);
    at::Tensor from = y[0];
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t taps = kernel_.size(d), n = p_.samples[0].extent(d);
      if (taps == 1 && kernel_.taps[d][0] == 1) continue;
      std::vector<std::int64_t> sizes = from.sizes().vec();
      sizes[sizes.size() + d - 3] = n + taps - 1;
      at::Tensor spread = at::zeros(sizes, from.options());
      for (std::int64_t k = 0; k < taps; ++k) spread.narrow(dim(d), k, n).add_(from, tap(d, taps - 1 - k));
      from = std::move(spread);
    }
    window(x).add_(from);
  }

 private:
  static bool rows_of(const at::Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1; }
  template <class T, class Tensor>
  static Rows<T> rows(T* data, const Tensor& t) {
    const bool volume = t.dim() == 4;
    return {data,
            t.size(0),
            {volume ? t.size(1) : 1, t.size(-2), t.size(-1)},
            {t.stride(0), volume ? t.stride(1) : 0, t.stride(-2)}};
  }
  // y = K x, or x += K^T y. Samples see taps from the last on; pixels gather from samples in the opposite order.
  void by_rows(const at::Tensor& from, const at::Tensor& to, bool adjoint) const {
    const at::Tensor in = rows_of(from) ? from : from.contiguous();
    AT_DISPATCH_FLOATING_TYPES(to.scalar_type(), "separable_blur", [&] {
      std::array<std::vector<scalar_t>, 3> taps;
      Index3 before{};
      for (std::size_t d = 0; d < 3; ++d) {
        taps[d].assign(kernel_.taps[d].begin(), kernel_.taps[d].end());
        if (!adjoint) std::reverse(taps[d].begin(), taps[d].end());
        if (adjoint) before[d] = kernel_.size(d) - 1;
      }
      separable_rows<scalar_t>(rows(in.const_data_ptr<scalar_t>(), in), taps, before,
                               rows(to.mutable_data_ptr<scalar_t>(), to),
                               adjoint ? Into::add : Into::replace);
    });
  }
  double tap(std::size_t axis, std::int64_t k) const {
    return kernel_.taps[axis][static_cast<std::size_t>(k)];
  }
  // The pixels that the samples reach.
  at::Tensor window(const at::Tensor& x) const {
    at::Tensor view = x;
    for (std::size_t d = x.dim() == 4 ? 0 : 1; d < 3; ++d)
      view = view.narrow(dim(d), begin_[d], p_.samples[0].extent(d) + kernel_.size(d) - 1);
    return view;
  }

  SeparableKernel kernel_;
  LocalOperator::Placement p_;
  Index3 begin_{};  // first pixel of the window in the input
};

class SeparableBlur final : public LocalOperator {
 public:
  SeparableBlur(SeparableKernel kernel, Boundary boundary) : kernel_(std::move(kernel)), boundary_(boundary) {
    for (std::size_t d = 0; d < 3; ++d)
      TESSERA_EXPECT(kernel_.size(d) > 0 && kernel_.origin[d] >= 0 && kernel_.origin[d] < kernel_.size(d),
                     "a kernel of ", kernel_.size(d), " taps with origin ", kernel_.origin[d]);
  }
  std::string name() const override { return "blur"; }
  Reach reach() const override {
    Reach r;
    for (std::size_t d = 0; d < 3; ++d) {
      r.lo[d] = kernel_.size(d) - 1 - kernel_.origin[d];
      r.hi[d] = kernel_.origin[d];
    }
    return r;
  }
  Anchor anchor() const override {
    return {{1, 1, 1}, boundary_ == Boundary::valid ? reach().lo : Index3{0, 0, 0}};
  }
  Border border() const override { return border_of(boundary_); }
  Box measurement(const Box& image) const override {
    if (boundary_ != Boundary::valid) return image;
    Index3 hi{};
    for (std::size_t d = 0; d < 3; ++d) {
      hi[d] = image.extent(d) - kernel_.size(d) + 1;
      TESSERA_VALIDATE(hi[d] > 0, "the image has ", image.extent(d), " pixels on axis ", d,
                       " (boundary valid needs at least the kernel's ", kernel_.size(d),
                       ") use a smaller kernel or another boundary");
    }
    return {{0, 0, 0}, hi};
  }
  std::optional<Convolution> convolution() const override {
    at::Tensor taps = at::ones({1, 1, 1, 1}, at::kDouble);
    for (std::size_t d = 0; d < 3; ++d) {
      std::vector<std::int64_t> shape{1, 1, 1, 1};
      shape[d + 1] = kernel_.size(d);
      taps = taps * at::tensor(kernel_.taps[d], at::kDouble).view(shape);
    }
    return Convolution{taps, kernel_.origin};
  }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const> group,
                                        const Placement& placement) const override {
    return std::make_unique<PlacedSeparable>(kernel_, anchor().offset, placement);
  }
  OperatorWork work(std::span<const LocalOperator* const> group, std::span<const Box> samples,
                    std::int64_t channels) const override {
    const std::int64_t taps = kernel_.size(0) + kernel_.size(1) + kernel_.size(2);
    return {.products = 2 * static_cast<double>(taps * samples[0].pixels() * channels)};
  }

 private:
  SeparableKernel kernel_;
  Boundary boundary_;
};

}  // namespace

std::vector<double> gaussian_taps(double sigma) {
  TESSERA_VALIDATE(sigma > 0, "kernel sigma is ", sigma,
                   " (a width is above 0) write positive numbers of pixels");
  const auto c = static_cast<std::int64_t>(sigma / 0.3 + 1);
  std::vector<double> taps;
  double sum = 0;
  for (std::int64_t k = -c; k <= c; ++k) {
    const double u = static_cast<double>(k) / sigma;
    sum += taps.emplace_back(std::exp(-u * u / 2));
  }
  for (double& t : taps) t /= sum;
  return taps;
}

std::unique_ptr<LocalOperator> make_separable_blur(SeparableKernel kernel, Boundary boundary) {
  return std::make_unique<SeparableBlur>(std::move(kernel), boundary);
}

std::unique_ptr<LocalOperator> make_gaussian_blur(const std::array<double, 3>& sigma, Boundary boundary) {
  SeparableKernel kernel;
  for (std::size_t d = 0; d < 3; ++d) {
    kernel.taps[d] = gaussian_taps(sigma[d]);
    kernel.origin[d] = kernel.size(d) / 2;
  }
  return make_separable_blur(std::move(kernel), boundary);
}

}  // namespace tessera
