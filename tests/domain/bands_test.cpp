// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/bands.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "tessera/core/memory.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

at::Tensor ramp(at::IntArrayRef sizes) {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  return at::arange(n, at::kFloat).remainder_(1009).view(sizes);
}

TEST(Bands, are_the_whole_images_part_by_part) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{3, 700, 601}, {1, 1, 1}, {2, 0, 5}, {3, 64, 64}, {1, 40, 130, 77}}) {
    const at::Tensor a = ramp(sizes), b = ramp(sizes).mul(0.5);
    at::Tensor out = at::empty(sizes, at::kFloat);
    std::int64_t seen = 0;
    by_bands(
        [&](at::Tensor to, const at::Tensor& x, const at::Tensor& y) {
          to.copy_(x).sub_(y);
          seen += to.numel();
        },
        out, a, b);
    EXPECT_EQ(seen, out.numel());
    EXPECT_TRUE(out.equal(a - b));
  }
}

TEST(Bands, share_a_plane_among_channels_and_pass_over_what_is_not_there) {
  const at::Tensor x = ramp({3, 600, 701}), shared = ramp({1, 600, 701}).add_(1), odd = ramp({1, 1, 701});
  for (const at::Tensor& w : {shared, odd}) {
    at::Tensor out = x.clone();
    by_bands(
        [&](at::Tensor to, const at::Tensor& weight, const at::Tensor& none) {
          EXPECT_FALSE(none.defined());
          to.mul_(weight);
        },
        out, w, at::Tensor());
    EXPECT_TRUE(out.equal(x * w));
  }
  at::Tensor turned = ramp({601, 700, 3}).permute({2, 0, 1}), same = turned.clone();
  by_bands([](at::Tensor to) { to.add_(1); }, turned);
  EXPECT_TRUE(turned.equal(same + 1));
}

// The sums do not depend on where an image lies.
TEST(Bands, add_up_the_same_in_a_file) {
  const auto sums = [] {
    const at::Tensor x = ramp({3, 500, 611}), y = ramp({3, 500, 611}).add_(3);
    BandSum sum;
    read_by_bands([&](const at::Tensor& a, const at::Tensor& b) { sum.add(local_dot(a, b)); }, x, y);
    return sum.value().item<double>();
  };
  track_tensor_memory();
  const double in_memory = sums();
  const auto scratch = std::make_shared<Scratch>(std::filesystem::current_path().string(), resident_bytes());
  const ScratchScope scope(scratch, 1 << 18);
  EXPECT_EQ(sums(), in_memory);
  EXPECT_GT(scratch->largest(), 0);
}

}  // namespace
}  // namespace tessera
