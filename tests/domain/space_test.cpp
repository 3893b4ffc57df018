// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/space.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/groups.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

TEST(Space, InnerProductsHaveTheirClosedFormOnAnyNumberOfRanks) {
  test::on_groups([](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    // Element i of a vector of n, dealt out unevenly: rank r holds r + 1 of them.
    const std::int64_t mine = comm.rank() + 1, before = comm.rank() * (comm.rank() + 1) / 2;
    const double n = comm.size() * (comm.size() + 1) / 2.0;
    const at::Tensor a = at::arange(before, before + mine, at::kFloat), one = at::ones({mine}, at::kFloat);
    EXPECT_DOUBLE_EQ(space.dot(a, one), n * (n - 1) / 2);
    EXPECT_DOUBLE_EQ(space.dot(a, a), (n - 1) * n * (2 * n - 1) / 6);
    EXPECT_DOUBLE_EQ(space.norm(one), std::sqrt(n));
  });
}

TEST(Space, FloatsAreAccumulatedInDouble) {
  const at::Tensor a = at::full({1, 3000, 1000}, 1.0f + 1.0f / 1024, at::kFloat);
  const double exact = 3e6 * (1.0 + 1.0 / 1024) * (1.0 + 1.0 / 1024);
  EXPECT_NEAR(local_dot(a, a).item().toDouble(), exact, 1e-9 * exact);
}

TEST(Reducer, DeferredNumbersArriveWhenTheBatchIsFinished) {
  test::on_groups([](const Communicator& comm) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    const at::Tensor x = at::full({4}, 2.0, at::kDouble), none = at::zeros({0}, at::kDouble);
    const Deferred ratio = space.relative_norm(x, at::full({4}, 4.0, at::kDouble));
    const Deferred squares = space.norm_squared(comm.rank() == 0 ? x : none);
    EXPECT_TRUE(std::isnan(ratio.value()));
    reducer.launch();
    const Deferred later = reducer.add(1.0);
    reducer.finish();
    EXPECT_NEAR(ratio.value(), 0.5, 1e-6);
    EXPECT_DOUBLE_EQ(squares.value(), 16);
    EXPECT_TRUE(std::isnan(later.value()));
    reducer.launch();
    reducer.finish();
    EXPECT_DOUBLE_EQ(later.value(), comm.size());
    EXPECT_NEAR(ratio.value(), 0.5, 1e-6) << "an old number stays";
  });
}

TEST(TensorMemory, TensorsAreCountedUnderTheOpenUse) {
  track_tensor_memory();
  const std::int64_t data = memory_now(MemoryUse::data), weights = memory_now(MemoryUse::weights);
  {
    const at::Tensor a = at::zeros({1000}, at::kFloat);
    EXPECT_EQ(memory_now(MemoryUse::data) - data, 4000);
    const MemoryScope scope(MemoryUse::weights);
    const at::Tensor b = at::zeros({500}, at::kDouble);
    EXPECT_EQ(memory_now(MemoryUse::weights) - weights, 4000);
  }
  EXPECT_EQ(memory_now(MemoryUse::data), data);
  EXPECT_EQ(memory_now(MemoryUse::weights), weights);
  EXPECT_GE(memory_peak(), 8000);
}

TEST(Tensor, ViewsAddressGlobalPixels) {
  const Box box({0, 10, 20}, {1, 14, 25});
  const at::Tensor t = at::arange(2 * 4 * 5, at::kFloat).reshape({2, 4, 5});
  const ArrayView v = view(t, box);
  EXPECT_EQ(static_cast<float*>(v.data)[1 * v.channel_stride + 2 * v.stride[1] + 3 * v.stride[2]], 33.0f);
  const at::Tensor part = crop(t, box, Box({0, 11, 22}, {1, 13, 25}));
  EXPECT_EQ(part.sizes(), (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_EQ(part[0][0][0].item().toFloat(), 7.0f);
  EXPECT_EQ(empty_block(3, Box(), at::kFloat).numel(), 0);
}

}  // namespace
}  // namespace tessera
