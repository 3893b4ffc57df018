// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/light.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

namespace tessera {
namespace {

// Own loops: torch rounds powers differently at the end of a row of vectors, so blocks of other widths would differ.
template <class Curve>
at::Tensor each(const at::Tensor& values, Curve curve) {
  constexpr std::int64_t kGrain = 1 << 14;
  const at::Tensor from = values.cpu().contiguous();
  at::Tensor to = at::empty_like(from);
  AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "tone_curve", [&] {
    const auto* in = from.const_data_ptr<scalar_t>();
    auto* out = to.data_ptr<scalar_t>();
    at::parallel_for(0, from.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::transform(in + begin, in + end, out + begin,
                     [&](scalar_t v) { return static_cast<scalar_t>(curve(static_cast<double>(v))); });
    });
  });
  return to.to(values.device());
}

}  // namespace

at::Tensor light_of(const at::Tensor& stored, const ToneCurve& curve) {
  if (curve.none()) return stored;
  return each(stored, [&](double v) { return curve.light(v); });
}

at::Tensor stored_of(const at::Tensor& light, const ToneCurve& curve) {
  if (curve.none()) return light;
  return each(light, [&](double v) { return curve.stored(v); });
}

}  // namespace tessera
