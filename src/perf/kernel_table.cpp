// SPDX-License-Identifier: BSD-3-Clause
#include "kernel_table.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

namespace tessera {
namespace {

struct Kernel {
  const char* name;  // as the linker knows it
  const char* architecture;
  int registers, spilled, shared;  // per thread; bytes per thread; bytes per block
};
const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all{
#include "kernel_table.inc"
  };
  return all;
}

// run_shares<float>, without its namespaces and arguments.
std::string short_name(const char* linked) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(linked, nullptr, nullptr, &status),
                                                    std::free);
  std::string name = text ? text.get() : linked;
  const std::size_t from = name.find("run_");
  if (from != std::string::npos) name.erase(0, from);
  const std::size_t arguments = name.find_first_of("<(");
  if (arguments != std::string::npos)
    name.resize(name[arguments] == '(' ? arguments : std::min(name.size(), name.find(">(") + 1));
  for (const std::string part : {"tessera::", "pack::"})
    for (std::size_t at = name.find(part); at != std::string::npos; at = name.find(part))
      name.erase(at, part.size());
  return name;
}

// Of a multiprocessor's threads, those that its registers and shared memory have room for, in blocks of 256.
double occupancy(const Kernel& k) {
  constexpr int kBlock = 256, kThreads = 2048, kRegisters = 65536, kGrain = 256, kShared = 160 << 10;
  const int per_warp = (k.registers * 32 + kGrain - 1) / kGrain * kGrain;
  const int by_registers = kRegisters / per_warp / (kBlock / 32);
  const int by_shared = k.shared > 0 ? kShared / k.shared : kThreads / kBlock;
  return static_cast<double>(std::min({by_registers, by_shared, kThreads / kBlock}) * kBlock) / kThreads;
}

}  // namespace

std::string kernel_table() {
  std::string out = fmt::format("{:<36} {:>7} {:>10} {:>8} {:>7} {:>10}   (as compiled)", "kernel", "for",
                                "registers", "spilled", "shared", "occupancy");
  for (const Kernel& k : kernels())
    out += fmt::format("\n{:<36} {:>7} {:>10} {:>8} {:>7} {:>8.0f} %", short_name(k.name), k.architecture,
                       k.registers, k.spilled, k.shared, 100 * occupancy(k));
  return out;
}

}  // namespace tessera
