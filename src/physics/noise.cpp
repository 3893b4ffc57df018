// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/noise.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"

namespace tessera {
namespace {

// Rounds to 36 significant bits.
double snap(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(mantissa * 0x1p36), exponent - 36);
}

// A Poisson sample takes draws 0, 1, ... of its counter and never so many.
constexpr std::uint32_t kGaussianDraw = 1u << 23;

}  // namespace

void add_noise(const at::Tensor& clean, const NoiseModel& model, std::uint64_t seed, std::uint32_t part,
               const Box& all, const Box& block) {
  TESSERA_EXPECT(clean.scalar_type() == at::kDouble, "clean samples are ", clean.scalar_type(),
                 " (Poisson counts would depend on the ranks) make them in float64");
  TESSERA_VALIDATE(model.gaussian >= 0 && model.poisson >= 0, "noise has a level below zero (gaussian ",
                   model.gaussian, ", poisson ", model.poisson, ") write positive numbers");
  if ((model.gaussian == 0 && model.poisson == 0) || block.empty()) return;
  const Random random(seed, RandomStream::noise, part, 0);
  at::Tensor host = clean.cpu().contiguous();
  double* samples = host.data_ptr<double>();
  const std::int64_t rows = block.extent(0) * block.extent(1), columns = block.extent(2);
  std::atomic<bool> negative{false};
  at::parallel_for(0, clean.size(0) * rows, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t c = line / rows, d = line % rows / block.extent(1), h = line % block.extent(1);
      const Index3 p = Index3{d, h, 0} + block.lo() - all.lo();
      std::int64_t index = ((c * all.extent(0) + p[0]) * all.extent(1) + p[1]) * all.extent(2) + p[2];
      for (std::int64_t w = 0; w < columns; ++w, ++index) {
        double& y = samples[line * columns + w];
        if (model.poisson > 0) {
          if (y < -1e-6) negative.store(true, std::memory_order_relaxed);
          y = model.poisson * random.poisson(index, snap(std::max(0.0, y / model.poisson)));
          if (model.gaussian > 0) y += model.gaussian * random.normal(index, kGaussianDraw);
        } else {
          y += model.gaussian * random.normal(index);
        }
      }
    }
  });
  TESSERA_VALIDATE(
      !negative.load(),
      "the clean measurement has values below zero (a Poisson mean is not negative) use Gaussian "
      "noise, or a kernel and a picture without negative values");
  if (host.data_ptr() != clean.data_ptr()) clean.copy_(host);
}

}  // namespace tessera
