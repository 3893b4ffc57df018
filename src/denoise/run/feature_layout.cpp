// SPDX-License-Identifier: BSD-3-Clause
#include "run/feature_layout.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>

#include "engines/cudnn_graph.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kGrain = 4096;  // pieces begin on pages

// Of oneDNN 3, bytes for each thread, twice what was seen: in any convolution, where 16-bit types may want their
// weights in another order too.
constexpr std::int64_t kInside = std::int64_t{1} << 14, kInside16 = std::int64_t{1} << 20;
// Beside the arena, whatever the threads: 2816 were seen, with AVX2.
constexpr std::int64_t kBesideArena = 4096;

constexpr std::size_t kScratch = 4;  // pieces of a step at most

std::int64_t bytes_of(at::ScalarType type) { return static_cast<std::int64_t>(c10::elementSize(type)); }

// One piece in the making: what shares it, and from which step to which it is held, both included.
struct Buffer {
  std::int64_t exact;  // bytes that will be asked for
  int first, last;
  FeatureLayout::Piece* piece;
  std::int64_t bytes = (exact + kGrain - 1) / kGrain * kGrain;
  std::int64_t offset = 0;
};

// Largest first, each at the lowest place that is free during its life. Source: Pisarchyk, Lee, arXiv
// 2001.03288, "greedy by size", which reaches the lower bound on chains of equal features.
std::int64_t place(std::vector<Buffer>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::int64_t end = 0;
  std::vector<const Buffer*> placed;  // by offset
  for (const std::size_t i : order) {
    Buffer& b = buffers[i];
    std::int64_t at = 0;
    for (const Buffer* other : placed) {
      if (other->last < b.first || b.last < other->first) continue;
      if (at + b.bytes <= other->offset) break;
      at = std::max(at, other->offset + other->bytes);
    }
    b.offset = at;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &b,
                                   [](const Buffer* x, const Buffer* y) { return x->offset < y->offset; }),
                  &b);
    end = std::max(end, at + b.bytes);
  }
  return end;
}

Box block(const CallShape& call, const Node& node, int level) {
  return at_level(Box({0, 0, 0}, call.window), level, node.axes);
}
// Of features of this level, with their margins if any.
std::int64_t pixels(const CallShape& call, const Node& node, int level) {
  if (call.regions.empty()) return block(call, node, level).pixels();
  const Index3& sides = call.regions[static_cast<std::size_t>(level)];
  return sides[0] * sides[1] * sides[2];
}

std::int64_t samples(const Step& step, const CallShape& call) {
  std::int64_t made = pixels(call, step.node, step.node.level);
  if (!call.parts.empty()) made = call.parts[static_cast<std::size_t>(step.out)].pixels();
  return call.items * step.node.channels * made;
}

StepSizes sizes_of(const PassPlan& plan, const Step& step, const CallShape& call) {
  StepSizes sizes{
      .items = call.items, .samples = samples(step, call), .type = call.type, .library = call.library};
  if (!step.node.inputs.empty()) sizes.inputs = plan.channels[static_cast<std::size_t>(step.node.inputs[0])];
  sizes.block = block(call, step.node, step.node.level).extents();
  sizes.axes = step.node.axes;
  return sizes;
}

// The most that `of` says about a step of the plan.
template <typename Of>
std::int64_t most_of(const PassPlan& plan, const CallShape& call, const Of& of) {
  std::int64_t most = 0;
  for (const Step& step : plan.steps)
    most = std::max(most, of(layer_of(step.node.op), step.node, sizes_of(plan, step, call)));
  return most;
}

// What a library takes and gives back inside one step.
std::int64_t inside(const PassPlan& plan, const CallShape& call) {
  return most_of(plan, call, [](const Layer& layer, const Node& node, const StepSizes& sizes) {
    return layer.inside(node, sizes);
  });
}

// What the process keeps for its convolutions, whoever runs them.
std::int64_t kept(const PassPlan& plan, const CallShape& call) {
  return most_of(plan, call, [](const Layer& layer, const Node& node, const StepSizes& sizes) {
    return layer.kept(node, sizes);
  });
}

