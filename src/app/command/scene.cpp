// SPDX-License-Identifier: BSD-3-Clause
// tessera scene: a synthetic picture as a file; and the blocks of one that stands in a job.
#include "tessera/scene/scene.hpp"

#include <ATen/Parallel.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "command/command.hpp"
#include "tessera/app/output.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

// Parts of the block that a thread renders at once, pixels.
constexpr std::int64_t kRows = 64, kColumns = 1024;

void render(const Scene& scene, const ArrayView& block) {
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

// "2048x3072": rows, columns.
Box parse_size(const std::string& text) {
  std::int64_t size[2] = {0, 0};
  const char *at = text.data(), *end = at + text.size();
  bool good = true;
  for (int d = 0; good && d < 2; ++d) {
    const auto [next, error] = std::from_chars(at, end, size[d]);
    good = error == std::errc{} && size[d] >= 1 && size[d] <= 1 << 30 &&
           (d == 0 ? next != end && *next == 'x' : next == end);
    at = next + 1;
  }
  TESSERA_VALIDATE(good, "--size is ", text, " (rows x columns are wanted) write for example 2048x3072");
  return Box::image2d(size[0], size[1]);
}

}  // namespace

at::Tensor scene_block(const RunPlan& plan, const Communicator& comm) {
  const PhaseScope phase(Phase::load);
  const Box block = plan.decomposition.block(comm.rank());
  const at::Tensor t = empty_block(plan.image.channels, block, at::kFloat);
  render(Scene(static_cast<std::uint64_t>(plan.job.problem.scene.seed)), view(t, block));
  return t.to(plan.options());
}

namespace {

struct SceneArguments {
  std::string out, size;
  std::int64_t seed = 0, channels = 3;
  bool force = false;
};

int execute(const SceneArguments& a, const Communicator& comm) {
  const ImageFormat* format = nullptr;
  Box image;
  comm.together([&] {
    image = parse_size(a.size);
    format = &output_format(a.out);
    TESSERA_VALIDATE(format->holds_channels(a.channels), "--channels is ", a.channels,
                     " (pictures have 1 or 3) use one of them, or a .h5 file");
    TESSERA_VALIDATE(a.seed >= 0, "--seed is ", a.seed, " (it counts from 0) give another one");
    TESSERA_VALIDATE(a.force || !std::filesystem::exists(a.out), a.out,
                     " exists (scene never overwrites) name another file, or add --force");
  });
  const Decomposition rows(image, {1, 64, 64}, {1, comm.size(), 1});
  const Box block = rows.block(comm.rank());
  const at::Tensor t = empty_block(a.channels, block, at::kFloat);
  const double start = now();
  render(Scene(static_cast<std::uint64_t>(a.seed)), view(t, block));
  comm.barrier();
  const double seconds = now() - start;
  write_image(a.out, {.space = ImageSpace(image, a.channels), .bits = format->writes(8) ? 8 : 32},
              rows.layout(), view(t, block), comm);
  if (comm.rank() == 0)
    std::printf("%s: %s, rendered in %s\n", a.out.c_str(), a.size.c_str(), format_seconds(seconds).c_str());
  return 0;
}

}  // namespace

Command scene_command(CLI::App& app) {
  const auto a = std::make_shared<SceneArguments>();
  CLI::App* options = app.add_subcommand(
      "scene", "a synthetic picture of any size; the same that problem.truth.scene gives in a job");
  options->add_option("OUT", a->out, "picture or HDF5")->required();
  options->add_option("--size", a->size, "rows x columns, for example 2048x3072")->required();
  options->add_option("--seed", a->seed, "another seed, another picture")->capture_default_str();
  options->add_option("--channels", a->channels, "1: gray, 3: color")->capture_default_str();
  options->add_flag("--force", a->force, "overwrite OUT");
  options->footer("Example: tessera scene scene.png --size 2048x3072 --seed 1");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::never};
}

}  // namespace tessera
