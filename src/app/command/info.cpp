// SPDX-License-Identifier: BSD-3-Clause
// tessera info: what is in a file, or what this build and this machine are.
#include <ATen/Parallel.h>
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <torch/version.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "command/command.hpp"
#include "command/info_file.hpp"
#include "tessera/app/about.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/version.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

std::string cuda_aware() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return mpi_running() ? (MPIX_Query_cuda_support() ? "yes" : "no")
                       : (MPIX_CUDA_AWARE_SUPPORT ? "yes" : "no");
#else
  return "unknown";
#endif
}

struct InfoArguments {
  std::string file, picture = "auto", table;
};

int execute(const Communicator& comm) {
  const int here = comm.local_size();  // collective
  if (comm.rank() != 0) return 0;
  const auto [devices, trouble] = count_gpus();
  std::printf("tessera     %s (%s)\n", version(), commit());
  std::printf("torch       %s\n", TORCH_VERSION);
  std::printf("CUDA        %s, driver %s\n", cuda_runtime_version().c_str(), cuda_driver_version().c_str());
  std::printf("NCCL        %s\n", nccl_version().c_str());
  std::printf("MPI         %s, CUDA-aware: %s\n", mpi_version().c_str(), cuda_aware().c_str());
  std::printf("HDF5        %s, parallel\n", hdf5_version().c_str());
  std::printf("pictures    %s\n", image_library().c_str());
  std::printf("CPU         %u cores, %d threads per rank, %s\n", std::thread::hardware_concurrency(),
              at::get_num_threads(), cpu_features().c_str());
  std::printf("ranks       %d, %d on this host\n", comm.size(), here);
  if (devices == 0)
    std::printf("GPU         %s\n", trouble.empty() ? "none visible" : concat("unusable, ", trouble).c_str());
  for (int d = 0; d < devices; ++d) {
    cudaDeviceProp p{};
    if (cudaGetDeviceProperties(&p, d) == cudaSuccess)
      std::printf("GPU %d       %s, %.0f GiB, compute %d.%d\n", d, p.name,
                  static_cast<double>(p.totalGlobalMem) / 0x1p30, p.major, p.minor);
  }
  return 0;
}

}  // namespace

Command info_command(CLI::App& app) {
  const auto a = std::make_shared<InfoArguments>();
  CLI::App* options =
      app.add_subcommand("info", "what is in a file; without one versions, devices, MPI, NCCL, CPU features");
  options->add_option("FILE", a->file, "an image, or a part of one: FILE.h5:/dataset, FILE.zarr:/1, ...");
  options->add_option("--picture", a->picture, "of its middle slice (auto: in colors on a terminal)")
      ->check(one_of({"auto", "color", "text", "none"}))
      ->capture_default_str();
  options->add_option(
      "--table", a->table,
      "instead: the table of a sweep over all images in FILE, for this key: problem.measurements");
  options->footer("Example: tessera info cell.ome.zarr");
  return {options,
          [a](const Launch& launch) {
            if (a->file.empty()) return execute(launch.comm);
            launch.comm.together([&] {
              if (launch.comm.rank() != 0) return;
              if (a->table.empty())
                describe_file(a->file, a->picture);
              else
                print_parts_table(a->file, a->table);
            });
            return 0;
          },
          Watched::never};
}

}  // namespace tessera
