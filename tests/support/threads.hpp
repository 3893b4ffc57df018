// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <vector>

namespace tessera::test {

/// `work()` gives the same bits with 1, 2 and 3 threads. It returns tensors that it has made anew.
template <class Work>
void same_on_any_threads(Work work) {
  const int before = at::get_num_threads();
  std::vector<at::Tensor> expected;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const std::vector<at::Tensor> got = work();
    if (threads == 1) {
      expected = got;
      ASSERT_FALSE(got.empty());
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_GT(got[i].numel(), 0);
      EXPECT_TRUE(got[i].equal(expected[i])) << "tensor " << i << " on " << threads << " threads";
    }
  }
  at::set_num_threads(before);
}

}  // namespace tessera::test
