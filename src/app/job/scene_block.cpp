// SPDX-License-Identifier: BSD-3-Clause
#include "job/scene_block.hpp"

#include <ATen/Parallel.h>

#include <algorithm>

#include "tessera/app/problem.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

// Parts of the block that a thread renders at once, pixels.
constexpr std::int64_t kRows = 64, kColumns = 1024;

}  // namespace

void render_scene(const Scene& scene, const ArrayView& block) {
  if (block.box.empty()) return;
  const Index3 lo = block.box.lo(), hi = block.box.hi();
  const std::int64_t across = (hi[2] - lo[2] + kColumns - 1) / kColumns;
  const std::int64_t parts = across * ((hi[1] - lo[1] + kRows - 1) / kRows);
  auto* out = static_cast<float*>(block.data);
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t row = part / across * kRows, column = part % across * kColumns;
      const Box box({0, lo[1] + row, lo[2] + column},
                    {1, std::min(lo[1] + row + kRows, hi[1]), std::min(lo[2] + column + kColumns, hi[2])});
      scene.render(box, block.channels, out + row * block.stride[1] + column, block.channel_stride,
                   block.stride[1]);
      beat();
    }
  });
}

at::Tensor scene_block(const RunPlan& plan, const Communicator& comm) {
  const PhaseScope phase(Phase::load);
  const Box block = plan.decomposition.block(comm.rank());
  const at::Tensor t = empty_block(plan.image.channels, block, at::kFloat);
  render_scene(Scene(static_cast<std::uint64_t>(plan.job.problem.scene.seed)), view(t, block));
  return t.to(plan.options());
}

}  // namespace tessera
