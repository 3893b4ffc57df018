# SPDX-License-Identifier: BSD-3-Clause
# tessera_add_test(NAME n SOURCES files... [LINK targets...] [RANKS r] [LABELS l...] [TIMEOUT s] [COST c])
# tessera_add_test(NAME n COMMAND command... [RANKS r] [LABELS l...] [TIMEOUT s] [LOCK resource] [COST c])
# The one way in for tests: programs of ours, and scripts (COMMAND; they start their ranks themselves; RANKS 2: they keep
# all cores busy; exit code 77 is a skip). RANKS 1 (default) runs the program alone. RANKS 7 launches it once on 7 MPI ranks;
# its tests loop over sub-communicators of 1, 2, 3, 4, 5 and 7 ranks (tests/support/mpi_main.cpp) and it passes
# only if every rank says so.
function(tessera_add_test)
  cmake_parse_arguments(arg "" "NAME;RANKS;TIMEOUT;LOCK;COST" "SOURCES;LINK;LABELS;COMMAND" ${ARGN})
  if(NOT arg_RANKS)
    set(arg_RANKS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 240)
  endif()
  if(TESSERA_SANITIZE)
    if("tooling" IN_LIST arg_LABELS OR "install" IN_LIST arg_LABELS)
      return()  # files, scripts and builds: nothing that a sanitizer sees
    endif()
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  if(arg_COMMAND)
    set(command ${arg_COMMAND})
  else()
    add_executable(test_${arg_NAME} ${arg_SOURCES})
    target_link_libraries(test_${arg_NAME} PRIVATE tessera_test_support tessera_warnings ${arg_LINK})
    target_compile_options(test_${arg_NAME} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)  # compiled once, run once
    tessera_precompile(test_${arg_NAME} tests)
    set(command $<TARGET_FILE:test_${arg_NAME}>)
    if(arg_RANKS GREATER 1)
      set(command ${PROJECT_SOURCE_DIR}/jobs/launch.sh -n ${arg_RANKS} ${command})
    endif()
  endif()
  # Threads that wait do not spin, as under launch.sh: other tests run beside them.
  # Undefined behavior ends a program, which would otherwise say so where nobody reads it.
  # MPI and CUDA keep memory until the process ends; leaks of theirs would hide what the sanitizer is for.
  # Starting programs is a third of what the tests cost, page faults of the heap a part of it: large pages have fewer.
  # Our own preloaded libraries (faults, a trace's last write) stand before the sanitizer's; no memory is a null pointer.
  # Races of our own threads; MPI locks in both orders where it starts.
  set(tsan halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/threads.supp)
  set(asan detect_leaks=0:protect_shadow_gap=0:verify_asan_link_order=0:allocator_may_return_null=1)
  add_test(NAME ${arg_NAME} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
    SKIP_RETURN_CODE 77 ENVIRONMENT "TESSERA_SOURCE_DIR=${PROJECT_SOURCE_DIR};TESSERA_BINARY_DIR=${PROJECT_BINARY_DIR};ASAN_OPTIONS=${asan};UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1;TSAN_OPTIONS=${tsan};OMP_WAIT_POLICY=passive;GLIBC_TUNABLES=glibc.malloc.hugetlb=1")
  # Seven ranks on the one GPU of a desktop are no test of anything. Slurm's tests say themselves what is visible.
  if(NOT "gpu" IN_LIST arg_LABELS AND NOT "slurm" IN_LIST arg_LABELS)
    set_property(TEST ${arg_NAME} APPEND PROPERTY ENVIRONMENT "CUDA_VISIBLE_DEVICES=")
  endif()
  # Ranks of one program wait for each other awake and take three of the four places (tests/run.sh), so that no two such
  # programs run at once: they begin before others (COST), or else would wait for places to be free until the end. Above
  # the seconds that ctest remembers of scripts.
  if(arg_RANKS GREATER 1)
    set_tests_properties(${arg_NAME} PROPERTIES PROCESSORS 3 COST 1000)
  endif()
  if(arg_COST)
    set_tests_properties(${arg_NAME} PROPERTIES COST ${arg_COST})
  endif()
  if(arg_LOCK)
    set_tests_properties(${arg_NAME} PROPERTIES RESOURCE_LOCK ${arg_LOCK})
  endif()
endfunction()
