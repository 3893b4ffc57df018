// SPDX-License-Identifier: BSD-3-Clause
// In the place of pack_device.cu and transport_nccl.cpp, where tessera is built for processors alone. There are no
// arrays on a GPU, so none of this is ever called.
#include "pack.hpp"
#include "tessera/core/error.hpp"
#include "transport.hpp"

namespace tessera {
namespace {

[[noreturn]] void absent() {
  throw RunError("a GPU was used by a program without CUDA (a mistake of tessera) build with TESSERA_CUDA");
}

}  // namespace

namespace pack {

struct DeviceProgram::Table {};
DeviceProgram::DeviceProgram(const Program&, ElementType type, Device device) : type_(type), device_(device) {
  absent();
}
DeviceProgram::~DeviceProgram() = default;
void DeviceProgram::run(void*, const void*, void*) const { absent(); }

}  // namespace pack

std::shared_ptr<Transport> make_nccl_transport(const Communicator&, Device, double) { absent(); }

}  // namespace tessera
