// SPDX-License-Identifier: BSD-3-Clause
// tessera scene: a synthetic picture as a file.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "command/command.hpp"
#include "job/scene_block.hpp"
#include "tessera/app/output.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

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
  render_scene(Scene(static_cast<std::uint64_t>(a.seed)), view(t, block));
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
