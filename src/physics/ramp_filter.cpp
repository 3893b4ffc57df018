// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/ramp_filter.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

double norm(const Vector3& a) { return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]); }

// pitch times the spectrum of h, (length / 2 + 1), real.
at::Tensor ramp(std::int64_t length, double pitch, RampWindow window) {
  at::Tensor h = at::zeros({length}, at::kDouble);
  double* at = h.mutable_data_ptr<double>();
  at[0] = 1 / (4 * pitch);
  for (std::int64_t n = 1; n <= length / 2; n += 2) {
    const double x = std::numbers::pi * static_cast<double>(n);
    at[n] = at[length - n] = -1 / (x * x * pitch);
  }
  at::Tensor spectrum = at::real(at::fft_rfft(h)).contiguous();
  const double last = std::numbers::pi / static_cast<double>(spectrum.size(0) - 1);
  const at::Tensor f = at::arange(spectrum.size(0), at::kDouble).mul_(last);
  if (window == RampWindow::hann) spectrum.mul_(at::cos(f).add_(1).mul_(0.5));
  if (window == RampWindow::cosine) spectrum.mul_(at::cos(f.mul(0.5)));
  return spectrum;
}

}  // namespace

at::Tensor ramp_filtered(const at::Tensor& rows, double pitch, RampWindow window) {
  const std::int64_t columns = rows.size(-1);
  at::Tensor out = at::empty_like(rows, at::MemoryFormat::Contiguous);
  if (rows.numel() == 0) return out;
  std::int64_t length = 2;
  while (length < 2 * columns) length *= 2;
  const at::Tensor spectrum = ramp(length, pitch, window).to(rows.options());
  const at::Tensor from = rows.reshape({-1, columns});
  at::Tensor to = out.view({-1, columns});
  const std::int64_t some =
      std::max<std::int64_t>(1, (std::int64_t{1} << 22) / length);  // not all spectra at once
  for (std::int64_t n = 0; n < from.size(0); n += some) {
    const std::int64_t count = std::min(some, from.size(0) - n);
    const at::Tensor filtered =
        at::fft_irfft(at::fft_rfft(from.narrow(0, n, count), length).mul_(spectrum), length);
    to.narrow(0, n, count).copy_(filtered.narrow(1, 0, columns));
  }
  return out;
}

DirectReconstruction direct_reconstruction(const ProjectionGeometry& g) {
  TESSERA_VALIDATE(
      g.beam != Beam::fan,
      "a direct reconstruction of a fan beam (its weights are not the adjoint's) use beam: cone or "
      "an iterative solver");
  for (const ProjectionView& view : g.views)
    TESSERA_VALIDATE(
        view.u[2] == 0 && view.v[0] == 0 && view.v[1] == 0,
        "a direct reconstruction with a detector that leans (rows would have to be filtered along "
        "another line) use an iterative solver");
  const ProjectionView& first = g.views.front();
  const double u = norm(first.u), v = norm(first.v), enlarged = magnification(g, 0);
  const Vector3& side = g.volume.voxel;
  DirectReconstruction direct;
  direct.pitch = u / enlarged;
  const bool cone = g.beam == Beam::cone;
  // A flat volume has one row of the detector on its one slice.
  const bool flat = g.volume.size[0] == 1 && g.rows == 1;
  direct.scale = std::numbers::pi / static_cast<double>(g.views.size()) * direct.pitch / (side[0] * side[1]) *
                 (flat && !cone ? 1 : v / enlarged / side[2]);
  if (!cone) {
    direct.before = direct.after = at::ones({1, 1, 1}, at::kDouble);
    return direct;
  }
  direct.before = at::empty({static_cast<std::int64_t>(g.views.size()), g.rows, g.columns}, at::kDouble);
  double* to = direct.before.mutable_data_ptr<double>();
  for (const ProjectionView& view : g.views) {
    // Cosine between a ray and the detector's normal, which is across u, in the plane.
    const double nx = view.u[1] / u, ny = -view.u[0] / u;
    for (std::int64_t j = 0; j < g.rows; ++j) {
      for (std::int64_t i = 0; i < g.columns; ++i) {
        Vector3 ray{};
        for (std::size_t d = 0; d < 3; ++d)
          ray[d] = view.center[d] - view.source[d] +
                   (static_cast<double>(i) - 0.5 * static_cast<double>(g.columns - 1)) * view.u[d] +
                   (static_cast<double>(j) - 0.5 * static_cast<double>(g.rows - 1)) * view.v[d];
        *to++ = std::abs(ray[0] * nx + ray[1] * ny) / norm(ray);
      }
    }
  }
  direct.after = direct.before;
  return direct;
}

at::Tensor sirt_scaling(const at::Tensor& sums, double least) {
  if (sums.numel() == 0) return sums.clone();
  const double floor = least * sums.max().item<double>();
  return at::where(sums.gt(floor), sums.reciprocal(), at::zeros_like(sums));
}

}  // namespace tessera
