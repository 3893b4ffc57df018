// SPDX-License-Identifier: BSD-3-Clause
// Layers without arithmetic to speak of: from which size on does memory bandwidth limit them?
#include <ATen/core/grad_mode.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "study_tools.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kChannels = 64;

struct LayersCase {
  std::string layer, variant;
  bool last;  // NHWC
  std::int64_t batch, side;
};

class LayersStudy final : public Study {
 public:
  explicit LayersStudy(const StudyOptions& options) : device_(options.device) {
    const std::int64_t largest = std::max<std::int64_t>(16, 1024 / options.scale);
    const std::vector<std::pair<std::string, std::string>> kinds{{"batch_norm", "folded"},
                                                                 {"batch_norm", "single_pass"},
                                                                 {"batch_norm", "two_pass"},
                                                                 {"relu", ""},
                                                                 {"sigmoid", ""},
                                                                 {"tanh", ""},
                                                                 {"max_pool", ""},
                                                                 {"avg_pool", ""}};
    for (const auto& [layer, variant] : kinds)
      for (const bool last : {false, true})
        for (const std::int64_t batch : {1, 8})
          for (std::int64_t side = 8; side <= largest; side *= 2) {
            if (variant == "folded" && (!last || side > largest / 2)) continue;  // a network's layout
            cases_.push_back({layer, variant, last, batch, side});
          }
    copied_ = (std::int64_t{1} << 30) / std::min<std::int64_t>(options.scale, 4);
  }

  std::vector<StudyColumn> columns() const override {
    return {{"layer", ""},
            {"variant", ""},
            {"layout", ""},
            {"batch", std::int64_t{}},
            {"channels", std::int64_t{}},
            {"side", std::int64_t{}},
            {"bytes", std::int64_t{}},
            {"seconds", 0.0},
            {"bandwidth", 0.0},
            {"copy_bandwidth", 0.0},
            {"bandwidth_share", 0.0},
            {"backward_bytes", std::int64_t{}},
            {"backward_seconds", 0.0},
            {"backward_bandwidth_share", 0.0}};
  }
  double estimate() override {
    measure();
    double seconds = 0;
    for (const LayersCase& c : cases_)
      seconds += 0.1 + 12.0 * static_cast<double>(c.batch * c.side * c.side * kChannels) * 12 / copy_;
    return seconds;
  }
  std::size_t rows() const override { return cases_.size(); }

