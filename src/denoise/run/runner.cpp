// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/runner.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engines/convolution.hpp"
#include "engines/features.hpp"
#include "layers/layer_halos.hpp"
#include "run/feature_layout.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/cuda_graph.hpp"
#include "tessera/denoise/layer_step.hpp"
#include "tessera/domain/precision.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/domain/torch_cuda.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLeastScratch = std::int64_t{1} << 12;  // bytes; below, malloc is as good

// The view of a feature that has the part `have` of its level.
at::Tensor cut(const at::Tensor& feature, const Box& have, const Box& wanted) {
  if (wanted == have) return feature;
  return narrowed(feature, have, wanted);
}

}  // namespace

struct Runner::Impl {
  RunnerOptions options;
  at::TensorOptions tensor;
  ConvolutionLibrary library;
  Index3 alignment{1, 1, 1};
  PassPlan plan;
  std::vector<std::unique_ptr<LayerStep>> steps;  // of the plan, as the next
  std::vector<bool> in_parts;                     // whether it can compute a part of its result alone
  std::vector<std::int64_t> sizes;                // of the last x
  std::optional<Box> core;                        // what was wanted of it
  const LayerHalos* halos = nullptr;              // between the blocks of which it was
  std::vector<Box> parts;                         // by slot, what is computed then; empty: all of it
  FeatureLayout layout;                           // for x of these sizes
  Arena arena;                                    // host only; a device's allocator keeps by itself
  std::set<std::vector<std::int64_t>> tried;      // shapes for which cuDNN may try its kernels out
  std::optional<GraphedPasses> graphs;            // on a device; made last, since graphs hold what is above
  std::map<const LayerHalos*, int> empty_calls;   // with nothing to do here, but exchanges of the others

