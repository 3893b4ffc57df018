# SPDX-License-Identifier: BSD-3-Clause
# cmake --install: the program, the shipped weights, headers, libraries, and a package for find_package(tessera).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

# CMake leaves out folders below the source tree, where .venv is.
get_filename_component(torch_folder ${TORCH_LIBRARY} DIRECTORY)
get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
get_filename_component(cudnn_folder ${CUDNN_LIBRARY} DIRECTORY)
set_target_properties(tessera PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON
  INSTALL_RPATH "${torch_folder};${nccl_folder};${cudnn_folder};${CUDAToolkit_LIBRARY_DIR}")
install(TARGETS tessera DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${TESSERA_TARGETS} EXPORT tessera ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(PROGRAMS ${PROJECT_SOURCE_DIR}/jobs/launch.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME tessera-launch)
if(EXISTS ${PROJECT_SOURCE_DIR}/data/weights)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/weights DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera)

install(EXPORT tessera NAMESPACE tessera:: FILE tesseraTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tesseraConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tesseraConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/TesseraDependencies.cmake DESTINATION ${package_folder})
