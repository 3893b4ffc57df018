// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/precision.hpp"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "domain/operators.hpp"

namespace tessera {
namespace {

bool all_are(at::Float32Precision wanted) {
  const auto is = [&](at::Float32Op op) {
    return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) == wanted;
  };
  return is(at::Float32Op::CONV) && is(at::Float32Op::MATMUL);
}

void torchs_default() {
  for (const auto op : {at::Float32Op::CONV, at::Float32Op::MATMUL})
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, op, at::Float32Precision::TF32);
}

TEST(Precision, OperatorsAloneSetIeeeProducts) {
  torchs_default();
  const Communicator self;
  test::Stack parts;
  parts.push_back(make_identity());
  const auto A = test::place(parts, test::cut(Box::image2d(8, 8), 1), 1, self, at::kFloat);
  EXPECT_TRUE(all_are(at::Float32Precision::IEEE));
}

TEST(Precision, Tf32EndsWithItsScope) {
  use_ieee_products();
  {
    const Tf32Scope scope(true);
    EXPECT_TRUE(all_are(at::Float32Precision::TF32));
  }
  EXPECT_TRUE(all_are(at::Float32Precision::IEEE));
  const Tf32Scope off(false);
  EXPECT_TRUE(all_are(at::Float32Precision::IEEE));
}

}  // namespace
}  // namespace tessera
