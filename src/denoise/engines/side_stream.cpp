// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/side_stream.hpp"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace tessera {

struct SideStream::Impl {
  c10::DeviceIndex index;
  c10::cuda::CUDAStream stream;
  at::cuda::CUDAEvent forked, done;

  explicit Impl(Device device)
      : index(static_cast<c10::DeviceIndex>(device.index)),
        stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index)) {}
};

SideStream::SideStream(Device device) : impl_(std::make_unique<Impl>(device)) {}
SideStream::~SideStream() = default;

void SideStream::fork() {
  impl_->forked.record(c10::cuda::getCurrentCUDAStream(impl_->index));
  impl_->forked.block(impl_->stream);
}

void SideStream::join() {
  impl_->done.record(impl_->stream);
  impl_->done.block(c10::cuda::getCurrentCUDAStream(impl_->index));
}

void* SideStream::handle() const { return impl_->stream.stream(); }

struct SideStream::Scope::Impl {
  explicit Impl(const c10::cuda::CUDAStream& stream) : guard(stream) {}
  c10::cuda::CUDAStreamGuard guard;
};
SideStream::Scope::Scope(SideStream& side) : impl_(std::make_unique<Impl>(side.impl_->stream)) {}
SideStream::Scope::~Scope() = default;

}  // namespace tessera
