// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/denoise/layer.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {

class LayerHalos;

/// What the fast form of a layer is made for.
struct StepSettings {
  at::TensorOptions tensor;  // type of the arithmetic, device
  ConvolutionLibrary library = ConvolutionLibrary::plain;
  bool device_form = false;  // layers as a device runs them
  bool turned = false;       // also keep kernels with rows and columns exchanged, see LayerHalos
  std::function<at::Tensor(const std::string&)> weight;  // by name, as the network has it
  /// In the type and on the device of the arithmetic.
  at::Tensor parameter(const std::string& name) const { return weight(name).to(tensor); }
};

/// The noise level: a number, or a tensor on the device, whose value a graph reads anew at each replay.
struct NoiseLevel {
  double sigma = 0;
  at::Tensor tensor = {};
};

/// One call of a step, features channels last.
struct StepCall {
  const Step& step;
  std::size_t index;           // of the plan
  std::vector<at::Tensor> in;  // of each input the pixels that it reads; views
  at::Tensor other;            // to be added to the result; undefined: nothing
  Box out;                     // pixels of the result, in those of its level
  bool in_part;                // whether they are a part of a window that the step computes alone
  std::int64_t items;
  const NoiseLevel& level;
  LayerHalos* halos;                   // of blocks in mode layer; null: x is all there is
  std::function<void()> place_result;  // names the place of the result anew, after a copy was made
};

/// A layer of a network, ready to run many times. No gradients; not thread safe.
class LayerStep {
 public:
  virtual ~LayerStep() = default;
  /// The result on `out`, a new tensor, or the first input or `other` where the step says so (into_other).
  /// Collective in mode layer, as far as the layer exchanges or sums.
  virtual at::Tensor run(const StepCall& call) = 0;
};

/// A step that is a function.
std::unique_ptr<LayerStep> make_step(std::function<at::Tensor(const StepCall&)> run);

}  // namespace tessera
