// SPDX-License-Identifier: BSD-3-Clause
#include "engines/window_attention.hpp"
#include "graph/attention.hpp"
#include "layers/layer_halos.hpp"
#include "layers/rows.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {
namespace {

/// Per square window and head, softmax(q k^T / sqrt(d) + r) v over the window's pixels; the input holds q, k and
/// v of all heads, each `channels`, d of them per head; r by the weight (heads, 1, 2 window - 1, 2 window - 1) at
/// the offset of the query from the key. Windows end where the image ends.
class WindowAttentionLayer final : public Layer {
 public:
  const char* name() const override { return "window_attention"; }
  std::string complete(Node& node, const Inputs& in) const override {
    if (node.axes == Axes::volume)
      return "attention in windows of a volume (its windows are squares) use channel_attention, or "
             "convolutions";
    return complete_attention(node, in);
  }
  Interval reads(const Node& node, const Interval& out, std::size_t) const override {
    const std::int64_t window = node.window, shift = node.shift;
    const auto floor_to = [window](std::int64_t i) {
      return (i >= 0 ? i / window : -((window - 1 - i) / window)) * window;
    };
    return {floor_to(out.lo + shift) - shift, floor_to(out.hi - 1 + shift) + window - shift};
  }
  std::int64_t unit(const Node& node) const override { return node.window; }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    return {{node.weight, {node.heads, 1, 2 * node.window - 1, 2 * node.window - 1}}};
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    return attend(node, in[0], e.weight(node.weight));
  }
  std::vector<std::int64_t> scratch(const Node& node, const StepSizes& s) const override {
    return {WindowAttention::scratch_elements(node, s.block[1], s.block[2], s.on_device()) * s.element()};
  }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    return make_step([level = node.level, attention = WindowAttention(node, settings.parameter(node.weight))](
                         const StepCall& call) {
      return call.halos ? call.halos->attend(call.index, level, attention, call.in[0])
                        : attention.apply(call.in[0]);
    });
  }
  StepWork work(const Node& node, const Inputs& in, at::ScalarType type, bool on_device) const override {
    StepWork work = Layer::work(node, in, type, on_device);
    // Scores: biased, added to, shifted, summed, multiplied.
    work.passed += 8.0 * static_cast<double>(node.heads * node.window * node.window);
    return work;
  }
  bool on_blocks(const Node&) const override { return true; }  // whole windows
  RimForm rim(const Node& node, std::int64_t, at::ScalarType, bool) const override {
    return {.tile = reach(node)};
  }
};

}  // namespace

std::string complete_attention(Node& node, const Layer::Inputs& in) {
  const std::int64_t channels = in[0]->channels;
  node.channels = channels / 3;
  if (node.heads <= 0 || channels != 3 * node.channels || node.channels % node.heads != 0)
    return concat("attention of ", node.heads, " heads on ", channels,
                  " channels (queries, keys and values of all heads lie side by side) use a multiple");
  if (node.window <= 0 || (node.shift != 0 && 2 * node.shift != node.window))
    return concat("windows of ", node.window, " pixels shifted by ", node.shift,
                  " (flips of the image keep none or half of the side) use either");
  return {};
}

std::unique_ptr<const Layer> window_attention_layer() { return std::make_unique<WindowAttentionLayer>(); }

}  // namespace tessera
