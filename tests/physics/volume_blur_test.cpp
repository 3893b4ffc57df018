// SPDX-License-Identifier: BSD-3-Clause
// Measured kernels of volumes: the definition, voxel by voxel, and the adjoint.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "physics/reference.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using test::difference;
using test::random_tensor;
using test::scalar_product;
using test::source;

std::unique_ptr<LocalOperator> blur(const at::Tensor& taps, Boundary boundary, BlurMethod method,
                                    std::int64_t tile_values = 1 << 24, const Index3& factor = {1, 1, 1},
                                    const Index3& phase = {}) {
  VolumeBlurOptions options;
  options.kernel = taps;
  options.boundary = boundary;
  options.method = method;
  options.tile_values = tile_values;
  options.factor = factor;
  options.phase = phase;
  return make_volume_blur(std::move(options));
}

// (C, d, h, w) over `image`, continued to `box`.
at::Tensor extended(const at::Tensor& x, const Box& box, Border border) {
  at::Tensor out = at::zeros({x.size(0), box.extent(0), box.extent(1), box.extent(2)}, at::kDouble);
  const auto in = x.accessor<double, 4>();
  auto to = out.accessor<double, 4>();
  for (std::int64_t c = 0; c < out.size(0); ++c)
    for (std::int64_t d = 0; d < out.size(1); ++d)
      for (std::int64_t h = 0; h < out.size(2); ++h)
        for (std::int64_t w = 0; w < out.size(3); ++w) {
          const std::int64_t z = source(d + box.lo()[0], x.size(1), border),
                             y = source(h + box.lo()[1], x.size(2), border),
                             v = source(w + box.lo()[2], x.size(3), border);
          if (z >= 0 && y >= 0 && v >= 0) to[c][d][h][w] = in[c][z][y][v];
        }
  return out;
}

// y[k] = sum_j taps[j] x[factor k + offset + origin - j] for (1 or C, d, h, w) taps, from what `extended` gave.
at::Tensor by_definition(const at::Tensor& in, const Box& input, const at::Tensor& taps,
                         const LocalOperator& op, const Box& samples) {
  at::Tensor y =
      at::zeros({in.size(0), samples.extent(0), samples.extent(1), samples.extent(2)}, at::kDouble);
  const auto x = in.accessor<double, 4>();
  const auto tap = taps.accessor<double, 4>();
  auto out = y.accessor<double, 4>();
  const Index3 o = op.anchor().offset, f = op.anchor().factor, lo = input.lo();
  const std::array<std::int64_t, 3> origin{taps.size(1) / 2, taps.size(2) / 2, taps.size(3) / 2};
  for (std::int64_t c = 0; c < y.size(0); ++c)
    for (std::int64_t d = 0; d < y.size(1); ++d)
      for (std::int64_t h = 0; h < y.size(2); ++h)
        for (std::int64_t w = 0; w < y.size(3); ++w)
          for (std::int64_t i = 0; i < taps.size(1); ++i)
            for (std::int64_t j = 0; j < taps.size(2); ++j)
              for (std::int64_t k = 0; k < taps.size(3); ++k)
                out[c][d][h][w] +=
                    tap[taps.size(0) > 1 ? c : 0][i][j][k] *
                    x[c][f[0] * d + o[0] + origin[0] - i - lo[0]][f[1] * h + o[1] + origin[1] - j - lo[1]]
                     [f[2] * w + o[2] + origin[2] - k - lo[2]];
  return y;
}

// The operator on one rank, against the definition and its own adjoint.
void expect_right(const LocalOperator& op, const at::Tensor& taps, const Box& image) {
  const at::Tensor x = random_tensor({2, image.extent(0), image.extent(1), image.extent(2)}, 2);
  const Box samples = op.measurement(image);
  const Box input = op.border() == Border::none ? image : image.grow(op.reach());
  const LocalOperator* self = &op;
  const auto placed =
      op.place({&self, 1}, {ImageSpace(image, 2), input, {samples}, at::TensorOptions(at::kDouble)});
  const at::Tensor in = extended(x, input, op.border());
  at::Tensor y = random_tensor({2, samples.extent(0), samples.extent(1), samples.extent(2)}, 7);
  placed->apply(in, {&y, 1});
  EXPECT_LT(difference(y, by_definition(in, input, taps, op, samples)), 1e-12);
  const at::Tensor v = random_tensor(y.sizes(), 3), u = random_tensor(in.sizes(), 4);
  at::Tensor back = at::zeros(in.sizes(), at::kDouble), forth = at::empty_like(v);
  placed->adjoint({&v, 1}, back);
  placed->apply(u, {&forth, 1});
  EXPECT_NEAR(scalar_product(forth, v), scalar_product(u, back),
              1e-12 * (1 + std::sqrt(scalar_product(u, u) * scalar_product(v, v))));
}

