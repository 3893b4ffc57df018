// SPDX-License-Identifier: BSD-3-Clause
#include "engines/channel_attention.hpp"
#include "graph/attention.hpp"
#include "layers/layer_halos.hpp"
#include "layers/rows.hpp"
#include "tessera/denoise/layer_step.hpp"

namespace tessera {
namespace {

/// Per head, softmax(t q^T k) v over channels instead of pixels: each channel of q and k is a vector of all
/// pixels, of length 1; the input as that of window_attention; t by the weight (heads, 1, 1).
class ChannelAttentionLayer final : public Layer {
 public:
  const char* name() const override { return "channel_attention"; }
  std::string complete(Node& node, const Inputs& in) const override { return complete_attention(node, in); }
  std::vector<NamedShape> weights(const Node& node, const Inputs&) const override {
    return {{node.weight, {node.heads, 1, 1}}};
  }
  at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in,
                      const Evaluation& e) const override {
    return attend_channels(node, in[0], e.weight(node.weight));
  }
  std::vector<std::int64_t> scratch(const Node& node, const StepSizes& s) const override {
    return {
        ChannelAttention::scratch_bytes(node, s.block[0] * s.block[1], s.block[2], s.type, s.on_device())};
  }
  std::unique_ptr<LayerStep> prepare(const Node& node, const StepSettings& settings) const override {
    const at::Tensor temperature = settings.weight(node.weight).to(settings.tensor.device());
    return make_step(
        [level = node.level, attention = ChannelAttention(node, temperature)](const StepCall& call) {
          // Of a volume planes of rows stand for one, since pixels have no order here.
          const at::Tensor& all = call.in[0];
          const at::Tensor x = all.dim() == 5 ? all.flatten(2, 3) : all;
          at::Tensor sums = attention.sums(call.halos ? call.halos->narrow(x, level) : x);
          if (call.halos) call.halos->sum(sums);
          const at::Tensor y = attention.apply(x, sums);
          return all.dim() == 5 ? y.unflatten(2, {all.size(2), all.size(3)}) : y;
        });
  }
  StepWork work(const Node& node, const Inputs& in, at::ScalarType type, bool on_device) const override {
    StepWork work = Layer::work(node, in, type, on_device);
    // Squares; products of pairs of channels, as many passes as heads are wide.
    work.passed += 2.0 * static_cast<double>(node.channels);
    return work;
  }
  std::int64_t sums(const Node& node) const override { return ChannelAttention::numbers(node); }
};

}  // namespace

std::unique_ptr<const Layer> channel_attention_layer() { return std::make_unique<ChannelAttentionLayer>(); }

}  // namespace tessera
