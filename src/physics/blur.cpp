// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <utility>

#include "kernel_checks.hpp"
#include "overlap_save.hpp"
#include "tap_blur.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

// More taps than this go by FFT by the automatic method; on a coarser grid of factor f, f^2 times as many as
// for kDirectTapsOfCoarse, since only so many of them meet a pixel. Both ways give the same result to rounding.
//
// On a CPU measured: `tests/bench/data_step.sh blurs 3`, apply and adjoint of 3 channels of float32, sides
// 128, 512 and 1024, kernels of 3 x 3 to 25 x 25, Intel with AVX-512. Direct is faster than FFT, with one
// thread and with two, by 5 to 8 and 2 to 14 with 25 taps and fewer, 2.5 to 3.1 and 2.3 to 4.5 with 81, 1.3
// to 1.7 and 1.7 to 2.8 with 225, 0.7 to 1.0 and 1.3 to 2.9 with 361. Of a stack of eight, which shares the
// image's transform, 1.0 to 1.5 and 1.2 to 2.7 with 121, 0.6 to 0.9 and 0.9 to 2.1 with 225: blurs between
// kDirectTapsInCompany and kDirectTaps are direct alone, and by FFT with others. On a GPU an estimate.
constexpr std::int64_t kDirectTaps = 225, kDirectTapsInCompany = 121, kDirectTapsOfCoarse = 81,
                       kDirectTapsOnGpu = 25;

// One kernel, tap by tap, channels as a batch; or one per channel, as groups. For GPUs: on a CPU torch takes
// 10 to 50 times as long as transforms, for any kernel.
class DirectBlur final : public PlacedOperator {
 public:
  DirectBlur(const BankFilter& filter, LocalOperator::Placement placement)
      : placement_(std::move(placement)) {
    const Box& samples = placement_.samples[0];
    const Index2 taps{filter.taps.size(1), filter.taps.size(2)};
    factor_ = filter.anchor.factor[1];
    // conv2d correlates: the kernel is flipped.
    weight_ = filter.taps.flip({1, 2}).to(placement_.options).unsqueeze(1).contiguous();
    if (samples.empty()) return;
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t anchor = factor_ * samples.lo()[d + 1] + filter.anchor.offset[d + 1];
      begin_[d] = anchor - (taps[d] - 1 - filter.origin[d]) - placement_.input.lo()[d + 1];
      end_[d] = begin_[d] + factor_ * (samples.extent(d + 1) - 1) + taps[d];
      TESSERA_EXPECT(begin_[d] >= 0 && end_[d] <= placement_.input.extent(d + 1), "samples ", samples,
                     " reach beyond the input ", placement_.input,
                     " (pixels are missing) grow it by the reach");
    }
    if (placement_.options.device().is_cpu()) on_cpu_.emplace(filter, begin_, end_);
  }
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    if (placement_.samples[0].empty()) return;
    if (on_cpu_) return on_cpu_->apply(x, y);
    const std::int64_t axis = batch_axis();
    y[0].copy_(at::conv2d(window(x).unsqueeze(axis), weight_, {}, at::IntArrayRef{factor_, factor_},
                          at::IntArrayRef{0, 0}, at::IntArrayRef{1, 1}, weight_.size(0))
                   .squeeze(axis));
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    if (placement_.samples[0].empty()) return;
    if (on_cpu_) return on_cpu_->adjoint(y, x);
    const std::int64_t axis = batch_axis();
    window(x).add_(at::conv_transpose2d(y[0].unsqueeze(axis), weight_, {}, at::IntArrayRef{factor_, factor_},
                                        at::IntArrayRef{0, 0}, at::IntArrayRef{0, 0}, weight_.size(0))
                       .squeeze(axis));
  }

 private:
  at::Tensor window(const at::Tensor& x) const {
    return x.slice(1, begin_[0], end_[0]).slice(2, begin_[1], end_[1]);
  }
  // One kernel: (C, 1, H, W), channels are a batch; several: (1, C, H, W), channels are groups.
  std::int64_t batch_axis() const { return weight_.size(0) == 1 ? 1 : 0; }

  LocalOperator::Placement placement_;
  std::int64_t factor_ = 1;
  at::Tensor weight_;       // (1 or C, 1, h, w)
  Index2 begin_{}, end_{};  // rows and columns of the input that the samples need
  std::optional<TapBlur> on_cpu_;
};