  Impl(const Network& network, const RunnerOptions& o) : options(o) {
    use_ieee_products();
    TESSERA_VALIDATE(!o.tf32 || o.device.is_cuda(),
                     "precision tf32 on a CPU (its float32 products are never rounded) write float32, or run "
                     "on a GPU");
    const c10::Device device = o.device.is_cuda()
                                   ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(o.device.index))
                                   : c10::Device(c10::kCPU);
    tensor = at::TensorOptions().dtype(o.type).device(device);
    const at::NoGradGuard no_grad;
    const MemoryScope scope(MemoryUse::weights);
    Network exact = network;  // folded in the type of the arithmetic where that is finer than the weights
    if (o.type == at::kDouble)
      for (auto& [key, weight] : exact.weights)
        if (weight.is_floating_point()) weight = weight.to(at::kDouble);
    const Network folded = fold_batch_norm(exact);
    alignment = folded.alignment();
    library = library_for(folded.graph, o.type, o.device.is_cuda(), o.fused);
    if (o.device.is_cuda() && o.graphs) graphs.emplace(o.device, tensor);
    const bool picture = folded.graph.axes() == Axes::picture;
    plan = make_pass_plan(folded.graph, fuses_add(library) || (o.device_form && picture));
    in_parts = tessera::in_parts(plan, o.type, library);
    const StepSettings settings{tensor, library, o.device_form, o.turned,
                                [&](const std::string& name) { return folded.weights.at(name); }};
    for (const Step& step : plan.steps) steps.push_back(layer_of(step.node.op).prepare(step.node, settings));
  }

  // Of a slot, what a step takes where parts are computed: views.
  at::Tensor part(const std::vector<at::Tensor>& slot, int k, const Box& wanted) const {
    return cut(slot[static_cast<std::size_t>(k)], parts[static_cast<std::size_t>(k)], wanted);
  }
  // Of x, or of any features of this network: pixels of the image.
  Index3 window(at::IntArrayRef x) const {
    return {plan.axes == Axes::volume ? x[2] : 1, x[x.size() - 2], x.back()};
  }
  Box level_part(int level) const { return at_level(Box({0, 0, 0}, window(sizes)), level, plan.axes); }
  at::Tensor input(const Step& step, std::size_t k, const std::vector<at::Tensor>& slot) const {
    const int from = step.node.inputs[k];
    if (parts.empty()) return slot[static_cast<std::size_t>(from)];
    const Box& out = parts[static_cast<std::size_t>(step.out)];
    return part(slot, from,
                step.node.reads(out).intersect(level_part(step.node.level - level_change(step.node.op))));
  }
  at::Tensor other(const Step& step, const std::vector<at::Tensor>& slot) const {
    if (step.other < 0) return {};
    return parts.empty() ? slot[static_cast<std::size_t>(step.other)]
                         : part(slot, step.other, parts[static_cast<std::size_t>(step.out)]);
  }

  at::Tensor evaluate(std::size_t index, const std::vector<at::Tensor>& slot, std::int64_t items,
                      const NoiseLevel& level, LayerHalos* halos) {
    const Step& step = plan.steps[index];
    std::vector<at::Tensor> in;
    for (std::size_t k = 0; k < step.node.inputs.size(); ++k) in.push_back(input(step, k, slot));
    return steps[index]->run(
        {step, index, std::move(in), other(step, slot),
         parts.empty() ? level_part(step.node.level) : parts[static_cast<std::size_t>(step.out)],
         !parts.empty() && in_parts[index], items, level, halos, [this, index] { place_result(index); }});
  }

  // cuDNN tries its kernels out at the first call with a shape and keeps the fastest: worth it for the few
  // shapes of a run's windows, not for many.
  void choose_kernels(at::IntArrayRef x) {
    if (!options.device.is_cuda()) return;
    constexpr std::size_t kShapes = 32;
    if (tried.size() < kShapes) tried.insert(x.vec());
    at::globalContext().setBenchmarkCuDNN(!options.deterministic && tried.count(x.vec()) > 0);
    at::globalContext().setDeterministicCuDNN(options.deterministic);
  }
  CallShape call(std::int64_t items, const Index3& pixels) const {
    return {items, pixels, options.type, library, {}, {}};
  }
  // What is computed where a part is wanted.
  void divide() {
    parts.clear();
    const auto some = [&](const Step& step) {
      return is_convolution(step.node.op) && in_parts[static_cast<std::size_t>(&step - plan.steps.data())];
    };
    if (core && std::any_of(plan.steps.begin(), plan.steps.end(), some))
      parts = computed_parts(plan, level_part(0), *core, in_parts);
  }
  // Of the last step's result.
  at::Tensor wanted(const at::Tensor& result) const {
    if (!core) return result;
    const Box have = parts.empty() ? level_part(0) : parts[static_cast<std::size_t>(plan.output)];
    return cut(result, have, *core);
  }
  // All steps, from x to a result of x's type.
  at::Tensor pass(const at::Tensor& x, const NoiseLevel& level, const std::function<void()>& between,
                  LayerHalos* halos) {
    place(layout.image, layout.image.bytes);
    const at::MemoryFormat last = channels_last(plan.axes);
    const bool fits = !plan.converts || (x.scalar_type() == options.type && x.is_contiguous(last));
    at::Tensor image = fits ? x : at::empty(x.sizes(), tensor.memory_format(last)).copy_(x);
    forget_places();
    std::vector<at::Tensor> slot(static_cast<std::size_t>(plan.output) + 1);
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      place_step(s);
      const Step& step = plan.steps[s];
      slot[step.out] =
          step.node.op == Op::input ? std::exchange(image, {}) : evaluate(s, slot, x.size(0), level, halos);
      forget_places();
      for (const int done : step.released) slot[done].reset();
      beat();
      if (between) between();
    }
    return slot[plan.output].to(x.scalar_type());
  }

  // Before step s: its result, and what the library makes on the way.
  void place(const FeatureLayout::Piece& piece, std::int64_t least) {
    if (piece.bytes > 0 && arena.bytes() > 0)
      arena.place_next(piece.offset, std::min(least, piece.bytes), piece.bytes);
  }
  void place_step(std::size_t s) {
    if (layout.copies[s].bytes > 0)
      place(layout.copies[s], layout.copies[s].bytes);
    else
      place_result(s);
  }
  void place_result(std::size_t s) {
    place(layout.results[s], layout.results[s].bytes);
    for (const FeatureLayout::Piece& piece : layout.scratch[s]) place(piece, kLeastScratch);
    for (const FeatureLayout::Piece& piece : layout.inside) place(piece, kLeastScratch);
  }
};

