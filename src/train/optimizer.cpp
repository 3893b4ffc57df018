// SPDX-License-Identifier: BSD-3-Clause
#include "optimizer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.hpp"
#include "tessera/io/safetensors.hpp"

namespace tessera::training {
namespace {

/// Whether a kernel mixes many channels with many: head, tail and depthwise kernels do not.
bool mixes_channels(const at::Tensor& kernel) {
  constexpr std::int64_t many = 8;
  return kernel.dim() >= 4 && std::min(kernel.size(0), kernel.size(1)) >= many;
}

std::vector<at::Tensor> chosen(const std::vector<at::Tensor>& of, const std::vector<std::size_t>& at) {
  std::vector<at::Tensor> tensors;
  for (const std::size_t i : at) tensors.push_back(of[i]);
  return tensors;
}

std::vector<at::Tensor> values(const Optimizer::Tensors& tensors) {
  std::vector<at::Tensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back(tensor);
  return list;
}

}  // namespace

at::Tensor orthogonalized(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750,
                   c = 2.0315;  // p(s) = a s + b s^3 + c s^5 brings s in (0, 1] near 1
  const bool tall = matrix.size(-2) > matrix.size(-1);
  at::Tensor x = tall ? matrix.mT() : matrix;
  x = x / (at::linalg_vector_norm(x, 2, at::IntArrayRef{-2, -1}, /*keepdim=*/true) + 1e-30);
  for (int k = 0; k < 5; ++k) {
    const at::Tensor squares = at::matmul(x, x.mT());
    x = a * x + at::matmul(b * squares + c * at::matmul(squares, squares), x);
  }
  return tall ? x.mT() : x;
}

Optimizer::Optimizer(const Tensors& start, const TrainOptions& options, at::Device device)
    : ema_(options.ema), clip_(options.clip), weight_decay_(options.weight_decay) {
  std::size_t place = 0;
  for (const auto& [name, tensor] : start) {
    const at::Tensor own = tensor.detach().to(device).contiguous();
    parameters_[name] = own.clone().requires_grad_(true);
    mean_[name] = own.clone();
    first_[name] = at::zeros_like(own);
    const bool with_adam = options.optimizer == OptimizerKind::adam || !mixes_channels(tensor);
    if (with_adam) second_[name] = at::zeros_like(own);
    Set& set = with_adam ? adam_ : muon_;
    set.at.push_back(place++);
    set.parameters.push_back(parameters_[name]);
    set.first.push_back(first_[name]);
    if (with_adam) set.second.push_back(second_[name]);
  }
}

void Optimizer::step_adam(const std::vector<at::Tensor>& gradients, double rate, double root) {
  constexpr double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  if (gradients.empty()) return;
  at::_foreach_lerp_(adam_.first, gradients, 1 - beta1);
  at::_foreach_mul_(adam_.second, beta2);
  at::_foreach_addcmul_(adam_.second, gradients, gradients, 1 - beta2);
  std::vector<at::Tensor> length = at::_foreach_sqrt(adam_.second);
  // Corrections for moments that began at zero: `rate` holds the first one's, `root` is the second one's.
  at::_foreach_mul_(length, root);
  at::_foreach_add_(length, epsilon);
  at::_foreach_addcdiv_(adam_.parameters, adam_.first, length, -rate);
}

void Optimizer::step_muon(const std::vector<at::Tensor>& gradients, double learning_rate) {
  constexpr double momentum = 0.95, typical_step = 0.2;  // the latter: root mean square of a step of Adam
  if (gradients.empty()) return;
  at::_foreach_lerp_(muon_.first, gradients, 1 - momentum);
  const std::vector<at::Tensor> ahead =
      at::_foreach_lerp(muon_.first, gradients, 1 - momentum);                 // Nesterov's
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> of_one_shape;  // a product for all of them
  for (std::size_t i = 0; i < ahead.size(); ++i) of_one_shape[ahead[i].sizes().vec()].push_back(i);
  for (const auto& [shape, places] : of_one_shape) {
    const auto count = static_cast<std::int64_t>(places.size());
    const at::Tensor steps = orthogonalized(at::stack(chosen(ahead, places)).view({count, shape[0], -1}));
    const double longest = static_cast<double>(std::max(steps.size(1), steps.size(2)));
    for (std::int64_t k = 0; k < count; ++k)
      muon_.parameters[places[k]].sub_(steps.select(0, k).reshape(shape),
                                       learning_rate * typical_step * std::sqrt(longest));
  }
}

void Optimizer::step(const std::vector<at::Tensor>& gradients, double learning_rate, std::int64_t t) {
  constexpr double beta1 = 0.9, beta2 = 0.999;
  TESSERA_EXPECT(gradients.size() == parameters_.size(), "as many gradients as parameters");
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> slopes = gradients;
  if (clip_ > 0) {
    const at::Tensor length = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
    slopes = at::_foreach_mul(gradients, (clip_ / length).clamp_max(1));
  }
  const std::vector<at::Tensor> parameters = values(parameters_), means = values(mean_);
  if (weight_decay_ > 0)
    for (const at::Tensor& kernel : parameters)
      if (kernel.dim() == 4) kernel.mul_(1 - learning_rate * weight_decay_);
  const double tail1 = 1 - std::pow(beta1, static_cast<double>(t + 1));
  const double tail2 = 1 - std::pow(beta2, static_cast<double>(t + 1));
  step_adam(chosen(slopes, adam_.at), learning_rate / tail1, 1 / std::sqrt(tail2));
  step_muon(chosen(slopes, muon_.at), learning_rate);
  // A mean that began at a start that is soon outdated.
  const double keep = std::min(ema_, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
  at::_foreach_lerp_(means, parameters, 1 - keep);
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
    const at::Tensor host = tensor.detach().cpu().contiguous();
    const auto* bytes = static_cast<const std::uint8_t*>(host.data_ptr());
    out.bytes.assign(bytes, bytes + host.numel() * 4);
  }
  write_safetensors(path, file);
}

std::pair<std::int64_t, double> Optimizer::load(const std::string& path, const Tensors& more) {
  const at::NoGradGuard no_gradient;
  SafeTensors file = read_safetensors(path);
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
    tensor.copy_(at::from_blob(found->second.bytes.data(), tensor.sizes(), at::kFloat));
  }
  return {std::stoll(file.metadata.at("step")), std::stod(file.metadata.at("seconds"))};
}

}  // namespace tessera::training