class Blur final : public LocalOperator {
 public:
  explicit Blur(BlurOptions options)
      : boundary_(options.boundary), factor_(options.factor), phase_(options.phase) {
    taps_ = checked_taps(options.kernel, 2, "rows and columns", "h, w");
    origin_ = options.origin.value_or(Index2{size(0) / 2, size(1) / 2});
    check_origin(taps_, origin_);
    check_decimation(Index2{factor_, factor_}, phase_);
    if (options.method == BlurMethod::automatic) {
      const bool gpu = options.device.is_cuda(), coarse = factor_ > 1;
      const std::int64_t unit = factor_ * factor_, one = gpu ? kDirectTapsOnGpu : kDirectTapsOfCoarse;
      const auto more_than = [&](std::int64_t taps) { return size(0) * size(1) > taps; };
      fft_alone_ = more_than(gpu || coarse ? unit * one : kDirectTaps);
      fft_in_company_ = more_than(gpu || coarse ? unit * one : kDirectTapsInCompany);
    } else {
      fft_alone_ = fft_in_company_ = options.method == BlurMethod::fft;
    }
  }

  std::string name() const override { return factor_ > 1 ? "downsampling" : "blur"; }
  std::int64_t channels(std::int64_t of_image) const override {
    check_kernels(taps_, of_image);
    return of_image;
  }
  Reach reach() const override {
    return {{0, size(0) - 1 - origin_[0], size(1) - 1 - origin_[1]}, {0, origin_[0], origin_[1]}};
  }
  Anchor anchor() const override {
    Anchor a{{1, factor_, factor_}, {0, phase_[0], phase_[1]}};
    if (boundary_ == Boundary::valid) a.offset = a.offset + reach().lo;
    return a;
  }
  Border border() const override { return border_of(boundary_); }
  Box measurement(const Box& image) const override {
    TESSERA_VALIDATE(image.extent(0) == 1, "the image has ", image.extent(0),
                     " slices (this blur is of pictures) write a Gaussian kernel of three widths");
    const auto along = [&](std::size_t d) {
      return samples_along(static_cast<std::int64_t>(d), image.extent(d + 1), size(d),
                           boundary_ == Boundary::valid, factor_, phase_[d]);
    };
    return Box::image2d(along(0), along(1));
  }

  bool shares_with(const LocalOperator& other) const override {
    const auto* blur = dynamic_cast<const Blur*>(&other);
    return blur && fft_in_company_ && blur->fft_in_company_;
  }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const> group,
                                        const Placement& placement) const override {
    if (!by_fft(group)) return std::make_unique<DirectBlur>(filter(), placement);
    std::vector<BankFilter> filters;
    for (const LocalOperator* member : group) filters.push_back(dynamic_cast<const Blur&>(*member).filter());
    return std::make_unique<OverlapSave>(std::move(filters), placement);
  }
  OperatorWork work(std::span<const LocalOperator* const> group, std::span<const Box> samples,
                    std::int64_t channels) const override {
    if (!by_fft(group)) return LocalOperator::work(group, samples, channels);
    return overlap_save_work(group, samples, channels);
  }
  std::optional<Convolution> convolution() const override {
    return Convolution{taps_.unsqueeze(1), {0, origin_[0], origin_[1]}, {1, factor_, factor_}};
  }

 private:
  std::int64_t size(std::size_t axis) const { return taps_.size(static_cast<std::int64_t>(axis) + 1); }
  bool by_fft(std::span<const LocalOperator* const> group) const {
    return group.size() > 1 ? fft_in_company_ : fft_alone_;
  }
  BankFilter filter() const { return {taps_, origin_, anchor()}; }

  at::Tensor taps_;  // (1 or C, h, w), float64, host
  Index2 origin_{};
  Boundary boundary_;
  std::int64_t factor_;
  Index2 phase_;
  bool fft_alone_ = false, fft_in_company_ = false;
};