std::int64_t most_alive(const std::vector<Buffer>& buffers, int steps) {
  std::int64_t most = 0;
  for (int s = -1; s < steps; ++s) {
    std::int64_t alive = 0;
    for (const Buffer& b : buffers)
      if (b.first <= s && s <= b.last) alive += b.bytes;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

std::vector<bool> in_parts(const PassPlan& plan, at::ScalarType type, ConvolutionLibrary library) {
  std::vector<bool> can;
  for (const Step& step : plan.steps) {
    const Node& node = step.node;
    const std::int64_t inputs =
        node.inputs.empty() ? 0 : plan.channels[static_cast<std::size_t>(node.inputs[0])];
    can.push_back(layer_of(node.op).in_parts(node, inputs, type, library));
  }
  return can;
}

CallShape block_call(const PassPlan& plan, const std::vector<LevelBoxes>& levels, at::ScalarType type,
                     ConvolutionLibrary library) {
  const auto extents = [&](const Box& box) {
    Index3 sides = box.extents();
    if (plan.axes == Axes::picture && !box.empty()) sides[0] = 1;
    return sides;
  };
  const Box& block = levels[0].block;
  CallShape call{.window = extents(block), .type = type, .library = library};
  if (plan.axes == Axes::picture) call.items = block.extent(0);
  if (std::any_of(levels.begin(), levels.end(), [](const LevelBoxes& b) { return b.region != b.block; }))
    for (const LevelBoxes& level : levels) call.regions.push_back(extents(level.region));
  return call;
}

FeatureLayout lay_out(const PassPlan& plan, const CallShape& call) {
  FeatureLayout layout;
  const int steps = static_cast<int>(plan.steps.size());
  layout.results.resize(plan.steps.size());
  layout.scratch.resize(plan.steps.size());
  layout.copies.resize(plan.steps.size());
  for (auto& pieces : layout.scratch) pieces.reserve(kScratch);
  const std::int64_t element = bytes_of(call.type);
  const auto elements = [&](const Step& step) { return samples(step, call); };

  std::map<int, int> last;  // by slot
  for (int s = 0; s < steps; ++s)
    for (const int slot : plan.steps[static_cast<std::size_t>(s)].released) last[slot] = s;
  std::vector<Buffer> buffers;
  std::int64_t scores = 0;   // bytes of sums over all pixels
  std::map<int, int> owner;  // slot -> buffer; -1: it has none in the arena
  // The result's buffer, found from behind: it may have been computed in place.
  std::set<int> leaves{plan.output};
  for (int s = steps; s-- > 0;) {
    const Step& step = plan.steps[static_cast<std::size_t>(s)];
    if (step.into_other && leaves.count(step.out))
      leaves.insert(step.other >= 0 ? step.other : step.node.inputs[0]);
  }
  for (int s = 0; s < steps; ++s) {
    const auto k = static_cast<std::size_t>(s);
    const Step& step = plan.steps[k];
    const int until = last.count(step.out) ? last[step.out] : s;
    if (step.into_other && !(step.other >= 0 && call.library == ConvolutionLibrary::cudnn)) {
      const int target = owner[step.other >= 0 ? step.other : step.node.inputs[0]];
      owner[step.out] = target;
      if (target >= 0)
        buffers[static_cast<std::size_t>(target)].last =
            std::max(buffers[static_cast<std::size_t>(target)].last, until);
      continue;
    }
    const bool image = step.node.op == Op::input;
    const bool leaf = leaves.count(step.out) > 0;
    const bool here = step.node.op != Op::sigma_map && !leaf && (!image || plan.converts);
    owner[step.out] = here ? static_cast<int>(buffers.size()) : -1;
    if (here)
      buffers.push_back(
          {elements(step) * element, image ? -1 : s, until, image ? &layout.image : &layout.results[k]});
    const auto beside = [&](std::int64_t bytes, FeatureLayout::Piece* piece = nullptr) {
      if (leaf)  // nothing is put into the arena here: the result would be
        layout.outside += bytes;
      else
        buffers.push_back({bytes, s, s, piece ? piece : &layout.scratch[k].emplace_back()});
    };
    const StepSizes sizes = sizes_of(plan, step, call);
    const Layer& layer = layer_of(step.node.op);
    scores = std::max(scores, 8 * layer.sums(step.node));
    // Such a layer sees and makes blocks; their margins go and come in copies.
    if (const int change = layer.level_change(); change != 0) {
      const int level = step.node.level, from = level - change;
      const std::int64_t read = block(call, step.node, from).pixels(), made = sizes.pixels();
      if (pixels(call, step.node, from) != read)
        beside(call.items * sizes.inputs * read * element, &layout.copies[k]);
      if (pixels(call, step.node, level) != made) beside(call.items * step.node.channels * made * element);
    }
    for (const std::int64_t bytes : layer.scratch(step.node, sizes)) beside(bytes);
  }
  layout.outside += 6 * scores;  // sums, scores and what makes one of the other
  layout.bytes = place(buffers);
  layout.least = most_alive(buffers, steps);
  if (call.library == ConvolutionLibrary::onednn) {
    const std::int64_t threads = (element < 4 ? kInside16 : kInside) * at::get_num_threads();
    for (const std::int64_t bytes : {threads, inside(plan, call)}) {
      layout.inside.push_back({layout.bytes, bytes});
      layout.bytes += bytes;
    }
  }
  for (const Buffer& b : buffers) {
    b.piece->offset = b.offset;
    b.piece->bytes = b.exact;
  }
  return layout;
}

std::int64_t call_bytes(const PassPlan& plan, const CallShape& call, bool on_cuda) {
  const FeatureLayout layout = lay_out(plan, call);
  std::int64_t result = 0;
  for (const Step& step : plan.steps)
    if (step.out == plan.output) result = samples(step, call);
  // Computed in 16 bits, given back in 32.
  const std::int64_t results = result * bytes_of(call.type) + (bytes_of(call.type) < 4 ? 4 * result : 0);
  if (on_cuda)
    return results + layout.outside + layout.least + layout.least / 5 +
           (call.library == ConvolutionLibrary::cudnn ? kCudnnWorkspace : inside(plan, call));
  return results + layout.outside + kGrain + kBesideArena + layout.bytes + kept(plan, call) +
         (layout.inside.empty() ? inside(plan, call) : 0);
}

}  // namespace tessera
