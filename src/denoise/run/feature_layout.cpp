// SPDX-License-Identifier: BSD-3-Clause
#include "run/feature_layout.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>

#include "run/channel_attention.hpp"
#include "run/cudnn_graph.hpp"
#include "run/window_attention.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kGrain = 4096;  // pieces begin on pages

// Of oneDNN 3, bytes for each thread, twice what was seen: beside the result of a transposed convolution, and
// in any convolution, where 16-bit types may want their weights in another order too.
constexpr std::int64_t kBesideUp = std::int64_t{1} << 15, kBesideUp16 = std::int64_t{1} << 18;
constexpr std::int64_t kInside = std::int64_t{1} << 14, kInside16 = std::int64_t{1} << 20;
// Beside the arena, whatever the threads: 2816 were seen, with AVX2.
constexpr std::int64_t kBesideArena = 4096;

constexpr std::int64_t kLanes = 16;   // channels that oneDNN takes as they are
constexpr std::int64_t kFilled = 64;  // channels that it fills weights up to
constexpr std::size_t kScratch = 3;   // pieces of a step at most

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

std::int64_t block_pixels(const CallShape& call, int level) {
  return (call.height >> level) * (call.width >> level);
}
std::int64_t pixels(const CallShape& call, int level) {
  if (call.regions.empty()) return block_pixels(call, level);
  const auto& [rows, columns] = call.regions[static_cast<std::size_t>(level)];
  return rows * columns;
}

std::int64_t samples(const Step& step, const CallShape& call) {
  std::int64_t made = pixels(call, step.node.level);
  if (!call.parts.empty()) made = call.parts[static_cast<std::size_t>(step.out)].pixels();
  return call.items * step.node.channels * made;
}

// Pixel by pixel, by operators that take any strides.
bool any_part(Op op) {
  switch (op) {
    case Op::sigma_map:
    case Op::relu:
    case Op::elu:
    case Op::elu_gradient:
    case Op::gelu:
    case Op::add:
    case Op::subtract:
    case Op::concat:
      return true;
    default:
      return false;
  }
}

// The most that `of` says about a convolution of the plan: (step, input channels).
template <typename Of>
std::int64_t most_of(const RunPlan& plan, const Of& of) {
  std::map<int, std::int64_t> channels;
  std::int64_t most = 0;
  for (const Step& step : plan.steps) {
    channels[step.out] = step.node.channels;
    if (is_convolution(step.node.op))
      most = std::max(most, of(step, step.node.reads(channels[step.node.inputs[0]])));
  }
  return most;
}

// What a library takes and gives back inside one convolution, beside what its threads take: weights in
// another order (16 bits, plain), the unfolded input (double), and, plain, a product that is added
// afterwards.
std::int64_t inside(const RunPlan& plan, const CallShape& call) {
  const bool plain = call.library == ConvolutionLibrary::plain;
  if (!plain && bytes_of(call.type) == 4) {  // those of 1 x 1 are ordered anew where an image is small
    if (call.library == ConvolutionLibrary::cudnn) return 0;
    return 4 * most_of(plan, [](const Step& step, std::int64_t in) {
             const std::int64_t out = (step.node.channels + kFilled - 1) / kFilled * kFilled;
             return step.node.op == Op::conv && step.node.kernel == 1 ? in * out : 0;
           });
  }
  return bytes_of(call.type) * most_of(plan, [&](const Step& step, std::int64_t in) {
           const std::int64_t taps = step.node.op == Op::conv ? step.node.kernel * step.node.kernel : 4;
           std::int64_t taken = in * taps * step.node.channels;
           if (plain) taken += taken + 2 * samples(step, call);
           if (ConvolutionLayer::unfolds(call.library, call.type))
             taken += 2 * samples(step, call) / step.node.channels * in * taps;
           return taken;
         });
}

// What the process keeps for its convolutions, whoever runs them.
std::int64_t kept(const RunPlan& plan, const CallShape& call) {
  return most_of(plan, [&](const Step& step, std::int64_t in) {
    return step.node.op == Op::conv
               ? ConvolutionLayer::scratch_bytes(call.library, call.type, in, step.node.kernel)
               : 0;
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

std::vector<bool> in_parts(const RunPlan& plan, at::ScalarType type, ConvolutionLibrary library) {
  std::vector<bool> can;
  for (const Step& step : plan.steps) {
    const Node& node = step.node;
    can.push_back(is_convolution(node.op)
                      ? ConvolutionLayer::computes_parts(
                            library, type, node, plan.channels[static_cast<std::size_t>(node.inputs[0])])
                      : any_part(node.op));
  }
  return can;
}

FeatureLayout lay_out(const RunPlan& plan, const CallShape& call) {
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
  std::int64_t scores = 0;   // bytes of a channel attention's
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
    // Mean and deviation of each pixel.
    if (step.node.op == Op::layer_norm || step.node.op == Op::scale_norm)
      for (int k = 0; k < 2; ++k)
        beside(elements(step) / step.node.channels * std::max<std::int64_t>(element, 4));
    if (step.node.op == Op::window_attention)
      beside(WindowAttention::scratch_elements(step.node, call.height >> step.node.level,
                                               call.width >> step.node.level,
                                               call.library == ConvolutionLibrary::cudnn) *
             element);
    if (step.node.op == Op::channel_attention) {
      scores = std::max(scores, 8 * ChannelAttention::numbers(step.node));
      beside(ChannelAttention::scratch_bytes(step.node, call.height >> step.node.level,
                                             call.width >> step.node.level, call.type,
                                             call.library == ConvolutionLibrary::cudnn));
    }
    if (level_change(step.node.op) == 0) continue;
    // Such a layer sees and makes blocks; their margins go and come in copies.
    const int level = step.node.level, from = level - level_change(step.node.op);
    const std::int64_t made = call.items * step.node.channels * block_pixels(call, level);
    if (pixels(call, from) != block_pixels(call, from))
      beside(call.items * plan.channels[static_cast<std::size_t>(step.node.inputs[0])] *
                 block_pixels(call, from) * element,
             &layout.copies[k]);
    if (pixels(call, level) != block_pixels(call, level)) beside(made * element);
    // Positions of the maxima, 8 bytes each, unasked.
    if (step.node.op == Op::max_pool) beside(made * 8);
    // The result a second time, inputs that fill no registers too, and something for each thread.
    if (step.node.op == Op::conv_up &&
        ConvolutionLayer::writes_twice(call.library, call.type, step.node.channels)) {
      const std::int64_t in = plan.channels[static_cast<std::size_t>(step.node.inputs[0])];
      const std::int64_t copied = in % kLanes == 0 ? 0 : call.items * in * block_pixels(call, from);
      beside((made + copied) * element + (element < 4 ? kBesideUp16 : kBesideUp) * at::get_num_threads());
    }
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

std::int64_t call_bytes(const RunPlan& plan, const CallShape& call, bool on_cuda) {
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
