// SPDX-License-Identifier: BSD-3-Clause
// In the place of what stands on torch's CUDA libraries, for the program that is linked without them. It has
// no tensors on a GPU, so none of this is ever called.
#include <optional>

#include "engines/cudnn_graph.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/cuda_graph.hpp"
#include "tessera/denoise/side_stream.hpp"

namespace tessera {
namespace {

[[noreturn]] void absent() {
  throw RunError("a GPU was used by a program without CUDA (a mistake of tessera) run tessera-cuda");
}

}  // namespace

struct SideStream::Impl {};
SideStream::SideStream(Device) { absent(); }
SideStream::~SideStream() = default;
void SideStream::fork() { absent(); }
void SideStream::join() { absent(); }
void* SideStream::handle() const { absent(); }
struct SideStream::Scope::Impl {};
SideStream::Scope::Scope(SideStream&) { absent(); }
SideStream::Scope::~Scope() = default;

struct GraphedPasses::Impl {};
GraphedPasses::GraphedPasses(Device, at::TensorOptions, std::size_t) { absent(); }
GraphedPasses::~GraphedPasses() = default;
at::Tensor GraphedPasses::run(const at::Tensor&, double, const Pass&, const Agree&, const void*) { absent(); }
std::size_t GraphedPasses::shapes() const { absent(); }
std::size_t GraphedPasses::captured() const { absent(); }
const std::string& GraphedPasses::complaint() const { absent(); }

CudnnDevice CudnnDevice::current() { absent(); }
CudnnDevice CudnnDevice::described(const std::string&) { absent(); }
std::vector<CudnnEngine> cudnn_engines(ConvolutionProblem&, const CudnnDevice&) { absent(); }
std::optional<at::Tensor> cudnn_convolve(const ConvolutionProblem&, const at::Tensor&, const at::Tensor&,
                                         const at::Tensor&, const at::Tensor&) {
  absent();
}

}  // namespace tessera
