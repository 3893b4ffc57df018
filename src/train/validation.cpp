// SPDX-License-Identifier: BSD-3-Clause
#include "validation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/replication_pad3d.h>

#include <algorithm>
#include <cmath>

#include "loader.hpp"
#include "scenes.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/random.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/train/train.hpp"

namespace tessera {
namespace {

using training::Picture;

struct Denoised {
  at::Tensor clean, noisy, image;  // (1, C, [D,] H, W), float32
};

/// `part`: which picture of the folder this is; each has noise of its own.
Denoised denoise(const Network& network, const Picture& picture, std::uint32_t part, double sigma,
                 std::uint64_t seed) {
  const at::NoGradGuard no_gradient;
  const Random random(seed, RandomStream::noise, part);
  Denoised d;
  const bool volume = network.graph.axes() == Axes::volume;
  std::vector<std::int64_t> shape{1, picture.channels, picture.height, picture.width};
  if (volume) shape.insert(shape.begin() + 2, picture.depth);
  d.clean = at::empty(shape, at::kFloat);
  d.noisy = at::empty(d.clean.sizes(), at::kFloat);
  for (std::int64_t i = 0; i < d.clean.numel(); ++i) {
    d.clean.data_ptr<float>()[i] = static_cast<float>(picture.values[i]) / 255.0F;
    d.noisy.data_ptr<float>()[i] =
        d.clean.data_ptr<float>()[i] + static_cast<float>(sigma * random.normal(i));
  }
  // Padded once at its end, as every executor does.
  const Index3 size = picture.size();
  Index3 more{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t unit = network.alignment()[axis];
    more[axis] = (unit - size[axis] % unit) % unit;
  }
  const at::Tensor padded = (volume ? at::replication_pad3d(d.noisy, {0, more[2], 0, more[1], 0, more[0]})
                                    : at::replication_pad2d(d.noisy, {0, more[2], 0, more[1]}))
                                .contiguous(training::channels_last(d.noisy));
  const at::Device device = network.weights.begin()->second.device();
  d.image = evaluate(network.graph, network.weights, padded.to(device), at::full({1}, sigma, at::kFloat))
                .cpu()
                .narrow(-2, 0, size[1])
                .narrow(-1, 0, size[2]);
  if (volume) d.image = d.image.narrow(2, 0, size[0]);
  d.image = d.image.clamp(0, 1);
  return d;
}

/// The middle of an image, at most `side` wide and high; of a volume that of its middle slice. (1, C, H, W)
at::Tensor middle(const at::Tensor& of, std::int64_t side) {
  const at::Tensor image = of.dim() == 5 ? of.select(2, of.size(2) / 2) : of;
  const std::int64_t height = std::min(side, image.size(2)), width = std::min(side, image.size(3));
  return image.narrow(2, (image.size(2) - height) / 2, height).narrow(3, (image.size(3) - width) / 2, width);
}

}  // namespace

double validation_psnr(const Network& network, const std::string& folder, double sigma, std::uint64_t seed) {
  double sum = 0;
  std::uint32_t part = 0;
  const std::vector<Picture> pictures =
      training::read_pictures({folder}, {}, network.channels(), network.graph.axes());
  for (const Picture& picture : pictures) {
    beat();
    const Denoised d = denoise(network, picture, part++, sigma, seed);
    sum += -10 * std::log10((d.image - d.clean).to(at::kDouble).square().mean().item<double>());
  }
  return sum / static_cast<double>(pictures.size());
}

namespace training {

void write_preview(const Network& network, const std::string& folder, const std::vector<double>& sigmas,
                   std::uint64_t seed, const std::string& path) {
  constexpr std::int64_t side = 192;
  const Picture picture = read_pictures({folder}, {}, network.channels(), network.graph.axes()).front();
  std::vector<at::Tensor> rows;
  for (const double sigma : sigmas) {
    const Denoised d = denoise(network, picture, 0, sigma, seed);
    rows.push_back(at::cat({middle(d.noisy, side), middle(d.image, side), middle(d.clean, side)}, 3));
  }
  const at::Tensor sheet = at::cat(rows, 2).contiguous();
  const Box box = Box::image2d(sheet.size(2), sheet.size(3));
  const auto sink = create_image(path, {.space = ImageSpace(box, sheet.size(1)), .bits = 8});
  sink->write(box, sheet.data_ptr<float>());
  sink->finish();
}

}  // namespace training
}  // namespace tessera
