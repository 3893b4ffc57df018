// SPDX-License-Identifier: BSD-3-Clause
// The steps of total_variation_step.hpp for volumes, by tensor operators on any device.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>

#include "tv/total_variation_step.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kAxes = 3;

at::Tensor cut(const at::Tensor& t, const Box& box) {
  at::Tensor out = t;
  for (std::int64_t d = 0; d < kAxes; ++d) {
    const auto axis = static_cast<std::size_t>(d);
    out = out.narrow(d + 1, box.lo()[axis], box.extent(axis));
  }
  return out;
}

// One of the six vector components: 0 to 2 of q, 3 to 5 of p; (C, D, H, W).
at::Tensor field(const at::Tensor& state, std::int64_t k) {
  const std::int64_t channels = state.size(0) / (2 * kAxes);
  return state.narrow(0, k * channels, channels);
}

// v - strength D^T of the components from `first` on, on a part.
at::Tensor primal(const at::Tensor& state, std::int64_t first, const at::Tensor& image, double strength,
                  const Box& a) {
  at::Tensor x = cut(field(state, first), a).clone();
  for (std::int64_t d = 1; d < kAxes; ++d) x.add_(cut(field(state, first + d), a));
  x.mul_(strength).add_(cut(image, a));
  for (std::size_t d = 0; d < kAxes; ++d) {
    const std::int64_t edge = a.lo()[d] == 0;  // nothing lies before the first pixel
    if (a.extent(d) <= edge) continue;
    Index3 lo = a.lo(), hi = a.hi();
    lo[d] += edge - 1;
    hi[d] -= 1;
    const auto axis = static_cast<std::int64_t>(d);
    x.narrow(axis + 1, edge, x.size(axis + 1) - edge)
        .sub_(cut(field(state, first + axis), Box(lo, hi)), strength);
  }
  return x;
}

}  // namespace

void tv_step_volume(at::Tensor& state, const at::Tensor& image, double strength, double momentum,
                    const Box& a) {
  if (a.empty()) return;
  Index3 hi = a.hi();
  for (std::size_t d = 0; d < kAxes; ++d)
    hi[d] = std::min(hi[d] + 1, image.size(static_cast<std::int64_t>(d) + 1));
  const Box wide(a.lo(), hi);
  const at::Tensor x = primal(state, 0, image, strength, wide);
  const Index3 zero{0, 0, 0};
  const at::Tensor here = cut(x, Box(zero, a.hi() - a.lo()));
  std::array<at::Tensor, kAxes> along;
  at::Tensor squares;
  for (std::size_t d = 0; d < kAxes; ++d) {
    along[d] = at::zeros_like(here);
    Index3 to = a.hi() - a.lo(), from{};
    to[d] = std::min(to[d], wide.extent(d) - 1);  // differences that exist
    if (to[d] > 0) {
      from[d] = 1;
      cut(along[d], Box(zero, to)).copy_(cut(x, Box(from, to + from)) - cut(x, Box(zero, to)));
    }
    along[d].mul_(1 / (4 * kAxes * strength)).add_(cut(field(state, static_cast<std::int64_t>(d)), a));
    squares = d == 0 ? along[d].square() : squares.addcmul_(along[d], along[d]);
  }
  squares.clamp_min_(1).sqrt_();
  for (std::size_t d = 0; d < kAxes; ++d) {
    const auto k = static_cast<std::int64_t>(d);
    along[d].div_(squares);
    cut(field(state, k), a).copy_(along[d].mul(1 + momentum).sub_(cut(field(state, kAxes + k), a), momentum));
    cut(field(state, kAxes + k), a).copy_(along[d]);
  }
}

at::Tensor tv_primal_volume(const at::Tensor& state, const at::Tensor& image, double strength, const Box& a) {
  return primal(state, kAxes, image, strength, a);
}

}  // namespace tessera
