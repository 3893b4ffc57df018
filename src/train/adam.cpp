// SPDX-License-Identifier: BSD-3-Clause
#include "adam.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/core/error.hpp"
#include "tessera/io/safetensors.hpp"

namespace tessera::training {

Adam::Adam(const Tensors& start, double decay) : decay_(decay) {
  for (const auto& [name, tensor] : start) {
    parameters_[name] = tensor.detach().clone().contiguous().requires_grad_(true);
    first_[name] = at::zeros_like(tensor);
    second_[name] = at::zeros_like(tensor);
    mean_[name] = tensor.detach().clone().contiguous();
  }
}

void Adam::step(const std::vector<at::Tensor>& gradients, double learning_rate, double clip, std::int64_t t) {
  constexpr double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  TESSERA_EXPECT(gradients.size() == parameters_.size(), "as many gradients as parameters");
  double square = 0;
  for (const at::Tensor& g : gradients) {
    const float* values = g.data_ptr<float>();
    for (std::int64_t i = 0; i < g.numel(); ++i) square += static_cast<double>(values[i]) * values[i];
  }
  const double length = std::sqrt(square);
  const auto shorten = static_cast<float>(clip > 0 && length > clip ? clip / length : 1.0);
  // Corrections for moments and mean that began at zero, or at a start that is soon outdated.
  const double tail1 = 1 - std::pow(beta1, static_cast<double>(t + 1));
  const double tail2 = 1 - std::pow(beta2, static_cast<double>(t + 1));
  const auto rate = static_cast<float>(learning_rate / tail1);
  const auto root = static_cast<float>(1 / std::sqrt(tail2));
  const auto keep = static_cast<float>(std::min(decay_, (1.0 + static_cast<double>(t)) / (10.0 + t)));

  const at::NoGradGuard no_gradient;
  std::size_t k = 0;
  for (auto& [name, parameter] : parameters_) {
    const float* g = gradients[k++].data_ptr<float>();
    float* p = parameter.data_ptr<float>();
    float* m = first_[name].data_ptr<float>();
    float* v = second_[name].data_ptr<float>();
    float* mean = mean_[name].data_ptr<float>();
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
      const float gradient = shorten * g[i];
      m[i] += static_cast<float>(1 - beta1) * (gradient - m[i]);
      v[i] += static_cast<float>(1 - beta2) * (gradient * gradient - v[i]);
      p[i] -= rate * m[i] / (root * std::sqrt(v[i]) + static_cast<float>(epsilon));
      mean[i] += (1 - keep) * (p[i] - mean[i]);
    }
  }
}

Adam::Tensors Adam::all(const Tensors& more) const {
  Tensors tensors = more;
  const std::map<std::string, const Tensors*> sets{
      {"parameter.", &parameters_}, {"first.", &first_}, {"second.", &second_}, {"mean.", &mean_}};
  for (const auto& [prefix, set] : sets)
    for (const auto& [name, tensor] : *set) tensors[prefix + name] = tensor;
  return tensors;
}

void Adam::save(const std::string& path, std::int64_t step, double seconds, const Tensors& more) const {
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

std::pair<std::int64_t, double> Adam::load(const std::string& path, const Tensors& more) {
  const SafeTensors file = read_safetensors(path);
  const Tensors tensors = all(more);
  TESSERA_VALIDATE(
      file.tensors.size() == tensors.size() && file.metadata.count("step") && file.metadata.count("seconds"),
      path, " is not the state of this training (it has ", file.tensors.size(), " tensors, expected ",
      tensors.size(), ") remove it, or name another output");
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
