// SPDX-License-Identifier: BSD-3-Clause
#include "engines/convolution.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "engines/cudnn_graph.hpp"
#include "tessera/domain/precision.hpp"

namespace tessera {
namespace {

using Text = std::optional<std::string_view>;
using Scalars = c10::List<std::optional<at::Scalar>>;
using MaybeTensor = std::optional<at::Tensor>;
using Ints = at::IntArrayRef;

// oneDNN through torch's own operators. They are private to torch, so their presence is probed; the padding
// comes before the stride.
using Pointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const MaybeTensor&, Ints, Ints, Ints,
                             std::int64_t, std::string_view, Scalars, Text);
using BinaryInto = at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&, const MaybeTensor&, Ints,
                               Ints, Ints, std::int64_t, std::string_view, std::optional<at::Scalar>, Text,
                               Scalars, Text);
using Reorder = at::Tensor(const at::Tensor&, Ints, Ints, Ints, std::int64_t, at::OptionalIntArrayRef);
using TransposedPointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const MaybeTensor&, Ints, Ints,
                                       Ints, Ints, std::int64_t, std::string_view, Scalars, Text);
using TransposedReorder = at::Tensor(const at::Tensor&, Ints, Ints, Ints, Ints, std::int64_t,
                                     at::OptionalIntArrayRef);

struct OneDnn {
  c10::TypedOperatorHandle<Pointwise> pointwise;
  c10::TypedOperatorHandle<BinaryInto> binary_into;
  c10::TypedOperatorHandle<Reorder> reorder;
  c10::TypedOperatorHandle<TransposedPointwise> transposed;
  c10::TypedOperatorHandle<TransposedReorder> transposed_reorder;

  static const OneDnn& get() {
    static const OneDnn library = [] {
      auto& d = c10::Dispatcher::singleton();
      return OneDnn{
          d.findSchemaOrThrow("mkldnn::_convolution_pointwise", "").typed<Pointwise>(),
          d.findSchemaOrThrow("mkldnn::_convolution_pointwise_", "binary").typed<BinaryInto>(),
          d.findSchemaOrThrow("mkldnn::_reorder_convolution_weight", "").typed<Reorder>(),
          d.findSchemaOrThrow("mkldnn::_convolution_transpose_pointwise", "").typed<TransposedPointwise>(),
          d.findSchemaOrThrow("mkldnn::_reorder_convolution_transpose_weight", "")
              .typed<TransposedReorder>()};
    }();
    return library;
  }
};

std::array<std::int64_t, 2> both(std::int64_t n) { return {n, n}; }

at::Tensor laid_out(const at::Tensor& t) {
  return Winograd::takes(t) ? t : t.contiguous(at::MemoryFormat::ChannelsLast);
}

bool takes_winograd(at::ScalarType type, std::int64_t inputs, std::int64_t kernel) {
  return Winograd::suits(type, inputs, kernel) && Winograd::runs(type);
}

bool takes_patches(at::ScalarType type, std::int64_t outputs, bool up) {
  return Patches::suits(type, outputs, up) && Winograd::runs(type);
}

bool takes_first(at::ScalarType type, std::int64_t inputs, std::int64_t kernel) {
  return kernel == 3 && Patches::suits_first(type, inputs) && Winograd::runs(type);
}

// Whether layers of 16 bits that are not ours go through oneDNN in float32: its own in 16 bits want instructions that
// few CPUs have, and are tens of times slower without.
bool widens(at::ScalarType type) { return type != at::kFloat && Winograd::runs(type); }

// Tensor cores take channels by the eight; where they are fewer, engines that can do without want a
// workspace of the feature's size to fill them up (the first and the last layer of a network).
std::int64_t to_eights(std::int64_t channels) { return (channels + 7) / 8 * 8; }