  StudyRow next() override {
    const at::NoGradGuard no_grad;
    measure();
    const LayersCase& c = cases_[next_++];
    const at::Tensor x =
        at::rand({c.batch, kChannels, c.side, c.side}, study_tensor(device_))
            .contiguous(c.last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
    const std::int64_t n = 4 * x.numel();
    const ReuseScope pool;  // as in a network: the pages are there
    double seconds = 0;
    std::int64_t bytes = 0;
    if (c.variant == "folded") {
      // Folded, a norm is the convolution's weights, scaled, and a bias. What is left of it is mostly the
      // timer's noise.
      const at::Tensor weight = at::rand({kChannels, kChannels, 3, 3}, x.options()),
                       bias = at::rand({kChannels}, x.options());
      const double with = time([&] { at::conv2d(x, weight, bias, 1, 1); });
      const double without = time([&] { at::conv2d(x, weight, {}, 1, 1); });
      seconds = std::max(0.0, with - without);
    } else {
      bytes = moved(c, n);
      seconds = time(work(c, x));
    }
    // A folded norm has none: networks are trained with norms of their own.
    const std::int64_t back_bytes = c.variant == "folded" ? 0 : moved_back(c, n);
    const double back = c.variant == "folded" ? 0 : time(backward(c, x));
    release_kept_tensors();
    const double rate = bytes > 0 ? static_cast<double>(bytes) / seconds : 0;
    const double back_rate = back > 0 ? static_cast<double>(back_bytes) / back : 0;
    return {c.layer,
            c.variant.empty() ? std::string("-") : c.variant,
            std::string(c.last ? "NHWC" : "NCHW"),
            c.batch,
            kChannels,
            c.side,
            bytes,
            seconds,
            rate,
            copy_,
            rate / copy_,
            back_bytes,
            back,
            back_rate / copy_};
  }

  std::string note() const override {
    return "bytes: read and written at least once by the layer; two_pass reads twice; max_pool writes "
           "positions (8 "
           "bytes) too; folded: what a batch norm folded into its convolution adds to it; backward: the pass "
           "of "
           "gradients, which reads what it needs of the forward pass";
  }

 private:
  void measure() {
    if (copy_ == 0) copy_ = copy_bandwidth(device_, copied_);
  }
  double time(const std::function<void()>& work) const { return study_seconds(device_, 3, 0.05, work); }

  static std::int64_t moved(const LayersCase& c, std::int64_t n) {
    if (c.variant == "two_pass") return 3 * n;
    if (c.layer == "max_pool") return n + n / 4 + n / 2;
    if (c.layer == "avg_pool") return n + n / 4;
    return 2 * n;
  }

  std::function<void()> work(const LayersCase& c, const at::Tensor& x) {
    if (c.layer == "relu") return [x] { at::relu(x); };
    if (c.layer == "sigmoid") return [x] { at::sigmoid(x); };
    if (c.layer == "tanh") return [x] { at::tanh(x); };
    if (c.layer == "max_pool") return [x] { at::max_pool2d(x, 2); };
    if (c.layer == "avg_pool") return [x] { at::avg_pool2d(x, 2); };
    const at::Tensor one = at::ones({kChannels}, x.options()), zero = at::zeros({kChannels}, x.options());
    const bool statistics = c.variant == "two_pass";  // of the batch, as in training
    return
        [x, one, zero, statistics] { at::native_batch_norm(x, one, zero, zero, one, statistics, 0.0, 1e-5); };
  }

  // Read and written at least once by the pass of gradients.
  static std::int64_t moved_back(const LayersCase& c, std::int64_t n) {
    if (c.variant == "two_pass") return 5 * n;  // gradients and input for the sums, then again
    if (c.layer == "max_pool") return n / 4 + n / 2 + n;
    if (c.layer == "avg_pool") return n / 4 + n;
    return c.layer == "batch_norm" ? 2 * n : 3 * n;
  }
  // What autograd would call, for the gradient of the input.
  static std::function<void()> backward(const LayersCase& c, const at::Tensor& x) {
    const auto like = [&](const at::Tensor& y) { return at::rand_like(y); };
    if (c.layer == "relu") return [x, g = like(x)] { at::threshold_backward(g, x, 0); };
    if (c.layer == "sigmoid") return [y = at::sigmoid(x), g = like(x)] { at::sigmoid_backward(g, y); };
    if (c.layer == "tanh") return [y = at::tanh(x), g = like(x)] { at::tanh_backward(g, y); };
    if (c.layer == "max_pool") {
      const auto [y, places] = at::max_pool2d_with_indices(x, 2);
      return [x, places = places, g = like(y)] {
        at::max_pool2d_with_indices_backward(g, x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, places);
      };
    }
    if (c.layer == "avg_pool")
      return [x, g = like(at::avg_pool2d(x, 2))] {
        at::avg_pool2d_backward(g, x, {2, 2}, {2, 2}, {0, 0}, false, true, std::nullopt);
      };
    const at::Tensor one = at::ones({kChannels}, x.options()), zero = at::zeros({kChannels}, x.options());
    const bool statistics = c.variant == "two_pass";
    const auto [y, mean, deviation] = at::native_batch_norm(x, one, zero, zero, one, statistics, 0.0, 1e-5);
    return [x, g = like(y), one, zero, mean = mean, deviation = deviation, statistics] {
      at::native_batch_norm_backward(g, x, one, zero, one, mean, deviation, statistics, 1e-5,
                                     {true, statistics, statistics});
    };
  }

  Device device_;
  std::vector<LayersCase> cases_;
  std::size_t next_ = 0;
  std::int64_t copied_ = 0;
  double copy_ = 0;
};

}  // namespace

std::unique_ptr<Study> make_layers_study(const StudyOptions& options) {
  return std::make_unique<LayersStudy>(options);
}

}  // namespace tessera
