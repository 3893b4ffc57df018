// SPDX-License-Identifier: BSD-3-Clause
// Threads that sleep where they wait, as under jobs/launch.sh: beside other work on the machine a spinning one takes
// the core from the one it waits for (a data step by FFT took 4 to 13 s beside two compilers, and 3 to 4 s with
// sleeping threads). OpenMP reads this where it is loaded.
#pragma once

#include <limits.h>
#include <unistd.h>

#include <string_view>
#include <vector>

namespace tessera {

/// This program again, unless OMP_WAIT_POLICY says how threads wait. It runs before the initializers of all
/// libraries, of which torch's take 0.2 s. (They would not see a variable that is set here.)
inline void start_with_sleeping_threads(int, char** argv, char** environment) {
  static char passive[] = "OMP_WAIT_POLICY=passive";
  std::vector<char*> with{passive};
  for (; *environment; ++environment) {
    if (std::string_view(*environment).starts_with("OMP_WAIT_POLICY=")) return;
    with.push_back(*environment);
  }
  with.push_back(nullptr);
  // By its name, which ps and pkill go by; a program whose file was replaced has it only here.
  static char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) > 0) execve(self, argv, with.data());
  execve("/proc/self/exe", argv, with.data());  // returns where it cannot: threads then spin
}

[[gnu::section(".preinit_array"),
  gnu::used]] inline void (*const before_libraries)(int, char**, char**) = start_with_sleeping_threads;

}  // namespace tessera
