// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/comm/array.hpp"

namespace tessera {

std::string mpi_version();
std::string nccl_version();
std::string hdf5_version();
std::string cuda_runtime_version(), cuda_driver_version();  // "none" where there is none
std::string processor_name();
/// Of avx2, avx512, avx512_bf16, amx_bf16, those that this processor has.
std::string cpu_features();

/// One line for the trace: "torch 2.11.0, Open MPI v4.1.4, HDF5 1.10.8, CUDA 13.0, driver none, NCCL 2.28.9".
std::string about_libraries();
/// One line for the trace: processor, cores, threads of this rank, memory of the host; the GPU, where it is
/// used.
std::string about_machine(Device device);

}  // namespace tessera
