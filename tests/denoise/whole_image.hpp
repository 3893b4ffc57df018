// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/replication_pad3d.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/denoise/denoiser.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera::test {

/// A pattern that every rank makes alike, without random state.
inline at::Tensor picture(std::int64_t channels, std::int64_t height, std::int64_t width,
                          at::ScalarType type) {
  at::Tensor x = at::zeros({channels, height, width}, at::kDouble);
  auto a = x.accessor<double, 3>();
  std::uint64_t state = 1;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        a[c][i][j] = static_cast<double>(state >> 11) / 9007199254740992.0;
      }
  return x.to(type);
}

/// A narrow network with random weights.
inline Network tiny(const std::string& name, std::int64_t channels,
                    const std::vector<std::int64_t>& widths = {4, 6, 8}) {
  NetworkOptions o;
  o.name = name;
  o.channels = channels;
  o.widths = name == "dncnn" || name == "ffdnet" ? std::vector<std::int64_t>{widths[1]} : widths;
  o.blocks = 1;
  o.depth = 5;
  if (name == "scunet") {
    o.blocks = 2;  // the second one has shifted windows
    o.head = 2;
    for (std::int64_t& width : o.widths) width = (width + 3) / 4 * 4;
  }
  if (name == "restormer") {
    const std::int64_t w = widths[0];
    o.widths = {w, 2 * w, 4 * w, 8 * w};
    o.head = w;
  }
  return random_network(o, 3);
}

inline at::Tensor turned(const at::Tensor& x, int symmetry) {
  at::Tensor y = symmetry & 4 ? x.transpose(-2, -1) : x;
  if (symmetry & 2) y = y.flip({-2});
  return symmetry & 1 ? y.flip({-1}) : y;
}
inline at::Tensor turned_back(at::Tensor y, int symmetry) {
  if (symmetry & 2) y = y.flip({-2});
  if (symmetry & 1) y = y.flip({-1});
  return symmetry & 4 ? y.transpose(-2, -1) : y;
}

/// The image padded once at its end to the network's alignment, as a batch of one.
inline at::Tensor padded(const Network& network, const at::Tensor& image) {
  const Index3 unit = network.alignment();
  std::vector<std::int64_t> pad;  // columns first
  for (std::int64_t axis = 2, at = image.dim() - 1; at > 0; --axis, --at) {
    const std::int64_t a = unit[static_cast<std::size_t>(axis)];
    pad.insert(pad.end(), {0, (a - image.size(at) % a) % a});
  }
  const at::Tensor x = image.unsqueeze(0);
  return image.dim() == 4 ? at::replication_pad3d(x, pad) : at::replication_pad2d(x, pad);
}

/// The definition: pad once at the end, the mean over these symmetries of the whole image, crop.
inline at::Tensor whole(const Network& network, const at::Tensor& image, double sigma,
                        std::vector<int> symmetries = {0}) {
  at::Tensor x = padded(network, image);
  if (x.size(1) != network.channels()) {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[1] = network.channels();
    x = x.expand(sizes);
  }
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, weight] : network.weights) weights[name] = weight.to(x.scalar_type());
  at::Tensor sum;
  for (const int s : symmetries) {
    const at::Tensor y =
        turned_back(evaluate(network.graph, weights, turned(x, s), at::full({1}, sigma, x.options())), s);
    sum = sum.defined() ? sum + y : y;
  }
  sum = sum / static_cast<double>(symmetries.size());
  if (image.size(0) != network.channels()) sum = sum.mean(1, true);
  at::Tensor out = sum[0];
  for (std::int64_t axis = 1; axis < image.dim(); ++axis) out = out.narrow(axis, 0, image.size(axis));
  return out;
}

/// The box of an image (C, H, W) or (C, D, H, W).
inline Box box_of(const at::Tensor& image) {
  return {{0, 0, 0}, {image.dim() == 4 ? image.size(1) : 1, image.size(-2), image.size(-1)}};
}

/// An image cut over the ranks, on the grid that a run would take, or on a given one.
struct Blocks {
  DenoiserContext context;
  Box own;
  Device device;

  /// `transport`: that of a run in place of plain messages.
  Blocks(const Communicator& comm, const Network& network, const at::Tensor& image, Device where = {},
         std::shared_ptr<Transport> transport = {})
      : device(where), given(std::move(transport)) {
    set(comm, image.size(0),
        Decomposition::choose(box_of(image), network.alignment(), comm.size(),
                              [](const Box& b) { return static_cast<double>(b.pixels()); }));
  }
  Blocks(const Communicator& comm, const Network& network, const at::Tensor& image, const Grid3& grid) {
    set(comm, image.size(0), Decomposition(box_of(image), network.alignment(), grid));
  }
  Blocks(const Communicator& comm, const at::Tensor& image, const Decomposition& d) {
    set(comm, image.size(0), d);
  }
  at::Tensor part(const at::Tensor& image) const { return crop(image, box_of(image), own).contiguous(); }

 private:
  std::shared_ptr<Transport> given;
  void set(const Communicator& comm, std::int64_t channels, const Decomposition& d) {
    context = {d, ImageSpace(d.image(), channels), comm,
               given ? given : make_transport(comm, device, TransportKind::mpi)};
    own = d.block(comm.rank());
  }
};

/// Largest difference on this rank's block, relative to the whole result; 0 for empty blocks.
inline double difference(const Blocks& s, Denoiser& d, const at::Tensor& image, double sigma,
                         const at::Tensor& want) {
  at::Tensor in = s.part(image);
  if (s.device.is_cuda()) in = in.to(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(s.device.index)));
  const at::Tensor before = in.clone();
  at::Tensor out = at::full_like(in, -7.0);
  d.apply(in, sigma, out);
  EXPECT_TRUE(in.equal(before));
  if (in.numel() == 0) return 0;
  return ((out.cpu() - s.part(want)).abs().max() / want.abs().max()).item<double>();
}

constexpr double kSigma = 0.1;

}  // namespace tessera::test
