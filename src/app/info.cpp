// SPDX-License-Identifier: BSD-3-Clause
// tessera info: what this build and this machine are.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <mpi.h>
#include <nccl.h>
#include <torch/version.h>

#include <cstdio>
#include <thread>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "tessera/app/commands.hpp"
#include "tessera/core/version.hpp"

namespace tessera {
namespace {

std::string nccl_version() {
  int v = 0;
  if (ncclGetVersion(&v) != ncclSuccess) return "not working";
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find(','));
}

std::string cuda_aware() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return mpi_running() ? (MPIX_Query_cuda_support() ? "yes" : "no")
                       : (MPIX_CUDA_AWARE_SUPPORT ? "yes" : "no");
#else
  return "unknown";
#endif
}

std::string cpu_features() {
  std::string out;
  const auto add = [&](bool has, const char* name) {
    if (has) out += (out.empty() ? "" : " ") + std::string(name);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("avx512f"), "avx512");
  add(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
  std::FILE* f = std::fopen("/proc/cpuinfo", "r");  // this compiler's builtin does not know AMX
  char line[8192];
  while (f && std::fgets(line, sizeof line, f))
    if (std::string(line).find(" amx_bf16") != std::string::npos) {
      add(true, "amx_bf16");
      break;
    }
  if (f) std::fclose(f);
  return out.empty() ? "none of avx2, avx512, amx" : out;
}

}  // namespace

int info_command(const Communicator& comm) {
  const int here = comm.local_size();  // collective
  if (comm.rank() != 0) return 0;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  int runtime = 0, driver = 0, devices = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  const auto cuda = [](int v) {
    return v > 0 ? fmt::format("{}.{}", v / 1000, v % 1000 / 10) : std::string("none");
  };
  std::printf("tessera     %s (%s)\n", version(), commit());
  std::printf("torch       %s\n", TORCH_VERSION);
  std::printf("CUDA        %s, driver %s\n", cuda(runtime).c_str(), cuda(driver).c_str());
  std::printf("NCCL        %s\n", nccl_version().c_str());
  std::printf("MPI         %s, CUDA-aware: %s\n", mpi_version().c_str(), cuda_aware().c_str());
  std::printf("HDF5        %u.%u.%u, parallel\n", major, minor, release);
  std::printf("CPU         %u cores, %d threads per rank, %s\n", std::thread::hardware_concurrency(),
              at::get_num_threads(), cpu_features().c_str());
  std::printf("ranks       %d, %d on this host\n", comm.size(), here);
  if (devices == 0) std::printf("GPU         none visible\n");
  for (int d = 0; d < devices; ++d) {
    cudaDeviceProp p{};
    if (cudaGetDeviceProperties(&p, d) == cudaSuccess)
      std::printf("GPU %d       %s, %.0f GiB, compute %d.%d\n", d, p.name,
                  static_cast<double>(p.totalGlobalMem) / 0x1p30, p.major, p.minor);
  }
  return 0;
}

}  // namespace tessera
