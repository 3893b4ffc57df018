// SPDX-License-Identifier: BSD-3-Clause
// trace_victim FILE: a run that never ends, one iteration every 10 ms; prints each iteration's number.
#include <chrono>
#include <cstdio>
#include <thread>

#include "tessera/core/phase.hpp"
#include "tessera/trace/trace.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tessera::TraceWriter trace(argv[1], {});
  for (int k = 0;; ++k) {
    tessera::set_iteration(k);
    {
      const tessera::PhaseScope phase(tessera::Phase::denoise);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    tessera::IterationResult result;
    result.iteration = k;
    result.residual = 1.0 / (k + 1);
    trace.on_result(result);
    std::printf("%d\n", k);
    std::fflush(stdout);
  }
}
