# SPDX-License-Identifier: BSD-3-Clause
# cmake --install: the program, the shipped weights, headers, libraries, and a package for find_package(tessera).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

# CMake leaves out folders below the source tree, where .venv is.
set(library_folders)
foreach(library ${TORCH_LIBRARY} ${NCCL_LIBRARY} ${CUDNN_LIBRARY})
  get_filename_component(folder ${library} DIRECTORY)
  list(APPEND library_folders ${folder})
endforeach()
set_target_properties(${TESSERA_PROGRAMS} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON
  INSTALL_RPATH "${library_folders};${CUDAToolkit_LIBRARY_DIR}")
install(TARGETS ${TESSERA_PROGRAMS} DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${TESSERA_TARGETS} EXPORT tessera ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# What a program may rely on: a solver, an operator, a denoiser or a whole program of one's own. Insides that folders of
# ours share stay out, and so do the cost model, training and the application beyond its table and its command line.
set(headers ${PROJECT_SOURCE_DIR}/include/tessera)
install(DIRECTORY ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  PATTERN app EXCLUDE PATTERN perf EXCLUDE PATTERN trace EXCLUDE PATTERN train EXCLUDE
  REGEX "/comm/check_cuda\\.hpp$" EXCLUDE REGEX "/io/(posix_file|hdf5_output)\\.hpp$" EXCLUDE
  REGEX "/denoise/(cuda_graph|layer_schedule|layer_traffic|memory_model|network_work|runner|side_stream|windows)\\.hpp$" EXCLUDE)
install(FILES ${headers}/app/commands.hpp ${headers}/app/operator_table.hpp ${headers}/app/reconstruct.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera/app)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/jobs/launch.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME tessera-launch)
if(EXISTS ${PROJECT_SOURCE_DIR}/data/weights)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/weights DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera)

# The Python package of pyproject.toml: its program stands in it, and finds torch and NVIDIA's libraries beside it.
if(SKBUILD)
  set(beside $ORIGIN/../../torch/lib)
  foreach(library nccl cudnn cu13 cuda_runtime)
    list(APPEND beside $ORIGIN/../../nvidia/${library}/lib)
  endforeach()
  set_target_properties(${TESSERA_PROGRAMS} PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF INSTALL_RPATH "${beside}")
  install(TARGETS ${TESSERA_PROGRAMS} DESTINATION tessera/bin COMPONENT python)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/jobs/launch.sh DESTINATION tessera/bin RENAME tessera-launch COMPONENT python)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/weights ${PROJECT_SOURCE_DIR}/data/machines DESTINATION tessera/share/tessera
    COMPONENT python)
endif()

install(EXPORT tessera NAMESPACE tessera:: FILE tesseraTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tesseraConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tesseraConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/TesseraDependencies.cmake DESTINATION ${package_folder})
