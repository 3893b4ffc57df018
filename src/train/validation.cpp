// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/replication_pad2d.h>

#include <cmath>
#include <vector>

#include "scenes.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/random.hpp"
#include "tessera/train/train.hpp"

namespace tessera {

double validation_psnr(const Network& network, const std::string& folder, double sigma, std::uint64_t seed) {
  const at::NoGradGuard no_gradient;
  const std::int64_t unit = network.alignment();
  double sum = 0;
  std::uint32_t part = 0;
  const std::vector<training::Picture> pictures = training::read_pictures({folder}, {}, network.channels());
  for (const training::Picture& picture : pictures) {
    beat();
    const Random random(seed, RandomStream::noise, part++);
    const at::Tensor clean = at::empty({1, picture.channels, picture.height, picture.width}, at::kFloat);
    at::Tensor noisy = at::empty(clean.sizes(), at::kFloat);
    for (std::int64_t i = 0; i < clean.numel(); ++i) {
      clean.data_ptr<float>()[i] = static_cast<float>(picture.values[i]) / 255.0F;
      noisy.data_ptr<float>()[i] = clean.data_ptr<float>()[i] + static_cast<float>(sigma * random.normal(i));
    }
    // Padded once at its end, as every executor does.
    const std::int64_t below = (unit - picture.height % unit) % unit;
    const std::int64_t right = (unit - picture.width % unit) % unit;
    noisy = at::replication_pad2d(noisy, {0, right, 0, below}).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor out = evaluate(network.graph, network.weights, noisy, at::full({1}, sigma, at::kFloat))
                               .narrow(2, 0, picture.height)
                               .narrow(3, 0, picture.width)
                               .clamp(0, 1);
    const double error = (out - clean).to(at::kDouble).square().mean().item<double>();
    sum += -10 * std::log10(error);
  }
  return sum / static_cast<double>(pictures.size());
}

}  // namespace tessera