Runner::Runner(const Network& network, const RunnerOptions& options)
    : impl_(std::make_unique<Impl>(network, options)) {}
Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() {
  if (impl_) release_kept_tensors();
}

at::Tensor Runner::run(const at::Tensor& x, double sigma, const std::function<void()>& between,
                       LayerHalos* halos, const std::optional<Box>& core) {
  Impl& m = *impl_;
  const auto aligned = [&] {
    const Index3 sides = m.window(x.sizes());
    return sides[0] % m.alignment[0] == 0 && sides[1] % m.alignment[1] == 0 && sides[2] % m.alignment[2] == 0;
  };
  TESSERA_EXPECT(x.dim() == (m.plan.axes == Axes::volume ? 5 : 4) && (halos || aligned()),
                 "a window of sizes ", x.sizes(), " (sides must be multiples of ", longest(m.alignment),
                 ") cut it on the alignment");
  if (x.numel() == 0) {
    if (halos) halos->skip();
    // The others record their second pass and ask for everybody's consent.
    if (halos && m.graphs && halos->recordable() && ++m.empty_calls[halos] == 2) halos->everywhere(true);
    return at::empty(x.sizes(), x.options());
  }
  const at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryUse::activations);
  const Tf32Scope tf32(m.options.tf32);
  m.choose_kernels(x.sizes());
  if (x.sizes() != at::IntArrayRef(m.sizes) || core != m.core || halos != m.halos) {
    release_kept_tensors();  // else buffers of every shape pile up
    m.sizes = x.sizes().vec();
    m.core = core;
    m.halos = halos;
    m.divide();
    CallShape call = halos ? block_call(m.plan, halos->boxes(), m.options.type, m.library)
                           : m.call(x.size(0), m.window(x.sizes()));
    call.parts = m.parts;
    m.layout = lay_out(m.plan, call);
    const std::int64_t wanted = m.options.device.is_cuda() ? 0 : m.layout.bytes;
    if (!m.options.in_turn || wanted > m.arena.bytes()) m.arena.resize(wanted);
  }
  const ReuseScope pool;

  if (!m.graphs || (halos && !halos->recordable()))
    return m.wanted(m.pass(x, {.sigma = sigma}, between, halos));
  // Messages move before and after a replay: it takes the host no longer than a layer.
  if (between) between();
  bool replayed = true;
  const auto pass = [&](const at::Tensor& in, const at::Tensor& level) {
    replayed = false;
    return m.pass(in, {.tensor = level}, {}, halos);
  };
  GraphedPasses::Agree agree;
  if (halos) agree = [&](bool here) { return halos->everywhere(here); };
  const at::Tensor out = m.graphs->run(x, sigma, pass, agree, halos);
  if (halos && replayed) halos->count_pass();
  if (between) between();
  return m.wanted(out);
}

std::int64_t Runner::bytes(std::int64_t items, const Index3& window) const {
  return call_bytes(impl_->plan, impl_->call(items, window), impl_->options.device.is_cuda());
}
const PassPlan& Runner::plan() const { return impl_->plan; }
std::size_t Runner::graphs() const { return impl_->graphs ? impl_->graphs->captured() : 0; }
void Runner::release() {
  Impl& m = *impl_;
  if (m.graphs) m.graphs.emplace(m.options.device, m.tensor);
  m.sizes.clear();
  m.arena.resize(0);
  release_kept_tensors();
  if (m.options.device.is_cuda()) release_device_memory();
}
bool Runner::fused() const { return impl_->library != ConvolutionLibrary::plain; }

}  // namespace tessera
