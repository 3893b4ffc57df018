// SPDX-License-Identifier: BSD-3-Clause
// From the job file's operator to physics.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "tessera/app/geometry.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLargestKernel = 4096;  // per side: a kernel is small enough to stand on every rank

// Read by rank 0, sent to all: (1, h, w), or (C, h, w) with one kernel per channel of the image.
at::Tensor read_kernel(const KernelConfig::File& file, std::int64_t channels, const Communicator& comm) {
  const SourceInfo info = image_source_info(file.path, comm);
  TESSERA_VALIDATE(
      info.box.extent(0) == 1 && info.box.extent(1) <= kLargestKernel && info.box.extent(2) <= kLargestKernel,
      "kernel ", file.path, " has ", info.box.extent(1), " x ", info.box.extent(2), " taps (at most ",
      kLargestKernel, " per side) cut it to its support");
  at::Tensor taps = at::empty({info.channels, info.box.extent(1), info.box.extent(2)}, at::kDouble);
  comm.together([&] {
    if (comm.rank() == 0) read_image(file.path, Layout({info.box}), view(taps, info.box), Communicator());
  });
  comm.broadcast(taps.data_ptr(), taps.numel() * 8, 0);
  if (taps.eq(taps[0]).all().item().toBool()) taps = taps.slice(0, 0, 1);  // a gray kernel saved as RGB
  TESSERA_VALIDATE(taps.size(0) == 1 || taps.size(0) == channels, "kernel ", file.path, " has ", taps.size(0),
                   " channels that differ (the image has ", channels,
                   ") give one kernel, or one per channel of the image");
  if (!file.normalize) return taps;
  const at::Tensor sums = taps.sum(at::IntArrayRef{1, 2}, /*keepdim=*/true);
  const double least = sums.min().item().toDouble();
  TESSERA_VALIDATE(least > 0, "kernel ", file.path, " has sum ", least,
                   " (it cannot be normalized) write 'normalize: false' or correct the file");
  return taps / sums;
}

at::Tensor make_kernel(const KernelConfig& config, std::int64_t width, std::int64_t channels,
                       const Communicator& comm) {
  if (const auto* file = std::get_if<KernelConfig::File>(&config.form))
    return read_kernel(*file, channels, comm);
  const auto& g = std::get<KernelConfig::Gaussian>(config.form);
  const double unit = g.sigma_is_share ? static_cast<double>(width) : 1.0;
  return gaussian_kernel({g.sigma[0] * unit, g.sigma[1] * unit}, g.angle);
}

at::Tensor read_mask(const std::string& path, const Box& image, const Box& block, std::int64_t channels,
                     const Communicator& comm) {
  const SourceInfo info = image_source_info(path, comm);
  TESSERA_VALIDATE(info.box == image, "mask ", path, " is ", info.box.extent(1), " x ", info.box.extent(2),
                   " (the image is ", image.extent(1), " x ", image.extent(2),
                   ") give a mask of the image's size");
  TESSERA_VALIDATE(info.channels == 1 || info.channels == channels, "mask ", path, " has ", info.channels,
                   " channels (the image has ", channels, ") give one channel, or as many as the image");
  at::Tensor mask = empty_block(info.channels, block, at::kFloat);
  std::vector<Box> boxes;
  for (int r = 0; r < comm.size(); ++r) boxes.push_back(comm.rank() == r ? block : Box());
  // Every rank knows only its own block here; the layout is gathered once.
  for (int r = 0; r < comm.size(); ++r) {
    Index3 corners[2] = {boxes[static_cast<std::size_t>(r)].lo(), boxes[static_cast<std::size_t>(r)].hi()};
    comm.broadcast(corners, sizeof corners, r);
    boxes[static_cast<std::size_t>(r)] = Box(corners[0], corners[1]);
  }
  read_image(path, Layout(std::move(boxes)), view(mask, block), comm);
  return mask / info.full_scale;
}

}  // namespace

std::unique_ptr<LocalOperator> make_part(const OperatorConfig& part, std::uint32_t index, std::int64_t seed,
                                         const Box& image, const Box& block, std::int64_t channels,
                                         const Communicator& comm, Device device) {
  if (part.type == "identity") return make_identity();
  if (part.type == "mask") {
    if (part.keep) return make_random_mask(*part.keep, static_cast<std::uint64_t>(seed), index);
    return make_mask(read_mask(part.mask_file, image, block, channels, comm), block);
  }
  TESSERA_EXPECT(part.type == "blur" || part.type == "downsampling", "operator type ", part.type,
                 " came through the parser");
  BlurOptions options;
  options.kernel = make_kernel(part.kernel, image.extent(2), channels, comm);
  if (const auto* file = std::get_if<KernelConfig::File>(&part.kernel.form)) options.origin = file->center;
  options.boundary = parse_boundary(part.boundary);
  options.method = parse_blur_method(part.method);
  options.device = device;
  if (part.type == "downsampling") {
    options.factor = part.factor;
    options.phase = part.phase;
  }
  return make_blur(std::move(options));
}

}  // namespace tessera
