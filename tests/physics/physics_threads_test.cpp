// SPDX-License-Identifier: BSD-3-Clause
// The bits of operators and noise do not depend on the number of threads. Sizes that threads cannot share
// evenly, nor in full vectors.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "overlap_save.hpp"
#include "physics/reference.hpp"
#include "support/threads.hpp"
#include "tessera/physics/noise.hpp"

namespace tessera {
namespace {

using test::random_tensor;
using test::same_on_any_threads;

const Box kImage = Box::image2d(251, 203);

TEST(PhysicsThreads, NoiseHasTheSameBits) {
  const at::Tensor clean = random_tensor({3, 251, 203}, 1) + 0.6;
  same_on_any_threads([&] {
    std::vector<at::Tensor> y = {clean.clone(), clean.clone()};
    add_noise(y[0], {0.1, 0}, 3, 0, kImage, kImage);
    add_noise(y[1], {0.1, 0.01}, 3, 1, kImage, kImage);
    return y;
  });
}

// apply() of one operator to random pixels, and adjoint() of random samples.
std::vector<at::Tensor> both_ways(const LocalOperator& op, at::ScalarType type, const Box& image = kImage) {
  const Box samples = op.measurement(image), input = image.grow(op.reach());
  const LocalOperator* self = &op;
  const auto placed = op.place({&self, 1}, {ImageSpace(image, 3), input, {samples}, at::TensorOptions(type)});
  const at::Tensor x = random_tensor({3, input.extent(1), input.extent(2)}, 4).to(type);
  const at::Tensor v = random_tensor({3, samples.extent(1), samples.extent(2)}, 5).to(type);
  at::Tensor y = at::empty(v.sizes(), v.options()), back = at::zeros(x.sizes(), x.options());
  placed->apply(x, {&y, 1});
  placed->adjoint({&v, 1}, back);
  return {y, back};
}

TEST(PhysicsThreads, MasksHaveTheSameBits) {
  same_on_any_threads([] { return both_ways(*make_random_mask(0.3, 7), at::kFloat); });
}

TEST(PhysicsThreads, BlursOfVolumesHaveTheSameBits) {
  const Box image({0, 0, 0}, {19, 51, 43});
  for (const BlurMethod method : {BlurMethod::direct, BlurMethod::fft})
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(testing::Message() << "method " << static_cast<int>(method) << " type " << type);
      same_on_any_threads([&] {
        VolumeBlurOptions options;
        options.kernel = random_tensor({3, 5, 4}, 1);
        options.boundary = Boundary::zero;
        options.method = method;
        const auto op = make_volume_blur(options);
        const Box input = image.grow(op->reach());
        const LocalOperator* self = op.get();
        const auto placed =
            op->place({&self, 1}, {ImageSpace(image, 1), input, {image}, at::TensorOptions(type)});
        const at::Tensor x =
            random_tensor({1, input.extent(0), input.extent(1), input.extent(2)}, 4).to(type);
        const at::Tensor v = random_tensor({1, 19, 51, 43}, 5).to(type);
        at::Tensor y = at::empty(v.sizes(), v.options()), back = at::zeros(x.sizes(), x.options());
        placed->apply(x, {&y, 1});
        placed->adjoint({&v, 1}, back);
        return std::vector<at::Tensor>{y, back};
      });
    }
}

TEST(PhysicsThreads, BlursHaveTheSameBits) {
  for (const BlurMethod method : {BlurMethod::direct, BlurMethod::fft})
    for (const std::int64_t factor : {1, 2})
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        SCOPED_TRACE(testing::Message()
                     << "method " << static_cast<int>(method) << " factor " << factor << " type " << type);
        same_on_any_threads([&] {
          BlurOptions options;
          options.kernel = gaussian_kernel({1.2, 0.8}, 20);
          options.boundary = Boundary::reflect;
          options.method = method;
          options.factor = factor;
          return both_ways(*make_blur(options), type);
        });
      }
}

// Threads take a tile each, and what tiles share is summed in one order.
TEST(PhysicsThreads, TilesOfABlurHaveTheSameBits) {
  const Box image = Box::image2d(1100, 1300);
  BlurOptions options;
  options.kernel = gaussian_kernel({3, 2}, 20);
  options.boundary = Boundary::reflect;
  options.method = BlurMethod::fft;
  const auto blur = make_blur(options);
  const Reach reach = blur->reach();
  const Index2 tiles =
      choose_tiles({1100, 1300}, {reach.lo[1] + reach.hi[1], reach.lo[2] + reach.hi[2]}).count;
  ASSERT_GT(tiles[0] * tiles[1], 3);
  same_on_any_threads([&] { return both_ways(*blur, at::kFloat, image); });
}

TEST(PhysicsThreads, KernelsHaveTheSameBits) {
  same_on_any_threads([] { return std::vector<at::Tensor>{gaussian_kernel({60, 41}, 20)}; });
}

}  // namespace
}  // namespace tessera
