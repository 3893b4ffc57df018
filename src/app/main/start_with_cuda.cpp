// SPDX-License-Identifier: BSD-3-Clause
// `tessera` where there is no GPU: linked without torch's CUDA libraries, which take 0.24 GB of every process
// and a third of its start. Where the host has NVIDIA's driver it becomes tessera-cuda, its neighbor.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "tessera/app/commands.hpp"
#include "thread_settings.hpp"

int main(int argc, char** argv) {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    std::error_code error;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
    const std::string other = self + "-cuda";
    execv(other.c_str(), argv);  // before MPI starts
    std::fprintf(
        stderr,
        "tessera: this host has NVIDIA's driver, and %s does not start (%s) install both programs side "
        "by side\n",
        other.c_str(), std::strerror(errno));
    return 2;
  }
  tessera::MpiSession session(&argc, &argv);
  session.end(tessera::tessera_main(argc, argv, tessera::Communicator::world()));
}
