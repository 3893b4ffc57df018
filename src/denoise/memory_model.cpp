// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/memory_model.hpp"

#include "convolution.hpp"
#include "feature_layout.hpp"
#include "run_plan.hpp"

namespace tessera {

struct MemoryModel::Impl {
  RunPlan plan;
  at::ScalarType type;
  ConvolutionLibrary library;
  bool on_cuda;

  CallShape call(std::int64_t items, std::int64_t height, std::int64_t width) const {
    return {items, height, width, type, library};
  }
};

MemoryModel::MemoryModel(const Network& network, at::ScalarType type, bool fused, Device device)
    : impl_(std::make_unique<Impl>()) {
  impl_->type = type;
  impl_->on_cuda = device.is_cuda();
  impl_->library = probe_convolutions(type, device.is_cuda(), fused);
  impl_->plan = make_run_plan(fold_batch_norm(network).graph, impl_->library == ConvolutionLibrary::onednn);
}
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel::~MemoryModel() = default;

std::int64_t MemoryModel::bytes(std::int64_t items, std::int64_t height, std::int64_t width) const {
  return call_bytes(impl_->plan, impl_->call(items, height, width), impl_->on_cuda);
}
std::int64_t MemoryModel::least_bytes(std::int64_t items, std::int64_t height, std::int64_t width) const {
  return lay_out(impl_->plan, impl_->call(items, height, width)).least;
}

}  // namespace tessera
