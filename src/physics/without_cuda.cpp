// SPDX-License-Identifier: BSD-3-Clause
// In the place of rays_device.cu, where tessera is built for processors alone. There are no tensors on a GPU, so none of
// this is ever called.
#include "projector/ray_task.hpp"
#include "tessera/core/error.hpp"

namespace tessera::rays {
namespace {

[[noreturn]] void absent() {
  throw RunError("a GPU was used by a program without CUDA (a mistake of tessera) build with TESSERA_CUDA");
}

}  // namespace

void on_device(const ColumnTask&, void*) { absent(); }
void on_device(const ScaleTask&, void*) { absent(); }
void on_device(const ProjectTask<float>&, void*) { absent(); }
void on_device(const ProjectTask<double>&, void*) { absent(); }
void on_device(const GatherTask&, Way, void*) { absent(); }
void on_device(const GatherAnyTask<float>&, void*) { absent(); }
void on_device(const GatherAnyTask<double>&, void*) { absent(); }

}  // namespace tessera::rays
