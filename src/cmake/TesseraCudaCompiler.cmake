# SPDX-License-Identifier: BSD-3-Clause
# Chooses the CUDA compiler, before project(): one that was named (CMAKE_CUDA_COMPILER, CUDACXX), a CUDA 13 toolkit of
# the machine (CUDA_HOME, PATH, /usr/local/cuda), else the toolkit that jobs/setup.sh put into the virtual environment
# from wheels. TESSERA_CUDA_ROOT names that toolkit, empty otherwise. Included where TESSERA_CUDA is not off; that there is
# none is an error only where it was asked for.
set(TESSERA_CUDA_ROOT "")
if(TESSERA_VENV AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(nvcc_on_path nvcc NO_CACHE)
  foreach(nvcc $ENV{CUDA_HOME}/bin/nvcc ${nvcc_on_path} /usr/local/cuda/bin/nvcc)
    if(NOT CMAKE_CUDA_COMPILER AND EXISTS ${nvcc})
      execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
      if(nvcc_version MATCHES "release 13\\.")
        set(CMAKE_CUDA_COMPILER ${nvcc} CACHE FILEPATH "CUDA compiler")
      endif()
    endif()
  endforeach()
  if(NOT CMAKE_CUDA_COMPILER)
    file(GLOB cuda_wheels ${TESSERA_VENV}/lib/python3*/site-packages/nvidia/cu13)
    if(EXISTS "${cuda_wheels}/bin/nvcc" AND EXISTS "${cuda_wheels}/lib64")
      set(CMAKE_CUDA_COMPILER ${cuda_wheels}/bin/nvcc CACHE FILEPATH "CUDA compiler")
    elseif(TESSERA_CUDA)
      message(FATAL_ERROR "no CUDA 13 compiler on this machine or in ${TESSERA_VENV} (TESSERA_CUDA is on) run jobs/setup.sh, "
                          "or set TESSERA_CUDA to OFF")
    endif()
  endif()
endif()
if(CMAKE_CUDA_COMPILER MATCHES "^(.*/nvidia/cu13)/bin/nvcc$")
  set(TESSERA_CUDA_ROOT ${CMAKE_MATCH_1})
  set(CUDAToolkit_ROOT ${TESSERA_CUDA_ROOT})
  set(CUDA_TOOLKIT_ROOT_DIR ${TESSERA_CUDA_ROOT})  # for the older module that torch's package uses
  set(ENV{CUDA_HOME} ${TESSERA_CUDA_ROOT})
  set(ENV{PATH} "${TESSERA_CUDA_ROOT}/bin:$ENV{PATH}")
endif()