// Dense, channels last, channels filled up with zeros, aligned: as ConvolutionProblem wants it.
at::Tensor for_cudnn(const at::Tensor& t) {
  constexpr auto kLast = at::MemoryFormat::ChannelsLast;
  const std::int64_t channels = t.size(1), wide = to_eights(channels);
  if (wide != channels) {
    at::Tensor filled = at::empty({t.size(0), wide, t.size(2), t.size(3)}, t.options().memory_format(kLast));
    filled.narrow(1, 0, channels).copy_(t);
    filled.narrow(1, channels, wide - channels).zero_();
    return filled;
  }
  const at::Tensor dense = t.contiguous(kLast);
  constexpr std::uintptr_t kAligned = 16;  // bytes
  return reinterpret_cast<std::uintptr_t>(dense.data_ptr()) % kAligned == 0 ? dense : dense.clone(kLast);
}

// Whether our graphs give what torch's operators give, on the current device.
bool cudnn_works(at::ScalarType type) {
  int devices = 0, current = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || cudaGetDevice(&current) != cudaSuccess || devices == 0)
    return true;  // planning for a machine that has one
  static auto& known = *new std::map<std::pair<int, at::ScalarType>, bool>;
  const auto [it, fresh] = known.try_emplace({current, type}, false);
  if (!fresh) return it->second;
  use_ieee_products();  // torch's, which are the measure
  const auto options = at::TensorOptions().dtype(type).device(c10::kCUDA);
  const auto near = [&](const at::Tensor& got, const at::Tensor& want) {
    const double error = (got.to(at::kFloat) - want).abs().max().item<double>();
    return error <= (type == at::kFloat ? 1e-4 : 5e-2) * want.abs().max().item<double>();
  };
  try {
    const at::Tensor w = at::randn({16, 12, 3, 3}, options) / std::sqrt(108.0), b = at::randn({16}, options);
    const at::Tensor x = at::randn({2, 12, 10, 6}, options), z = at::randn({2, 16, 10, 6}, options);
    const auto wide = [](const at::Tensor& t) { return t.to(at::kFloat); };
    const at::Tensor want = at::conv2d(wide(x), wide(w), wide(b), 1, 1);
    ConvolutionLayer same(ConvolutionLibrary::cudnn, w, b, {.stride = 1, .padding = 1});
    const at::Tensor u = at::randn({16, 4, 2, 2}, options) / 4;
    ConvolutionLayer up(ConvolutionLibrary::cudnn, u, std::nullopt, {.stride = 2, .transposed = true});
    it->second = near(same.apply(x, false), want) && near(same.apply(x, true), want.clamp_min(0)) &&
                 near(same.add(x, z, false), want + wide(z)) &&
                 near(up.apply(z, false), at::conv_transpose2d(wide(z), wide(u), {}, 2));
  } catch (const std::exception&) {  // it stays false
  }
  return it->second;
}

}  // namespace

ConvolutionLibrary probe_convolutions(at::ScalarType type, bool on_cuda, bool fused) {
  if (!fused || type == at::kDouble) return ConvolutionLibrary::plain;
  if (on_cuda) return cudnn_works(type) ? ConvolutionLibrary::cudnn : ConvolutionLibrary::plain;
  try {
    const auto options = at::TensorOptions().dtype(widens(type) ? at::kFloat : type);
    const at::Tensor x = at::zeros({1, 16, 8, 8}, options).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor w = at::zeros({16, 16, 3, 3}, options);
    ConvolutionLayer same(ConvolutionLibrary::onednn, w, std::nullopt, {.stride = 1, .padding = 1});
    at::Tensor y = same.add(same.apply(x, true), x, false);
    y = same.add(x, y, true);
    const at::Tensor up = at::zeros({16, 16, 2, 2}, options);
    ConvolutionLayer(ConvolutionLibrary::onednn, up, std::nullopt, {.stride = 2, .transposed = true})
        .apply(y, false);
    return ConvolutionLibrary::onednn;
  } catch (const c10::Error&) {
    return ConvolutionLibrary::plain;  // another torch, or a CPU without this type
  }
}