TEST(VolumeBlur, EqualsItsDefinitionAndItsAdjoint) {
  const std::vector<std::array<std::int64_t, 3>> images = {{7, 9, 11}, {1, 8, 5}, {6, 4, 13}};
  const std::vector<std::array<std::int64_t, 3>> kernels = {
      {1, 1, 1}, {3, 3, 3}, {2, 4, 3}, {5, 1, 2}, {8, 9, 12}};
  int cases = 0;
  for (const auto& size : images)
    for (const auto& n : kernels)
      for (const Boundary boundary :
           {Boundary::circular, Boundary::reflect, Boundary::replicate, Boundary::zero, Boundary::valid})
        for (const std::int64_t kernels_of : {1, 2}) {
          if (boundary == Boundary::valid && (size[0] < n[0] || size[1] < n[1] || size[2] < n[2])) continue;
          const at::Tensor taps = random_tensor({kernels_of, n[0], n[1], n[2]}, 1);
          const Box image({0, 0, 0}, {size[0], size[1], size[2]});
          for (const auto& [method, tile] :
               {std::pair{BlurMethod::direct, 1 << 24}, {BlurMethod::fft, 1 << 24}, {BlurMethod::fft, 1}}) {
            SCOPED_TRACE(testing::Message()
                         << image << " taps " << Box({0, 0, 0}, {n[0], n[1], n[2]}) << " boundary "
                         << static_cast<int>(boundary) << " method " << static_cast<int>(method));
            expect_right(*blur(taps, boundary, method, tile), taps, image);
            ++cases;
          }
        }
  EXPECT_GT(cases, 250);
}

// Thick slices, and coarser voxels.
TEST(VolumeBlur, KeepsEveryFactorthSampleFromItsPhase) {
  int cases = 0;
  const Box image({0, 0, 0}, {13, 11, 18});
  for (const auto& [factor, phase] : {std::pair{Index3{3, 1, 1}, Index3{1, 0, 0}},
                                      {Index3{2, 2, 2}, Index3{0, 1, 1}},
                                      {Index3{1, 4, 3}, Index3{0, 3, 0}},
                                      {Index3{5, 1, 16}, Index3{4, 0, 1}}})
    for (const auto& n : {Index3{3, 3, 3}, Index3{4, 1, 2}, Index3{2, 5, 6}})
      for (const Boundary boundary : {Boundary::circular, Boundary::reflect, Boundary::zero, Boundary::valid})
        for (const auto& [method, tile] :
             {std::pair{BlurMethod::direct, 1 << 24}, {BlurMethod::fft, 1 << 24}, {BlurMethod::fft, 1}}) {
          if (boundary == Boundary::valid && image.extent(2) - n[2] < phase[2]) continue;
          SCOPED_TRACE(testing::Message()
                       << "factor " << factor[0] << factor[1] << factor[2] << " taps " << n[0] << n[1] << n[2]
                       << " boundary " << static_cast<int>(boundary) << " method " << static_cast<int>(method)
                       << " tile " << tile);
          const at::Tensor taps = random_tensor({1, n[0], n[1], n[2]}, 1);
          expect_right(*blur(taps, boundary, method, tile, factor, phase), taps, image);
          ++cases;
        }
  EXPECT_GT(cases, 100);
}

TEST(VolumeBlur, ManyTilesInFloatEqualTheDefinition) {
  const at::Tensor taps = random_tensor({1, 5, 9, 7}, 1) + 0.5;
  const Box image({0, 0, 0}, {47, 61, 83});
  const at::Tensor x = random_tensor({1, 47, 61, 83}, 2) + 0.5;
  at::Tensor first;
  for (const std::int64_t tile : {1 << 24, 40000, 9000}) {
    const auto op = blur(taps, Boundary::valid, BlurMethod::fft, tile);
    const Box samples = op->measurement(image);
    const LocalOperator* self = op.get();
    const auto placed =
        op->place({&self, 1}, {ImageSpace(image, 1), image, {samples}, at::TensorOptions(at::kFloat)});
    at::Tensor y = at::empty({1, samples.extent(0), samples.extent(1), samples.extent(2)}, at::kFloat);
    placed->apply(x.to(at::kFloat), {&y, 1});
    if (!first.defined()) first = by_definition(x, image, taps, *op, samples);
    EXPECT_LT(difference(y.to(at::kDouble), first), 1e-6) << tile;
    const double tiles = op->work({&self, 1}, {&samples, 1}, 1).transforms[0].count / 4;
    EXPECT_TRUE(tile == 1 << 24 ? tiles < 4 : tiles > 4) << tiles;
  }
}

TEST(VolumeBlur, RefusesWhatCannotBe) {
  const auto refused = [](VolumeBlurOptions options, const Box& image) {
    try {
      const auto op = make_volume_blur(std::move(options));
      op->channels(3);
      op->measurement(image);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const Box image({0, 0, 0}, {4, 9, 9});
  const at::Tensor taps = random_tensor({5, 3, 3}, 1);
  EXPECT_NE(refused({.kernel = taps, .boundary = Boundary::valid}, image).find("4 pixels on axis 0"),
            std::string::npos);
  EXPECT_EQ(refused({.kernel = taps, .boundary = Boundary::zero}, image), "");
  EXPECT_NE(refused({.kernel = taps, .origin = Index3{0, 3, 0}}, image).find("kernel.center is 3 on axis 1"),
            std::string::npos);
  EXPECT_NE(refused({.kernel = random_tensor({2, 3, 3, 3}, 1)}, image).find("there are 2 kernels"),
            std::string::npos);
  EXPECT_NE(refused({.kernel = random_tensor({3, 3}, 1)}, image).find("has other axes"), std::string::npos);
  EXPECT_NE(refused({.kernel = taps, .factor = {2, 2, 0}}, image).find("operator.factor is 0 on axis 2"),
            std::string::npos);
  EXPECT_NE(refused({.kernel = taps, .factor = {2, 1, 1}, .phase = {2, 0, 0}}, image)
                .find("operator.phase is 2 on axis 0"),
            std::string::npos);
  EXPECT_NE(refused({.kernel = taps / 0.0 * 0.0}, image).find("not finite"), std::string::npos);
}

}  // namespace
}  // namespace tessera
