// SPDX-License-Identifier: BSD-3-Clause
// The program anew, with threads that sleep where they wait, as under jobs/launch.sh: beside other work on the machine
// a spinning one takes the core from the one it waits for (a data step by FFT took 4 to 13 s beside two compilers, and
// 3 to 4 s with sleeping threads). OpenMP reads this where it is loaded, before main().
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace tessera {

/// `argv` in this program again, for commands that compute, unless OMP_WAIT_POLICY says how threads wait; before MPI
/// starts. It costs 0.2 s, as much as the libraries take to load.
inline void restart_with_sleeping_threads(int argc, char** argv) {
  if (argc < 2 || std::getenv("OMP_WAIT_POLICY")) return;
  const std::string_view command = argv[1];
  for (const std::string_view computes : {"run", "denoise", "simulate", "train", "tune", "study"})
    if (command == computes && setenv("OMP_WAIT_POLICY", "passive", 0) == 0)
      execv("/proc/self/exe", argv);  // returns where it cannot: threads then spin
}

}  // namespace tessera