ConvolutionLayer::ConvolutionLayer(ConvolutionLibrary library, const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias, const Shape& shape)
    : library_(shape.groups > 1 && library == ConvolutionLibrary::cudnn ? ConvolutionLibrary::plain
                                                                        : library),
      shape_(shape),
      outputs_(weight.size(shape.transposed ? 1 : 0)),
      weight_(weight.contiguous(at::MemoryFormat::ChannelsLast)),
      bias_(bias) {
  if (library_ == ConvolutionLibrary::cudnn) {
    const std::int64_t rows = to_eights(weight.size(0)) - weight.size(0),
                       columns = to_eights(weight.size(1)) - weight.size(1);
    weight_ = at::constant_pad_nd(weight, {0, 0, 0, 0, 0, columns, 0, rows})
                  .contiguous(at::MemoryFormat::ChannelsLast);
    if (bias_) bias_ = at::constant_pad_nd(*bias_, {0, to_eights(outputs_) - outputs_});
    no_bias_ = at::zeros({to_eights(outputs_)}, weight.options());
  }
  if (library_ != ConvolutionLibrary::onednn) return;
  // Times oneDNN's speed, one thread with AVX-512 (AVX2 alike): 2.5 to 2.7 from 32 to 512 channels, 1.3 for
  // 16 to 16, 3 for 64 to 3 (a tail, summed directly), 0.5 for 4 to 64 (a head); on 8 x 8 pixels alone, where
  // reading the weights counts, still 1.0 to 1.4. 2 x 2: 0.97 to 1.04 in the cache, strided ones from memory 1.07
  // to 1.25.
  if (shape.winograd && shape.stride == 1 && !shape.transposed && weight.size(2) == weight.size(3) &&
      takes_winograd(weight.scalar_type(), weight.size(1), weight.size(2)) && shape.groups == 1) {
    winograd_.emplace(weight, bias, Winograd::available());
    weight_.reset();
    return;
  }
  const bool first = shape.stride == 1 && !shape.transposed && shape.groups == 1 &&
                     weight.size(2) == weight.size(3) &&
                     takes_first(weight.scalar_type(), weight.size(1), weight.size(2));
  if (shape.winograd &&
      (first || (shape.stride == 2 && takes_patches(weight.scalar_type(), outputs_, shape.transposed)))) {
    patches_.emplace(weight, bias, shape.transposed, Winograd::available());
    weight_.reset();
    return;
  }
  if (widens(weight.scalar_type())) {
    weight_ = weight_.to(at::kFloat);
    if (bias_) bias_ = bias_->to(at::kFloat);
  }
  // The blocked form has been the same for every input size so far; where it is not, the library reorders at
  // every call, and the result stays right.
  const std::array<std::int64_t, 4> sizes{1, shape.groups * weight.size(shape.transposed ? 0 : 1), 64, 64};
  const auto padding = both(shape_.padding), stride = both(shape_.stride), one = both(1), zero = both(0);
  const OneDnn& dnn = OneDnn::get();
  weight_ = shape_.transposed ? dnn.transposed_reorder.call(weight_, padding, zero, stride, one, 1, sizes)
                              : dnn.reorder.call(weight_, padding, stride, one, shape_.groups, sizes);
}

std::int64_t ConvolutionLayer::scratch_bytes(ConvolutionLibrary library, at::ScalarType type,
                                             std::int64_t inputs, std::int64_t kernel) {
  if (library != ConvolutionLibrary::onednn || !takes_winograd(type, inputs, kernel)) return 0;
  return at::get_num_threads() * Winograd::scratch_bytes(inputs, 1, Winograd::available());
}

bool ConvolutionLayer::unfolds(ConvolutionLibrary library, at::ScalarType type) {
  if (library != ConvolutionLibrary::plain || type == at::kFloat) return false;
  if (type == at::kDouble) return true;
  const auto lacks = [](at::ScalarType t) {
    return probe_convolutions(t, /*on_cuda=*/false, /*fused=*/true) == ConvolutionLibrary::plain;
  };
  static const bool half = lacks(at::kHalf), bfloat = lacks(at::kBFloat16);
  return type == at::kHalf ? half : bfloat;
}

