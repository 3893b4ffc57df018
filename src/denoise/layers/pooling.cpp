// SPDX-License-Identifier: BSD-3-Clause
// Changes of level without weights: max_pool, 2 x 2 (x 2) and stride 2; upsample, nearest, x2.
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest3d.h>

#include "engines/features.hpp"
#include "layers/levels.hpp"
#include "layers/on_block.hpp"
#include "layers/rows.hpp"

namespace tessera {
namespace {

at::Tensor pooled(const at::Tensor& x) { return x.dim() == 5 ? at::max_pool3d(x, 2) : at::max_pool2d(x, 2); }
at::Tensor upsampled(const at::Tensor& x) {
  if (x.dim() == 5) return at::upsample_nearest3d(x, {2 * x.size(2), 2 * x.size(3), 2 * x.size(4)});
  return at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
}

class MaxPool final : public Layer {
 public:
  const char* name() const override { return "max_pool"; }
  int level_change() const override { return 1; }
  Interval reads(const Node&, const Interval& out, std::size_t) const override { return coarse_reads(out); }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return pooled(in[0]);
  }
  /// Positions of the maxima, 8 bytes each, unasked.
  std::vector<std::int64_t> scratch(const Node& node, const StepSizes& s) const override {
    return {s.items * node.channels * s.pixels() * 8};
  }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) { return with_margin(call, pooled(block_of_input(call))); });
  }
  StepWork work(const Node& node, const Inputs& in, at::ScalarType, bool) const override {
    const auto read = static_cast<double>(kernel_taps(2, node.axes));  // of it, for a sample
    return {.in = in[0]->channels,
            .passed = read * static_cast<double>(in[0]->channels) + static_cast<double>(node.channels)};
  }
};

class Upsample final : public Layer {
 public:
  const char* name() const override { return "upsample"; }
  int level_change() const override { return -1; }
  Interval reads(const Node&, const Interval& out, std::size_t) const override { return fine_reads(out); }
  at::Tensor evaluate(const Node&, const std::vector<at::Tensor>& in, const Evaluation&) const override {
    return upsampled(in[0]);
  }
  std::unique_ptr<LayerStep> prepare(const Node&, const StepSettings&) const override {
    return make_step([](const StepCall& call) { return with_margin(call, upsampled(block_of_input(call))); });
  }
  StepWork work(const Node& node, const Inputs& in, at::ScalarType, bool) const override {
    return {.in = in[0]->channels,
            .passed = static_cast<double>(in[0]->channels) / static_cast<double>(kernel_taps(2, node.axes)) +
                      static_cast<double>(node.channels)};
  }
};

}  // namespace

std::unique_ptr<const Layer> max_pool_layer() { return std::make_unique<MaxPool>(); }
std::unique_ptr<const Layer> upsample_layer() { return std::make_unique<Upsample>(); }

}  // namespace tessera
