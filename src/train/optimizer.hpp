// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/train/train.hpp"

namespace tessera::training {

/// The nearest matrix whose singular values are all 1, roughly: five steps of a Newton-Schulz iteration, after
/// which those of a matrix that was not nearly of lower rank lie between 0.65 and 1.25. (..., rows, columns),
/// float32.
/// Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
at::Tensor orthogonalized(const at::Tensor& matrix);

/// Adam or Muon on a set of float32 tensors of one device, with a running mean of them.
///
/// The parameters are leaves that collect gradients; gradients are given in the order of the names. Muon steps
/// along the orthogonalized momentum of a kernel seen as a matrix (first axis, all others), at a length that
/// lets it use Adam's learning rate; what is no such matrix (biases, norms, depthwise kernels, the first and
/// the last layer) goes with Adam. Both shrink kernels by rate * weight_decay beside the step.
/// Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015; Loshchilov, Hutter, "Decoupled
/// weight decay regularization", ICLR 2019; Liu et al., "Muon is scalable for LLM training", arXiv 2502.16982,
/// for the length; Polyak, Juditsky, SIAM J. Control Optim. 30 (1992) 838, for the mean.
class Optimizer {
 public:
  using Tensors = std::map<std::string, at::Tensor>;
  /// Copies the tensors to `device`. mean <- ema mean + (1 - ema) parameter, with a shorter memory at the
  /// start.
  Optimizer(const Tensors& start, const TrainOptions& options, at::Device device = at::kCPU);

  const Tensors& parameters() const { return parameters_; }
  const Tensors& averaged() const { return mean_; }
  /// Step number `t` (from 0). Gradients that are together longer than `clip` (> 0) are shortened to it. A GPU
  /// is not waited for.
  void step(const std::vector<at::Tensor>& gradients, double learning_rate, std::int64_t t);

  /// `more`: further float32 tensors of the training, which a file holds beside the sets.
  void save(const std::string& path, std::int64_t step, double seconds, const Tensors& more) const;
  /// -> step, seconds; writes into the tensors. InputError where the file is not the state of these tensors,
  /// or another optimizer's.
  std::pair<std::int64_t, double> load(const std::string& path, const Tensors& more);

 private:
  /// What a file holds, by name: the sets with a prefix each, and `more`.
  Tensors all(const Tensors& more) const;

  /// Some of the parameters, with what belongs to them, as the operators that take lists want it.
  struct Set {
    std::vector<std::size_t> at;  // places in the order of the names
    std::vector<at::Tensor> parameters, first, second;
  };
  void step_adam(const std::vector<at::Tensor>& gradients, double rate, double root);
  void step_muon(const std::vector<at::Tensor>& gradients, double learning_rate);

  Tensors parameters_, mean_;
  Tensors first_;   // running mean of the gradients
  Tensors second_;  // of their squares, where Adam steps
  double ema_, clip_, weight_decay_;
  Set adam_{}, muon_{};
};

}  // namespace tessera::training