bool ConvolutionLayer::writes_twice(ConvolutionLibrary library, at::ScalarType type, std::int64_t outputs) {
  if (library == ConvolutionLibrary::onednn) return !takes_patches(type, outputs, /*up=*/true);
  return library == ConvolutionLibrary::plain;
}

bool ConvolutionLayer::computes_parts(ConvolutionLibrary library, at::ScalarType type, const Node& node,
                                      std::int64_t inputs) {
  if (library != ConvolutionLibrary::onednn || node.depthwise) return false;
  if (node.op == Op::conv) return takes_winograd(type, inputs, node.kernel);
  return takes_patches(type, node.channels, node.op == Op::conv_up);
}

std::int64_t ConvolutionLayer::widened(ConvolutionLibrary library, at::ScalarType type, const Node& node,
                                       std::int64_t inputs) {
  if (library != ConvolutionLibrary::onednn || !widens(type) || computes_parts(library, type, node, inputs))
    return 0;
  const bool ours = node.op == Op::conv && !node.depthwise && takes_first(type, inputs, node.kernel);
  return ours ? 0 : inputs;
}

at::Tensor ConvolutionLayer::run_winograd(const at::Tensor& x, const at::Tensor* other, bool relu,
                                          bool overwrite, const Extent& padding) const {
  const at::Tensor in = laid_out(x), sum = other ? laid_out(*other) : at::Tensor();
  at::Tensor y = overwrite ? sum
                           : at::empty({x.size(0), winograd_->outputs(), x.size(2) + 2 * padding[0] - 2,
                                        x.size(3) + 2 * padding[1] - 2},
                                       x.options().memory_format(at::MemoryFormat::ChannelsLast));
  winograd_->run(in, padding, other ? &sum : nullptr, relu, y);
  return y;
}

at::Tensor ConvolutionLayer::run_patches(const at::Tensor& x, bool relu, const Extent& padding) const {
  const at::Tensor in = laid_out(x);
  const auto side = [&](std::size_t axis) {
    const std::int64_t n = x.size(static_cast<std::int64_t>(axis) + 2);
    return shape_.stride == 1 ? n + 2 * padding[axis] - 2 : shape_.transposed ? 2 * n : n / 2;
  };
  at::Tensor y = at::empty({x.size(0), outputs_, side(0), side(1)},
                           x.options().memory_format(at::MemoryFormat::ChannelsLast));
  patches_->run(in, relu, y, padding);
  return y;
}

at::Tensor ConvolutionLayer::run_onednn(const at::Tensor& x, bool relu, const Extent& padding) const {
  const auto stride = both(shape_.stride), one = both(1), zero = both(0);
  const std::string_view after = relu ? "relu" : "none";
  if (shape_.transposed)
    return OneDnn::get().transposed.call(x, weight_, bias_, padding, zero, stride, one, 1, after, Scalars(),
                                         std::nullopt);
  return OneDnn::get().pointwise.call(x, weight_, bias_, padding, stride, one, shape_.groups, after,
                                      Scalars(), std::nullopt);
}

std::array<std::int64_t, 4> ConvolutionProblem::y() const {
  if (transposed) return {x[0], w[1], (x[2] - 1) * stride + w[2], (x[3] - 1) * stride + w[3]};
  return {x[0], w[0], (x[2] + 2 * padding[0] - w[2]) / stride + 1,
          (x[3] + 2 * padding[1] - w[3]) / stride + 1};
}

ConvolutionProblem ConvolutionLayer::problem(const std::array<std::int64_t, 4>& x, bool other, bool relu,
                                             const Padding& padding, bool tf32, bool deterministic) const {
  ConvolutionProblem p;
  p.x = x;
  std::copy_n(weight_.sizes().begin(), 4, p.w.begin());
  p.padding = padding.value_or(both(shape_.padding));
  p.stride = shape_.stride;
  p.transposed = shape_.transposed;
  p.other = other;
  p.relu = relu;
  p.type = weight_.scalar_type();
  p.tf32 = tf32;
  p.deterministic = deterministic;
  p.bias = bias_.has_value();
  return p;
}

