// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/Parallel.h>

#include "ray_body.hpp"

namespace tessera::rays {
namespace {

template <class Task, class Thread>
void run(const Task& task, Thread thread) {
  at::parallel_for(0, blocks(task), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      for (std::int32_t n = 0; n < kThreads; ++n) thread(task, block, n);
  });
}

}  // namespace

void on_host(const ColumnTask& task) { run(task, column_thread); }
void on_host(const ScaleTask& task) { run(task, scale_thread); }
void on_host(const ProjectTask<float>& task) { run(task, project_thread<float>); }
void on_host(const ProjectTask<double>& task) { run(task, project_thread<double>); }
void on_host(const GatherTask& task, Way way) {
  if (way == Way::upright)
    run(task, gather_upright_thread);
  else if (task.run == 1)
    run(task, gather_level_thread<1>);
  else
    run(task, gather_level_thread<kLevelRun>);
}
void on_host(const GatherAnyTask<float>& task) { run(task, gather_any_thread<float>); }
void on_host(const GatherAnyTask<double>& task) { run(task, gather_any_thread<double>); }

}  // namespace tessera::rays
