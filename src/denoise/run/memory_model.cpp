// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/memory_model.hpp"

#include <algorithm>
#include <vector>

#include "engines/convolution.hpp"
#include "run/feature_layout.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {

struct MemoryModel::Impl {
  PassPlan plan;
  at::ScalarType type;
  ConvolutionLibrary library;
  bool on_cuda;

  CallShape call(std::int64_t items, const Index3& window) const {
    return {items, window, type, library, {}};
  }
};

MemoryModel::MemoryModel(const Network& network, at::ScalarType type, bool fused, Device device)
    : impl_(std::make_unique<Impl>()) {
  impl_->type = type;
  impl_->on_cuda = device.is_cuda();
  impl_->library = library_for(network.graph, type, device.is_cuda(), fused);
  impl_->plan = make_pass_plan(without_batch_norms(network.graph), fuses_add(impl_->library));
}
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel::~MemoryModel() = default;

std::int64_t MemoryModel::bytes(std::int64_t items, const Index3& window) const {
  return call_bytes(impl_->plan, impl_->call(items, window), impl_->on_cuda);
}
std::int64_t MemoryModel::layer_bytes(const Decomposition& decomposition, int rank, int halo_depth) const {
  const Impl& m = *impl_;
  const Box block = decomposition.padded_block(rank);
  if (block.empty()) return 0;
  const LayerSchedule schedule = make_layer_schedule(m.plan, halo_depth, m.type, m.on_cuda);
  const std::vector<LevelBoxes> boxes = level_boxes(schedule, decomposition, rank);
  const CallShape call = block_call(m.plan, boxes, m.type, m.library);

  std::int64_t strips = 0, packed = 0;  // elements
  std::vector<LayerExchange> seen;
  for (const LayerExchange& e : schedule.exchanges) {
    const std::int64_t outputs = m.plan.channels[static_cast<std::size_t>(m.plan.steps[e.step].out)];
    std::int64_t here = 0;  // inputs, and where they are not computed in place, results and what they replace
    const BlockCut cut = cut_block(boxes[static_cast<std::size_t>(e.level)].block,
                                   at_level(decomposition.padded(), e.level, e.axes), e);
    for (const Strip& strip : cut.strips)
      here += strip.in.pixels() * e.channels + (e.rim.tile > 1 ? 0 : 2 * strip.out.pixels() * outputs);
    strips = std::max(strips, here);
    const auto same = [&](const LayerExchange& known) { return same_pixels(known, e); };
    if (std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(e);
    const ExchangePlan plan = LayerLayouts(decomposition, e).plan(rank);
    packed += (plan.pixels_sent() + plan.pixels_received()) * e.channels;
  }
  return call_bytes(m.plan, call, m.on_cuda) +
         (strips + packed) * static_cast<std::int64_t>(c10::elementSize(m.type));
}

std::int64_t MemoryModel::least_bytes(std::int64_t items, const Index3& window) const {
  return lay_out(impl_->plan, impl_->call(items, window)).least;
}

}  // namespace tessera
