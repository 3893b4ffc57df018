// SPDX-License-Identifier: BSD-3-Clause
#include <type_traits>

#include "device.hpp"
#include "pack_body.hpp"

namespace tessera::pack {
namespace {

constexpr unsigned kThreads = 256;

/// One block per share: nothing is searched, index arithmetic is 32 bits wide but for the addresses.
template <class T>
__global__ void run_shares(Mode mode, const DeviceCell* cells, const Term* terms, const Share* shares, T* to,
                           const T* from) {
  run_share(mode, cells, terms, shares[blockIdx.x], to, from, threadIdx.x, kThreads);
}

template <class T>
Buffer upload(const std::vector<T>& values, Device device) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  Buffer memory(Buffer::Kind::device, device, bytes);
  if (bytes > 0)
    TESSERA_CUDA(
        cudaMemcpy(memory.data(), values.data(), static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice));
  return memory;
}

}  // namespace

struct DeviceProgram::Table {
  Mode mode;
  std::int64_t unit;
  unsigned blocks;
  Buffer cells, terms, shares;

  Table(const Shares& s, Device device)
      : mode(s.mode),
        unit(s.unit),
        blocks(static_cast<unsigned>(s.shares.size())),
        cells(upload(s.cells, device)),
        terms(upload(s.terms, device)),
        shares(upload(s.shares, device)) {}

  template <class T>
  void launch(void* to, const void* from, cudaStream_t stream) const {
    run_shares<T><<<blocks, kThreads, 0, stream>>>(
        mode, reinterpret_cast<const DeviceCell*>(cells.data()), reinterpret_cast<const Term*>(terms.data()),
        reinterpret_cast<const Share*>(shares.data()), static_cast<T*>(to), static_cast<const T*>(from));
  }
};

DeviceProgram::DeviceProgram(const Program& program, ElementType type, Device device)
    : type_(type), device_(device), copies_(only_copies(program)) {
  if (program.empty()) return;
  const DeviceGuard guard(device);
  const std::int64_t element = element_bytes(type), unit = largest_unit(program, element);
  elements_ = std::make_unique<Table>(cut_into_shares(program, element, element), device);
  if (unit > element) vectors_ = std::make_unique<Table>(cut_into_shares(program, element, unit), device);
  // A copy from pageable memory may return before its bytes are on the device, and streams that do not wait
  // for the default one would read what was there before.
  TESSERA_CUDA(cudaStreamSynchronize(nullptr));
}
DeviceProgram::~DeviceProgram() = default;  // cudaFree waits for kernels that still read the tables

void DeviceProgram::run(void* to, const void* from, void* stream) const {
  if (!elements_) return;
  const DeviceGuard guard(device_);
  const auto aligned = [&](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(vectors_->unit) == 0;
  };
  const Table& table = vectors_ && aligned(to) && aligned(from) ? *vectors_ : *elements_;
  const auto launch = [&](auto* tag) {
    table.launch<std::remove_pointer_t<decltype(tag)>>(to, from, static_cast<cudaStream_t>(stream));
  };
  if (copies_)
    with_unit(table.unit, launch);
  else
    with_type(type_, launch);
  TESSERA_CUDA(cudaGetLastError());
}

}  // namespace tessera::pack
