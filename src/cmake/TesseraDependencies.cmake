# SPDX-License-Identifier: BSD-3-Clause
# Everything that tessera links, as targets. Used by the build and by the installed package.
if(TESSERA_VENV)
  file(GLOB TESSERA_SITE ${TESSERA_VENV}/lib/python3*/site-packages)
  if(NOT EXISTS "${TESSERA_SITE}/torch/share/cmake/Torch")
    message(FATAL_ERROR "no torch in ${TESSERA_VENV} (tessera links its libraries) run jobs/setup.sh, or use "
                        "--preset libtorch with the environment variable LIBTORCH")
  endif()
  list(PREPEND CMAKE_PREFIX_PATH ${TESSERA_SITE}/torch/share/cmake)
endif()

if(TESSERA_CUDA)
  if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
    # CMake 3.25.1 sets a property on this target without looking whether the toolkit has the library; CUDA 13 has not.
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit REQUIRED)

  # Torch's config appends its own flags and architectures to the whole project; ours are kept instead.
  set(tessera_cuda_flags "${CMAKE_CUDA_FLAGS}")
  set(tessera_cuda_architectures ${CMAKE_CUDA_ARCHITECTURES})
  unset(CMAKE_CUDA_ARCHITECTURES)
  if(NOT DEFINED TORCH_CUDA_ARCH_LIST)
    set(TORCH_CUDA_ARCH_LIST 9.0)  # else the config starts a program to ask the GPU
  endif()
  set(tessera_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # it warns of libraries that the wheel never has
  find_package(Torch REQUIRED)
  set(CMAKE_MESSAGE_LOG_LEVEL "${tessera_log_level}")
  message(STATUS "Found Torch: ${TORCH_LIBRARY}")
  set(CMAKE_CUDA_FLAGS "${tessera_cuda_flags}")
  if(tessera_cuda_architectures)
    set(CMAKE_CUDA_ARCHITECTURES ${tessera_cuda_architectures})
  else()
    unset(CMAKE_CUDA_ARCHITECTURES)
  endif()
else()
  # Torch's own package asks for nvcc where its wheel knows CUDA; processors need two of its libraries.
  find_path(TORCH_INCLUDE_DIR ATen/ATen.h HINTS ${TESSERA_SITE}/torch/include REQUIRED)
  get_filename_component(TORCH_INSTALL_PREFIX ${TORCH_INCLUDE_DIR} DIRECTORY)
  set(TORCH_INCLUDE_DIRS ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
  set(TORCH_LIBRARY ${TORCH_INSTALL_PREFIX}/lib/libtorch_cpu.so)
  set(TORCH_LIBRARIES ${TORCH_LIBRARY} ${TORCH_INSTALL_PREFIX}/lib/libc10.so)
  message(STATUS "Found Torch: ${TORCH_LIBRARY}, for processors alone")
endif()

find_package(MPI REQUIRED COMPONENTS C)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "the HDF5 found is serial (tessera writes one file from all ranks) "
                      "install the MPI build, for example libhdf5-openmpi-dev")
endif()
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  set_target_properties(yaml-cpp::yaml-cpp PROPERTIES INTERFACE_LINK_LIBRARIES yaml-cpp)
endif()
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(VIPS REQUIRED IMPORTED_TARGET vips)
pkg_check_modules(TIFF REQUIRED IMPORTED_TARGET libtiff-4>=4.5)
pkg_check_modules(CFITSIO REQUIRED IMPORTED_TARGET cfitsio)
find_package(ZLIB REQUIRED)
# What packs the chunks of Zarr stores; without one of them messages name its package.
pkg_check_modules(BLOSC IMPORTED_TARGET blosc)
pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# A program with the property TESSERA_WITHOUT_CUDA gets torch's libraries for processors alone.
if(NOT TARGET tessera::torch)
  add_library(tessera::torch INTERFACE IMPORTED)
  set(tessera_torch_folder ${TORCH_INSTALL_PREFIX}/lib)
  set_target_properties(tessera::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}"
    INTERFACE_LINK_LIBRARIES "$<IF:$<BOOL:$<TARGET_PROPERTY:TESSERA_WITHOUT_CUDA>>,${tessera_torch_folder}/libtorch_cpu.so;${tessera_torch_folder}/libc10.so,${TORCH_LIBRARIES}>")
endif()

# OpenMP, which at::parallel_for needs in the code that calls it: the copy that torch itself runs, where the wheel
# brings one, so that there is one set of threads.
if(NOT TARGET tessera::openmp)
  file(GLOB tessera_openmp ${TORCH_INSTALL_PREFIX}/lib/libgomp*.so*)
  if(NOT tessera_openmp OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # others call a runtime of their own
    set(tessera_openmp ${OpenMP_CXX_LIBRARIES})
  endif()
  add_library(tessera::openmp INTERFACE IMPORTED)
  set_target_properties(tessera::openmp PROPERTIES INTERFACE_LINK_LIBRARIES "${tessera_openmp}"
    INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>")
endif()

# tessera_nvidia(NAME HEADER LIBRARY): torch's own copy of a library of NVIDIA's, whose handles and streams we share; the
# machine's where torch brings none. The wheels have the versioned name alone.
function(tessera_nvidia name header library)
  string(TOUPPER ${name} upper)
  set(wheel ${TORCH_INSTALL_PREFIX}/../nvidia/${name})
  find_path(${upper}_INCLUDE_DIR ${header} HINTS ${wheel}/include ${CUDAToolkit_INCLUDE_DIRS}
    ENV ${upper}_HOME PATH_SUFFIXES include REQUIRED)
  find_library(${upper}_LIBRARY NAMES ${library} HINTS ${wheel}/lib NO_DEFAULT_PATH)
  find_library(${upper}_LIBRARY NAMES ${name} ${library} HINTS ENV ${upper}_HOME PATH_SUFFIXES lib lib64 REQUIRED)
  if(NOT TARGET tessera::${name})
    add_library(tessera::${name} INTERFACE IMPORTED)
    set_target_properties(tessera::${name} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${${upper}_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES "${${upper}_LIBRARY}")
  endif()
endfunction()
if(TESSERA_CUDA)
  tessera_nvidia(cudnn cudnn.h libcudnn.so.9)
  tessera_nvidia(nccl nccl.h libnccl.so.2)
endif()
