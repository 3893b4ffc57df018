// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_graph.hpp"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tessera {

struct GraphedPasses::Impl {
  /// What is known of a shape.
  struct Captured {
    bool hopeless = false;                       // its capture failed
    std::unique_ptr<at::cuda::CUDAGraph> graph;  // null: not captured yet
    at::Tensor x, result;                        // the graph reads and writes these
  };
  using Shape = std::pair<std::vector<std::int64_t>, at::ScalarType>;

  Device device;
  at::TensorOptions options;
  std::size_t most;
  std::map<Shape, Captured> shapes;
  at::Tensor level;  // what all graphs read
  std::optional<at::cuda::MempoolId_t> pool;
  std::optional<c10::cuda::CUDAStream> side;
  std::string complaint;

  at::Tensor plain(const at::Tensor& x, double sigma, const Pass& pass) const {
    return pass(x, at::full({1, 1, 1, 1}, sigma, options));
  }

  void capture(Captured& c, const at::Tensor& x, const Pass& pass) {
    const auto index = static_cast<c10::DeviceIndex>(device.index);
    if (!pool) pool = at::cuda::graph_pool_handle();
    if (!side) side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index);
    c.x = at::empty_like(x, at::MemoryFormat::ChannelsLast);
    c.graph = std::make_unique<at::cuda::CUDAGraph>();
    // The default stream cannot be captured. What it has to do before comes first.
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(index);
    at::cuda::CUDAEvent before;
    before.record(current);
    before.block(*side);
    {
      const c10::cuda::CUDAStreamGuard guard(*side);
      bool begun = false;
      try {
        // Other threads (NCCL's, the watchdog's) may call CUDA meanwhile.
        c.graph->capture_begin(*pool, cudaStreamCaptureModeThreadLocal);
        begun = true;
        c.result = pass(c.x, level);
        begun = false;
        c.graph->capture_end();
      } catch (const std::exception& e) {
        complaint = e.what();
        complaint.resize(std::min(complaint.size(), complaint.find('\n')));
        if (begun) try {  // gives the memory pool back
            c.graph->capture_end();
          } catch (const std::exception&) {  // of a capture that is broken, as known
          }
        cudaGetLastError();
        c = Captured{.hopeless = true, .graph = nullptr, .x = {}, .result = {}};
      }
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

at::Tensor GraphedPasses::run(const at::Tensor& x, double sigma, const Pass& pass) {
  Impl& m = *impl_;
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(m.device.index));
  const Impl::Shape shape{x.sizes().vec(), x.scalar_type()};
  const auto [it, fresh] = m.shapes.try_emplace(shape);
  Impl::Captured& c = it->second;
  if (fresh && m.shapes.size() > m.most) c.hopeless = true;
  if (fresh || c.hopeless) return m.plain(x, sigma, pass);
  if (!m.level.defined()) m.level = at::empty({1, 1, 1, 1}, m.options);
  if (!c.graph) {
    m.capture(c, x, pass);
    if (c.hopeless) return m.plain(x, sigma, pass);
  }
  c.x.copy_(x);
  m.level.fill_(sigma);
  c.graph->replay();
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
