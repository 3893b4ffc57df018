// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "device.hpp"
#include "pack_body.hpp"

namespace tessera::pack {
namespace {

template <class T>
__global__ void run_cells(Mode mode, const Cell* cells, std::int64_t count, const Term* terms,
                          std::int64_t elements, T* to, const T* from) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += threads) {
    std::int64_t first = 0, last = count - 1;  // the last cell that begins at or before element i
    while (first < last) {
      const std::int64_t middle = (first + last + 1) / 2;
      if (cells[middle].before <= i)
        first = middle;
      else
        last = middle - 1;
    }
    const Cell& cell = cells[first];
    std::int64_t rest = i - cell.before;
    // Neighbors in a warp take neighbors in memory: channels where they lie side by side, else columns.
    const bool channels_inside = cell.stride[0] == 1;
    std::int64_t c = 0;
    if (channels_inside) {
      c = rest % cell.extent[0];
      rest /= cell.extent[0];
    }
    const std::int64_t w = rest % cell.extent[3];
    rest /= cell.extent[3];
    const std::int64_t h = rest % cell.extent[2];
    rest /= cell.extent[2];
    if (!channels_inside) c = rest / cell.extent[1];
    put(mode, cell, terms + cell.first_term, to, from, c, rest % cell.extent[1], h, w);
  }
}

template <class T>
T* upload(const std::vector<T>& values) {
  if (values.empty()) return nullptr;
  void* memory = nullptr;
  TESSERA_CUDA(cudaMalloc(&memory, values.size() * sizeof(T)));
  TESSERA_CUDA(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<T*>(memory);
}

}  // namespace

DeviceProgram::DeviceProgram(const Program& program, Device device)
    : mode_(program.mode),
      cells_(static_cast<std::int64_t>(program.cells.size())),
      elements_(program.elements),
      device_(device) {
  const DeviceGuard guard(device);
  device_cells_ = upload(program.cells);
  device_terms_ = upload(program.terms);
}

DeviceProgram::~DeviceProgram() {
  cudaFree(device_cells_);  // waits for kernels that still read it
  cudaFree(device_terms_);
}

void DeviceProgram::run(ElementType type, void* to, const void* from, void* stream) const {
  if (elements_ == 0) return;
  const DeviceGuard guard(device_);
  constexpr int kThreads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>((elements_ + kThreads - 1) / kThreads, 65535));
  with_type(type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    run_cells<T><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        mode_, device_cells_, cells_, device_terms_, elements_, static_cast<T*>(to),
        static_cast<const T*>(from));
  });
  TESSERA_CUDA(cudaGetLastError());
}

}  // namespace tessera::pack
