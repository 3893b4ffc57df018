// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "physics/reference.hpp"
#include "support/groups.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera::test {

using Stack = std::vector<std::unique_ptr<LocalOperator>>;

inline std::unique_ptr<LocalOperator> blur(const at::Tensor& taps, Boundary boundary, std::int64_t factor = 1,
                                           BlurMethod method = BlurMethod::automatic) {
  BlurOptions options;
  options.kernel = taps;
  options.boundary = boundary;
  options.factor = factor;
  options.method = method;
  return make_blur(std::move(options));
}

/// Blocks of `align`-pixel units on the grid of the ranks with the least cost.
inline Decomposition cut(const Box& image, int ranks, std::int64_t align = 1) {
  return Decomposition::choose(image, {1, align, align}, ranks,
                               [](const Box& b) { return static_cast<double>(b.pixels()); });
}

inline std::unique_ptr<DistributedOperator> place(const Stack& parts, const Decomposition& cut,
                                                  std::int64_t channels, const Communicator& comm,
                                                  at::ScalarType type = at::kDouble) {
  return make_local_stack({ProductSpace(ImageSpace(cut.image(), channels), cut), at::TensorOptions(type),
                           make_transport(comm, {}, TransportKind::mpi), comm},
                          parts);
}

/// This rank's part of a tensor that every rank knows whole.
inline at::Tensor part_of(const at::Tensor& whole, const Box& all, const Box& block) {
  return crop(whole, all, block).contiguous();
}
inline Measurement parts_of(const Measurement& whole, const ProductSpace& layout, int rank) {
  Measurement y;
  for (std::size_t i = 0; i < whole.size(); ++i)
    y.push_back(part_of(whole[i], layout.part(i).box(), layout.block(i, rank)));
  return y;
}

/// The largest difference on any rank, relative to the largest value of `scale`.
inline double worst(const Communicator& comm, const at::Tensor& a, const at::Tensor& b,
                    const at::Tensor& scale) {
  double d =
      a.numel() > 0 ? (a - b).abs().max().item<double>() / (1e-300 + scale.abs().max().item<double>()) : 0.0;
  comm.all_reduce({&d, 1}, Reduce::max);
  return d;
}

}  // namespace tessera::test