at::Tensor ConvolutionLayer::run_cudnn(const at::Tensor& x, const at::Tensor& other, bool relu,
                                       const Extent& padding) const {
  const at::Tensor in = for_cudnn(x), sum = other.defined() ? for_cudnn(other) : other;
  const at::Context& torch = at::globalContext();
  const bool tf32 =
      torch.float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV) == at::Float32Precision::TF32;
  const ConvolutionProblem p =
      problem({in.size(0), in.size(1), in.size(2), in.size(3)}, other.defined(), relu, padding,
              tf32 && in.scalar_type() == at::kFloat, torch.deterministicCuDNN());
  const auto narrow = [&](const at::Tensor& y) {
    return y.size(1) == outputs_ ? y : y.narrow(1, 0, outputs_);
  };
  if (auto y = cudnn_convolve(p, in, weight_, bias_.value_or(no_bias_), sum)) return narrow(*y);
  // No engine for all of it: IEEE float32 has none that adds above 2^31 elements.
  const auto stride = both(shape_.stride);
  at::Tensor y = shape_.transposed ? at::conv_transpose2d(in, weight_, bias_, stride, padding)
                                   : at::conv2d(in, weight_, bias_, stride, padding);
  if (sum.defined()) y.add_(sum);
  return narrow(relu ? y.relu_() : y);
}

at::Tensor ConvolutionLayer::apply(const at::Tensor& x, bool relu, const Padding& around) {
  const auto padding = around.value_or(both(shape_.padding));
  if (winograd_) return run_winograd(x, nullptr, relu, false, padding);
  if (patches_) return run_patches(x, relu, padding);
  if (library_ == ConvolutionLibrary::onednn)
    return widens(x.scalar_type()) ? run_onednn(x.to(at::kFloat), relu, padding).to(x.scalar_type())
                                   : run_onednn(x, relu, padding);
  if (library_ == ConvolutionLibrary::cudnn) return run_cudnn(x, {}, relu, padding);
  const auto stride = both(shape_.stride), one = both(1);
  at::Tensor y = shape_.transposed ? at::conv_transpose2d(x, weight_, bias_, stride, padding)
                                   : at::conv2d(x, weight_, bias_, stride, padding, one, shape_.groups);
  return relu ? y.relu_() : y;
}

void ConvolutionLayer::part(const at::Tensor& x, const std::array<std::int64_t, 2>& zeros_before,
                            const at::Tensor* other, bool relu, const at::Tensor& y) const {
  winograd_->run(x, zeros_before, other, relu, y);
}

at::Tensor ConvolutionLayer::add(const at::Tensor& x, const at::Tensor& other, bool overwrite) {
  const auto padding = both(shape_.padding);
  if (winograd_) return run_winograd(x, &other, false, overwrite, padding);
  if (patches_) {
    const at::Tensor y = run_patches(x, false, padding);
    return overwrite ? other.add_(y) : y.add_(other);
  }
  if (library_ == ConvolutionLibrary::cudnn) return run_cudnn(x, other, false, padding);
  if (library_ == ConvolutionLibrary::onednn && widens(x.scalar_type())) {
    const at::Tensor y = apply(x, false);
    return overwrite ? other.add_(y) : y.add_(other);
  }
  // The fused add refuses sums of one channel or one pixel, whose layout is ambiguous.
  const bool ambiguous = other.size(1) == 1 || other.size(2) * other.size(3) == 1;
  if (library_ != ConvolutionLibrary::onednn || ambiguous) return apply(x, false).add_(other);
  const auto stride = both(shape_.stride), one = both(1);
  // The library's own form for a kept operand copies it once more, into memory of its own.
  at::Tensor result =
      overwrite ? other
                : at::empty(other.sizes(), other.options().memory_format(at::MemoryFormat::ChannelsLast))
                      .copy_(other);
  OneDnn::get().binary_into.call(result, x, weight_, bias_, padding, stride, one, shape_.groups, "add", 1.0,
                                 std::nullopt, Scalars(), std::nullopt);
  return result;
}

}  // namespace tessera
