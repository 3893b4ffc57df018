# SPDX-License-Identifier: BSD-3-Clause
# Everything that tessera links, as targets. Used by the build and by the installed package.
if(TESSERA_VENV)
  file(GLOB TESSERA_SITE ${TESSERA_VENV}/lib/python3*/site-packages)
  list(PREPEND CMAKE_PREFIX_PATH ${TESSERA_SITE}/torch/share/cmake)
endif()

find_package(CUDAToolkit REQUIRED)
find_package(Torch REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "the HDF5 found is serial (tessera writes one file from all ranks) "
                      "install the MPI build, for example libhdf5-openmpi-dev")
endif()
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(VIPS REQUIRED IMPORTED_TARGET vips)
find_package(Threads REQUIRED)

# The torch libraries without the flags that its config pushes on every target.
set(TESSERA_TORCH_LIBRARIES ${TORCH_LIBRARIES})

# NCCL: the wheel that torch brings; the toolkit's own where there is none.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${TESSERA_SITE}/nvidia/nccl/include ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${TESSERA_SITE}/nvidia/nccl/lib NO_CMAKE_SYSTEM_PATH)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 REQUIRED)
if(NOT TARGET tessera_nccl)
  add_library(tessera_nccl INTERFACE IMPORTED)
  set_target_properties(tessera_nccl PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES "${NCCL_LIBRARY}")
endif()
