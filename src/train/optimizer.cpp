// SPDX-License-Identifier: BSD-3-Clause
#include "optimizer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/core/error.hpp"
#include "tessera/io/safetensors.hpp"

namespace tessera::training {
namespace {

/// Whether a kernel mixes many channels with many: head, tail and depthwise kernels do not.
bool mixes_channels(const at::Tensor& kernel) {
  constexpr std::int64_t many = 8;
  return kernel.dim() == 4 && std::min(kernel.size(0), kernel.size(1)) >= many;
}

double length_of(const std::vector<at::Tensor>& tensors) {
  double square = 0;
  for (const at::Tensor& tensor : tensors) {
    const float* values = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) square += static_cast<double>(values[i]) * values[i];
  }
  return std::sqrt(square);
}

}  // namespace

at::Tensor orthogonalized(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750,
                   c = 2.0315;  // p(s) = a s + b s^3 + c s^5 brings s in (0, 1] near 1
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / (at::linalg_vector_norm(x) + 1e-30);
  for (int k = 0; k < 5; ++k) {
    const at::Tensor squares = at::mm(x, x.t());
    x = a * x + at::mm(b * squares + c * at::mm(squares, squares), x);
  }
  return tall ? x.t() : x;
}

Optimizer::Optimizer(const Tensors& start, const TrainOptions& options)
    : ema_(options.ema), clip_(options.clip), weight_decay_(options.weight_decay) {
  for (const auto& [name, tensor] : start) {
    parameters_[name] = tensor.detach().clone().contiguous().requires_grad_(true);
    mean_[name] = tensor.detach().clone().contiguous();
    first_[name] = at::zeros_like(mean_[name]);
    if (options.optimizer == OptimizerKind::adam || !mixes_channels(tensor))
      second_[name] = at::zeros_like(mean_[name]);
  }
}

void Optimizer::step(const std::vector<at::Tensor>& gradients, double learning_rate, std::int64_t t) {
  constexpr double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Adam's
  constexpr double momentum = 0.95, typical_step = 0.2;         // Muon's; root mean square of a step of Adam
  TESSERA_EXPECT(gradients.size() == parameters_.size(), "as many gradients as parameters");
  const double length = length_of(gradients);
  const auto shorten = static_cast<float>(clip_ > 0 && length > clip_ ? clip_ / length : 1.0);
  // Corrections for moments and mean that began at zero, or at a start that is soon outdated.
  const double tail1 = 1 - std::pow(beta1, static_cast<double>(t + 1));
  const double tail2 = 1 - std::pow(beta2, static_cast<double>(t + 1));
  const auto rate = static_cast<float>(learning_rate / tail1);
  const auto root = static_cast<float>(1 / std::sqrt(tail2));
  const auto keep = static_cast<float>(std::min(ema_, (1.0 + static_cast<double>(t)) / (10.0 + t)));

  const at::NoGradGuard no_gradient;
  std::size_t k = 0;
  for (auto& [name, parameter] : parameters_) {
    const at::Tensor& gradient = gradients[k++];
    at::Tensor& first = first_[name];
    if (parameter.dim() == 4 && weight_decay_ > 0) parameter.mul_(1 - learning_rate * weight_decay_);
    float* p = parameter.data_ptr<float>();
    if (const auto second = second_.find(name); second != second_.end()) {
      const float* g = gradient.data_ptr<float>();
      float* m = first.data_ptr<float>();
      float* v = second->second.data_ptr<float>();
      for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        const float slope = shorten * g[i];
        m[i] += static_cast<float>(1 - beta1) * (slope - m[i]);
        v[i] += static_cast<float>(1 - beta2) * (slope * slope - v[i]);
        p[i] -= rate * m[i] / (root * std::sqrt(v[i]) + static_cast<float>(epsilon));
      }
    } else {
      first.mul_(momentum).add_(gradient, (1 - momentum) * shorten);
      const at::Tensor ahead = (momentum * first).add_(gradient, (1 - momentum) * shorten);  // Nesterov's
      const at::Tensor matrix = ahead.view({parameter.size(0), -1});
      const double longest = static_cast<double>(std::max(matrix.size(0), matrix.size(1)));
      parameter.sub_(orthogonalized(matrix).reshape(parameter.sizes()),
                     learning_rate * typical_step * std::sqrt(longest));
    }
    float* mean = mean_[name].data_ptr<float>();
    for (std::int64_t i = 0; i < parameter.numel(); ++i) mean[i] += (1 - keep) * (p[i] - mean[i]);
  }
}

Optimizer::Tensors Optimizer::all(const Tensors& more) const {
  Tensors tensors = more;
  const std::map<std::string, const Tensors*> sets{
      {"parameter.", &parameters_}, {"first.", &first_}, {"second.", &second_}, {"mean.", &mean_}};
  for (const auto& [prefix, set] : sets)
    for (const auto& [name, tensor] : *set) tensors[prefix + name] = tensor;
  return tensors;
}

void Optimizer::save(const std::string& path, std::int64_t step, double seconds, const Tensors& more) const {
  SafeTensors file;
  file.metadata = {{"schema", "1"}, {"step", std::to_string(step)}, {"seconds", std::to_string(seconds)}};
  for (const auto& [name, tensor] : all(more)) {
    SafeTensor& out = file.tensors[name];
    out.dtype = "F32";
    out.shape = tensor.sizes().vec();
    const auto* bytes = static_cast<const std::uint8_t*>(tensor.data_ptr());
    out.bytes.assign(bytes, bytes + tensor.numel() * 4);
  }
  write_safetensors(path, file);
}

std::pair<std::int64_t, double> Optimizer::load(const std::string& path, const Tensors& more) {
  const SafeTensors file = read_safetensors(path);
  const Tensors tensors = all(more);
  TESSERA_VALIDATE(
      file.tensors.size() == tensors.size() && file.metadata.count("step") && file.metadata.count("seconds"),
      path, " is not the state of this training (it has ", file.tensors.size(), " tensors, expected ",
      tensors.size(), ": another network or optimizer) remove it, or name another output");
  for (const auto& [name, tensor] : tensors) {
    const auto found = file.tensors.find(name);
    TESSERA_VALIDATE(found != file.tensors.end() && found->second.dtype == "F32" &&
                         found->second.shape == tensor.sizes().vec(),
                     path, " is not the state of this training (", name,
                     " is missing or has another shape) remove it, or name another output");
    std::memcpy(tensor.data_ptr(), found->second.bytes.data(), found->second.bytes.size());
  }
  return {std::stoll(file.metadata.at("step")), std::stod(file.metadata.at("seconds"))};
}

}  // namespace tessera::training