template <class Value>
Value parse(std::string_view text, const std::vector<std::pair<std::string, Value>>& table,
            const char* what) {
  std::vector<std::string> known;
  for (const auto& [word, value] : table) {
    if (word == text) return value;
    known.push_back(word);
  }
  const std::string guess = nearest(text, known);
  throw InputError(concat("unknown ", what, " '", text, "' (it is none of those that exist) ",
                          guess.empty() ? "use " + known.front() : "did you mean " + guess + "?"));
}

}  // namespace

Index3 before_bins(const Convolution& samples) {
  Index3 before{};
  if (!samples.decimates()) return before;
  const at::Tensor used = samples.taps.ne(0).any(0);
  for (std::size_t d = 0; d < 3; ++d) {
    const at::Tensor line = used.any(d == 2 ? 1 : 2).any(d == 0 ? 1 : 0);
    std::int64_t first = 0, end = line.size(0);
    while (first < end && !line[first].item<bool>()) ++first;
    while (end > first && !line[end - 1].item<bool>()) --end;
    if (end - first > samples.factor[d]) return {};
    before[d] = end - 1 - samples.origin[d];  // tap j meets the pixel origin - j away
  }
  return before;
}

Index3 binning_phase(const LocalOperator& samples) {
  const std::optional<Convolution> kernel = samples.convolution();
  if (!kernel || samples.border() == Border::none)
    return {};  // valid: the first sees the first pixels anyway
  const Index3 before = before_bins(*kernel);
  for (std::size_t d = 0; d < 3; ++d)
    if (before[d] < 0 || before[d] >= kernel->factor[d]) return {};
  return before;
}

Border border_of(Boundary boundary) {
  switch (boundary) {
    case Boundary::circular:
      return Border::circular;
    case Boundary::reflect:
      return Border::reflect;
    case Boundary::replicate:
      return Border::replicate;
    case Boundary::zero:
      return Border::zero;
    case Boundary::valid:
      return Border::none;
  }
  return Border::none;
}

Boundary parse_boundary(std::string_view name) {
  return parse<Boundary>(name,
                         {{"circular", Boundary::circular},
                          {"reflect", Boundary::reflect},
                          {"replicate", Boundary::replicate},
                          {"zero", Boundary::zero},
                          {"valid", Boundary::valid}},
                         "boundary");
}

BlurMethod parse_blur_method(std::string_view name) {
  return parse<BlurMethod>(
      name, {{"auto", BlurMethod::automatic}, {"direct", BlurMethod::direct}, {"fft", BlurMethod::fft}},
      "method");
}

std::unique_ptr<LocalOperator> make_blur(BlurOptions options) {
  return std::make_unique<Blur>(std::move(options));
}

at::Tensor gaussian_kernel(std::array<double, 2> sigma, double angle_degrees) {
  TESSERA_VALIDATE(sigma[0] > 0 && sigma[1] > 0, "kernel sigma is (", sigma[0], ", ", sigma[1],
                   ") (a width is above 0) write positive numbers of pixels");
  const auto c = static_cast<std::int64_t>(std::max(sigma[0], sigma[1]) / 0.3 + 1);
  const double angle = angle_degrees * std::numbers::pi / 180, cosine = std::cos(angle),
               sine = std::sin(angle);
  at::Tensor kernel = at::empty({2 * c + 1, 2 * c + 1}, at::kDouble);
  double* tap = kernel.data_ptr<double>();
  double sum = 0;  // in their order: torch's sum depends on the number of threads
  for (std::int64_t row = -c; row <= c; ++row)
    for (std::int64_t column = -c; column <= c; ++column) {
      const auto x = static_cast<double>(column), y = static_cast<double>(row);
      const double u = (cosine * x - sine * y) / sigma[1], v = (sine * x + cosine * y) / sigma[0];
      *tap = std::exp(-(u * u + v * v) / 2);
      sum += *tap++;
    }
  return kernel.div_(sum);
}

}  // namespace tessera
