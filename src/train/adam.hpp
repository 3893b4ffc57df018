// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tessera::training {

/// Adam on a set of float32 CPU tensors, with a running mean of them.
///
/// The parameters are leaves that collect gradients; gradients are given in the order of the names.
/// Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015; Polyak, Juditsky, SIAM J.
/// Control Optim. 30 (1992) 838, for the mean.
class Adam {
 public:
  using Tensors = std::map<std::string, at::Tensor>;
  /// Copies the tensors. mean <- decay mean + (1 - decay) parameter, with a shorter memory at the start.
  Adam(const Tensors& start, double decay);

  const Tensors& parameters() const { return parameters_; }
  const Tensors& averaged() const { return mean_; }
  /// Step number `t` (from 0). A gradient longer than `clip` (> 0) is shortened to it.
  void step(const std::vector<at::Tensor>& gradients, double learning_rate, double clip, std::int64_t t);

  /// `more`: further float32 tensors of the training, which a file holds beside the four sets.
  void save(const std::string& path, std::int64_t step, double seconds, const Tensors& more) const;
  /// -> step, seconds; writes into the tensors. InputError where the file is not the state of these tensors.
  std::pair<std::int64_t, double> load(const std::string& path, const Tensors& more);

 private:
  /// What a file holds, by name: the four sets with a prefix each, and `more`.
  Tensors all(const Tensors& more) const;

  Tensors parameters_, first_, second_, mean_;
  double decay_;
};

}  // namespace tessera::training
