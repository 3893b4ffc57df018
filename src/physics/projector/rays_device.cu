// SPDX-License-Identifier: BSD-3-Clause
#include "ray_body.hpp"
#include "tessera/comm/check_cuda.hpp"

namespace tessera::rays {
namespace {

// Blocks on a multiprocessor: four leave 64 registers to a thread, two, of what computes in double throughout, 128.
template <class T>
constexpr int kBlocks = sizeof(T) == 4 ? 4 : 2;

__global__ void __launch_bounds__(kThreads, 4) run_columns(ColumnTask task) {
  column_thread(task, blockIdx.x, static_cast<std::int32_t>(threadIdx.x));
}
__global__ void __launch_bounds__(kThreads, 4) run_scale(ScaleTask task) {
  scale_thread(task, blockIdx.x, static_cast<std::int32_t>(threadIdx.x));
}
template <class T>
__global__ void __launch_bounds__(kThreads, kBlocks<T>) run_project(ProjectTask<T> task) {
  project_thread(task, blockIdx.x, static_cast<std::int32_t>(threadIdx.x));
}
template <int kRun>
__global__ void __launch_bounds__(kThreads, 4) run_gather_level(GatherTask task) {
  gather_level_thread<kRun>(task, blockIdx.x, static_cast<std::int32_t>(threadIdx.x));
}
__global__ void __launch_bounds__(kThreads, 4) run_gather_upright(GatherTask task) {
  gather_upright_thread(task, blockIdx.x, static_cast<std::int32_t>(threadIdx.x));
}
template <class T>
__global__ void __launch_bounds__(kThreads, 2) run_gather_any(GatherAnyTask<T> task) {
  gather_any_thread(task, blockIdx.x, static_cast<std::int32_t>(threadIdx.x));
}

template <class Task>
void launch(void (*kernel)(Task), const Task& task, void* stream) {
  const auto count = static_cast<unsigned>(blocks(task));
  if (count == 0) return;
  kernel<<<count, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(task);
  TESSERA_CUDA(cudaGetLastError());
}

}  // namespace

void on_device(const ColumnTask& task, void* stream) { launch(run_columns, task, stream); }
void on_device(const ScaleTask& task, void* stream) { launch(run_scale, task, stream); }
void on_device(const ProjectTask<float>& task, void* stream) { launch(run_project<float>, task, stream); }
void on_device(const ProjectTask<double>& task, void* stream) { launch(run_project<double>, task, stream); }
void on_device(const GatherTask& task, Way way, void* stream) {
  if (way == Way::upright)
    launch(run_gather_upright, task, stream);
  else if (task.run == 1)
    launch(run_gather_level<1>, task, stream);
  else
    launch(run_gather_level<kLevelRun>, task, stream);
}
void on_device(const GatherAnyTask<float>& task, void* stream) {
  launch(run_gather_any<float>, task, stream);
}
void on_device(const GatherAnyTask<double>& task, void* stream) {
  launch(run_gather_any<double>, task, stream);
}

}  // namespace tessera::rays
