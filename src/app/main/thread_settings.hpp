// SPDX-License-Identifier: BSD-3-Clause
// What OpenMP reads of the environment where it is loaded, before main.
//
// Threads that sleep where they wait, as under jobs/launch.sh: beside other work on the machine a spinning one takes
// the core from the one it waits for (a data step by FFT took 4 to 13 s beside two compilers, and 3 to 4 s with
// sleeping threads).
//
// No binding where a launcher starts several ranks on this host and leaves each the cores of all: OpenMP counts those
// of its process, and every rank would bind its first thread to the same first core.
#pragma once

#include <limits.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

namespace tessera {

inline const char* value_of(char** environment, std::string_view name) {
  for (; *environment; ++environment) {
    const std::string_view entry(*environment);
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return *environment + name.size() + 1;
  }
  return nullptr;
}

/// Whether ranks of one launch share this host, and its cores: this process may run where its parent may, or on more
/// than its share of what Slurm gave the job.
inline bool shares_cores(char** environment) {
  int ranks = 1;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE",
                           "MV2_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"})
    if (const char* value = value_of(environment, name); value && ranks == 1) ranks = std::atoi(value);
  cpu_set_t own, parents;
  if (ranks < 2 || sched_getaffinity(0, sizeof own, &own) != 0) return false;
  const char* given = value_of(environment, "SLURM_CPUS_ON_NODE");
  if (given && CPU_COUNT(&own) * ranks > std::atoi(given)) return true;
  return sched_getaffinity(getppid(), sizeof parents, &parents) == 0 && CPU_EQUAL(&own, &parents);
}

/// It runs before the initializers of all libraries, of which torch's take 0.2 s. They see what is removed here; they
/// would not see a variable that is set, for which the program is started again.
inline void settle_threads(int, char** argv, char** environment) {
  if (shares_cores(environment)) {
    char** kept = environment;
    for (char** entry = environment; *entry; ++entry) {
      bool binds = false;
      for (const std::string_view name :
           {"OMP_PROC_BIND=", "OMP_PLACES=", "GOMP_CPU_AFFINITY=", "KMP_AFFINITY="})
        binds = binds || std::string_view(*entry).starts_with(name);
      if (!binds) *kept++ = *entry;
    }
    *kept = nullptr;
  }
  if (value_of(environment, "OMP_WAIT_POLICY")) return;
  static char passive[] = "OMP_WAIT_POLICY=passive";
  std::vector<char*> with{passive};
  for (; *environment; ++environment) with.push_back(*environment);
  with.push_back(nullptr);
  // By its name, which ps and pkill go by; a program whose file was replaced has it only here.
  static char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) > 0) execve(self, argv, with.data());
  execve("/proc/self/exe", argv, with.data());  // returns where it cannot: threads then spin
}

// Not const and not inline, for which the section would get a type that the assembler warns of.
[[gnu::section(".preinit_array"), gnu::used]] static void (*before_libraries)(int, char**,
                                                                              char**) = settle_threads;

}  // namespace tessera
