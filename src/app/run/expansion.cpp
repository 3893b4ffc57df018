// SPDX-License-Identifier: BSD-3-Clause
// How far a denoiser stretches small changes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/app/diagnostics.hpp"
#include "tessera/physics/noise.hpp"

namespace tessera {
namespace {

constexpr double kChange = 0.01;              // largest value of a change that probes a denoiser
constexpr std::uint32_t kProbePart = 0xFFFF;  // its random numbers: no part of a measurement has this index

}  // namespace

double Expansion::largest() const {
  return gains.empty() ? 0 : *std::max_element(gains.begin(), gains.end());
}

Expansion expansion(Denoiser& denoiser, const at::Tensor& x, double sigma, int passes, std::uint64_t start,
                    const Decomposition& decomposition, const Space& space) {
  const Communicator& comm = space.comm();
  std::vector<std::pair<std::int64_t*, std::int64_t>> counts;  // where a cycle over flips stands
  for (const StateField& field : denoiser.state())
    if (field.count) counts.emplace_back(field.count, *field.count);
  const auto apply = [&](const at::Tensor& in, at::Tensor& out) {
    denoiser.apply(in, sigma, out);
    for (const auto& [place, value] : counts) *place = value;
  };

  at::Tensor base = at::empty_like(x), out = at::empty_like(x);  // out: room, too
  apply(x, base);
  at::Tensor change = base - x;
  if (start > 0) {
    const at::Tensor noise = at::zeros(x.sizes(), at::kDouble);
    add_noise(noise, {.gaussian = 1}, start, kProbePart, decomposition.image(),
              decomposition.block(comm.rank()));
    change = noise.to(x.options());
  }
  Expansion found;
  for (int k = 0; k < passes; ++k) {
    double largest = change.numel() > 0 ? at::abs_out(out, change).max().item().toDouble() : 0;
    comm.all_reduce({&largest, 1}, Reduce::max);
    if (!(largest > 0) || !std::isfinite(largest)) break;
    at::Tensor& moved = change.mul_(kChange / largest).add_(x);
    const double before = space.norm(at::sub_out(out, moved, x));  // as rounded
    apply(moved, out);
    at::sub_out(change, out, base);
    found.gains.push_back(space.norm(change) / before);
  }
  return found;
}

}  // namespace tessera
