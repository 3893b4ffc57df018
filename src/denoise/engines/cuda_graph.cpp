// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/cuda_graph.hpp"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>  // graph_pool_handle()
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "engines/features.hpp"
#include "tessera/comm/recorded_work.hpp"

namespace tessera {

namespace {

/// A recorded pass, and its share of the memory pool that its kernels' tensors lie in: those of every stream
/// that takes part.
///
/// at::cuda::CUDAGraph leaves the allocator and the random generator in capture when capture_end() throws
/// (torch 2.11): no later capture begins, and memory is not freed any more. Here whatever was begun ends.
/// Passes draw no random numbers, so no generator is concerned.
class Graph {
 public:
  Graph(const c10::cuda::CUDAStream& stream, c10::MempoolId_t pool, const std::function<void()>& work)
      : index_(stream.device_index()), pool_(pool) {
    namespace allocator = c10::cuda::CUDACachingAllocator;
    const cudaStream_t origin = stream.stream();
    allocator::beginAllocateToPool(index_, pool_, [origin](cudaStream_t s) {
      const std::uint64_t here = recording_of(origin);
      return here != 0 && recording_of(s) == here;
    });
    try {
      work_.emplace(origin, work);
    } catch (...) {
      allocator::endAllocateToPool(index_, pool_);
      allocator::releasePool(index_, pool_);
      throw;
    }
    allocator::endAllocateToPool(index_, pool_);
  }
  ~Graph() {
    work_.reset();
    c10::cuda::CUDACachingAllocator::releasePool(index_, pool_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay(const c10::cuda::CUDAStream& stream) const { work_->launch(stream.stream()); }

 private:
  c10::DeviceIndex index_;
  c10::MempoolId_t pool_;
  std::optional<RecordedWork> work_;
};

}  // namespace

struct GraphedPasses::Impl {
  /// What is known of a shape.
  struct Captured {
    bool hopeless = false;         // its capture failed
    std::unique_ptr<Graph> graph;  // null: not captured yet
    at::Tensor x, result;          // the graph reads and writes these
  };
  using Shape = std::tuple<std::vector<std::int64_t>, at::ScalarType, const void*>;

  Device device;
  at::TensorOptions options;
  std::size_t most;
  std::map<Shape, Captured> shapes;
  at::Tensor level;  // what all graphs read
  std::optional<c10::MempoolId_t> pool;
  std::optional<c10::cuda::CUDAStream> side;
  std::string complaint;

  at::Tensor plain(const at::Tensor& x, double sigma, const Pass& pass) const {
    return pass(x, at::full({1, 1, 1, 1}, sigma, options));
  }

  void capture(Captured& c, const at::Tensor& x, const Pass& pass, const Agree& agree) {
    const auto index = static_cast<c10::DeviceIndex>(device.index);
    if (!pool) pool = at::cuda::graph_pool_handle();
    if (!side) side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index);
    // The features of the first call, which ran without a graph: the pool holds the same once more.
    c10::cuda::CUDACachingAllocator::emptyCache();
    c.x = at::empty_like(x, channels_last(x.dim() == 5 ? Axes::volume : Axes::picture));
    // The default stream cannot be captured. What it has to do before comes first.
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(index);
    at::cuda::CUDAEvent before;
    before.record(current);
    before.block(*side);
    try {
      const c10::cuda::CUDAStreamGuard guard(*side);
      c.graph = std::make_unique<Graph>(*side, *pool, [&] { c.result = pass(c.x, level); });
    } catch (const std::exception& e) {
      complaint = e.what();
      complaint.resize(std::min(complaint.size(), complaint.find('\n')));
      c = Captured{.hopeless = true, .graph = nullptr, .x = {}, .result = {}};
    }
    if (agree && !agree(c.graph != nullptr) && c.graph) {
      complaint = "on another rank";
      c = Captured{.hopeless = true, .graph = nullptr, .x = {}, .result = {}};
    }
    at::cuda::CUDAEvent after;
    after.record(*side);
    after.block(current);
  }
};

GraphedPasses::GraphedPasses(Device device, at::TensorOptions level, std::size_t most)
    : impl_(std::make_unique<Impl>()) {
  impl_->device = device;
  impl_->options = level;
  impl_->most = most;
}
GraphedPasses::~GraphedPasses() = default;

at::Tensor GraphedPasses::run(const at::Tensor& x, double sigma, const Pass& pass, const Agree& agree,
                              const void* kind) {
  Impl& m = *impl_;
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(m.device.index));
  const Impl::Shape shape{x.sizes().vec(), x.scalar_type(), kind};
  const auto [it, fresh] = m.shapes.try_emplace(shape);
  Impl::Captured& c = it->second;
  if (fresh && m.shapes.size() > m.most) c.hopeless = true;
  if (c.hopeless) return m.plain(x, sigma, pass);
  // As the graph will read it: what an exchange prepares for its strides is there then.
  if (fresh)
    return m.plain(at::empty_like(x, channels_last(x.dim() == 5 ? Axes::volume : Axes::picture)).copy_(x),
                   sigma, pass);
  if (!m.level.defined()) m.level = at::empty({1, 1, 1, 1}, m.options);
  if (!c.graph) {
    m.capture(c, x, pass, agree);
    if (c.hopeless) return m.plain(x, sigma, pass);
  }
  c.x.copy_(x);
  m.level.fill_(sigma);
  c.graph->replay(c10::cuda::getCurrentCUDAStream(guard.current_device().index()));
  return c.result.clone();  // the next replay writes there
}

std::size_t GraphedPasses::shapes() const { return impl_->shapes.size(); }
std::size_t GraphedPasses::captured() const {
  std::size_t n = 0;
  for (const auto& [shape, c] : impl_->shapes) n += c.graph != nullptr;
  return n;
}
const std::string& GraphedPasses::complaint() const { return impl_->complaint; }

}  // namespace tessera
