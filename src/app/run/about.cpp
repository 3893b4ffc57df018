// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/about.hpp"

#include <ATen/Parallel.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <mpi.h>
#include <nccl.h>
#include <torch/version.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tessera/core/units.hpp"

namespace tessera {
namespace {

std::string cuda_text(int v) { return v > 0 ? fmt::format("{}.{}", v / 1000, v % 1000 / 10) : "none"; }

// The first line of /proc/cpuinfo that begins with `key`, without it; empty where there is none.
std::string cpu_line(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key, 0) == 0) {
      const std::size_t colon = line.find(": ");
      return colon == std::string::npos ? "" : line.substr(colon + 2);
    }
  return {};
}

}  // namespace

std::string nccl_version() {
  int v = 0;
  if (ncclGetVersion(&v) != ncclSuccess) return "not working";
  if (v == 0) return "none";
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find(','));
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::string cuda_runtime_version() {
  int v = 0;
  return cudaRuntimeGetVersion(&v) == cudaSuccess ? cuda_text(v) : "none";
}

std::string cuda_driver_version() {
  int v = 0;
  return cudaDriverGetVersion(&v) == cudaSuccess ? cuda_text(v) : "none";
}

std::string cpu_features() {
  std::string out;
  const auto add = [&](bool has, const char* name) {
    if (has) out += (out.empty() ? "" : " ") + std::string(name);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("avx512f"), "avx512");
  add(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
  add(cpu_line("flags").find(" amx_bf16") != std::string::npos,
      "amx_bf16");  // this compiler's builtin does not know AMX
  return out.empty() ? "none of avx2, avx512, amx" : out;
}

std::string processor_name() {
  const std::string model = cpu_line("model name");
  return model.empty() ? "processor of unknown name" : model;
}

std::string about_libraries() {
  return fmt::format("torch {}, {}, HDF5 {}, CUDA {}, driver {}, NCCL {}", TORCH_VERSION, mpi_version(),
                     hdf5_version(), cuda_runtime_version(), cuda_driver_version(), nccl_version());
}

std::string about_machine(Device device) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  std::string text = fmt::format("{}, {} cores, {} threads per rank, {}; {}", processor_name(),
                                 std::thread::hardware_concurrency(), at::get_num_threads(), cpu_features(),
                                 format_bytes(memory));
  cudaDeviceProp p{};
  if (device.is_cuda() && cudaGetDeviceProperties(&p, device.index) == cudaSuccess)
    text += fmt::format("; {}, {}, compute {}.{}", p.name,
                        format_bytes(static_cast<double>(p.totalGlobalMem)), p.major, p.minor);
  return text;
}

}  // namespace tessera
