// SPDX-License-Identifier: BSD-3-Clause
#include "optimizer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/diag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "small_training.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"

namespace tessera {
namespace {

using test::Folder;
using training::Optimizer, training::orthogonalized;

at::Tensor normal(at::IntArrayRef shape, std::uint32_t part) {
  const Random random(9, RandomStream::noise, part);
  at::Tensor tensor = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data_ptr<float>()[i] = static_cast<float>(random.normal(i));
  return tensor;
}

at::Tensor orthonormal_columns(std::int64_t rows, std::int64_t columns, std::uint32_t part) {
  return std::get<0>(at::linalg_qr(normal({rows, columns}, part)));
}

TEST(Orthogonalized, keeps_the_singular_vectors_and_brings_the_values_near_one) {
  const at::Tensor u = orthonormal_columns(24, 24, 0), v = orthonormal_columns(90, 24, 1);
  at::Tensor values = at::empty({24}, at::kFloat);
  for (int i = 0; i < 24; ++i)
    values.data_ptr<float>()[i] = std::pow(0.8F, static_cast<float>(i));  // to 0.006
  const at::Tensor wide = at::mm(at::mm(u, at::diag(values)), v.t());
  for (const bool tall : {false, true}) {
    at::Tensor o = orthogonalized(tall ? wide.t() : wide);
    if (tall) o = o.t();
    const at::Tensor in_its_own_axes = at::mm(at::mm(u.t(), o), v);
    const at::Tensor gains = in_its_own_axes.diag();
    EXPECT_LT((in_its_own_axes - at::diag(gains)).abs().max().item<float>(), 1e-4) << tall;
    EXPECT_GT(gains.min().item<float>(), 0.6) << tall;
    EXPECT_LT(gains.max().item<float>(), 1.3) << tall;
  }
  EXPECT_EQ(orthogonalized(at::zeros_like(wide)).abs().max().item<float>(), 0);
}

TEST(Optimizer, muon_turns_kernels_that_mix_channels_and_leaves_the_others_to_adam) {
  const Optimizer::Tensors start{{"a", normal({16, 8, 3, 3}, 2)},  // 16 x 72
                                 {"b", normal({16, 1, 3, 3}, 3)},  // depthwise
                                 {"c", normal({16}, 4)}};
  TrainOptions options;
  options.optimizer = OptimizerKind::muon;
  options.clip = 0;
  Optimizer optimizer(start, options);
  const std::vector<at::Tensor> gradients{normal({16, 8, 3, 3}, 5), normal({16, 1, 3, 3}, 6),
                                          normal({16}, 7)};
  optimizer.step(gradients, 1e-2, 0);
  const auto moved = [&](const char* name) {
    return start.at(name) - optimizer.parameters().at(name).detach();
  };
  // The first momentum is along the gradient; its step has 0.2 sqrt(longest side) times singular values near 1.
  const at::Tensor step = moved("a").view({16, 72}) / (1e-2 * 0.2 * std::sqrt(72.0));
  EXPECT_LT((step - orthogonalized(gradients[0].view({16, 72}))).abs().max().item<float>(), 1e-4);
  const at::Tensor values = at::linalg_svdvals(step);
  EXPECT_GT(values.min().item<float>(), 0.6);
  EXPECT_LT(values.max().item<float>(), 1.3);
  for (const int k : {1, 2}) {  // Adam's first step: the sign of the gradient
    const at::Tensor sign = moved(k == 1 ? "b" : "c") / 1e-2;
    EXPECT_LT((sign - gradients[k].sign()).abs().max().item<float>(), 1e-3) << k;
  }
}

TEST(Optimizer, decay_shrinks_kernels_beside_the_step) {
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::muon}) {
    const Optimizer::Tensors start{{"bias", at::full({8}, 2.0, at::kFloat)},
                                   {"kernel", at::full({8, 8, 1, 1}, 2.0, at::kFloat)}};
    TrainOptions options;
    options.optimizer = kind;
    options.weight_decay = 0.5;
    Optimizer optimizer(start, options);
    const std::vector<at::Tensor> zeros{at::zeros_like(start.at("bias")), at::zeros_like(start.at("kernel"))};
    optimizer.step(zeros, 0.1, 0);
    EXPECT_FLOAT_EQ(optimizer.parameters().at("kernel").max().item<float>(), 2 * (1 - 0.1 * 0.5))
        << word(kind);
    EXPECT_FLOAT_EQ(optimizer.parameters().at("bias").max().item<float>(), 2) << word(kind);
  }
}

TEST(Optimizer, a_state_of_another_optimizer_is_refused) {
  const Folder folder("other");
  const Optimizer::Tensors start{{"kernel", normal({8, 8, 3, 3}, 8)}};
  TrainOptions options;
  Optimizer(start, options).save(folder.file("w.state"), 3, 1.5, {});
  EXPECT_EQ(Optimizer(start, options).load(folder.file("w.state"), {}),
            (std::pair<std::int64_t, double>(3, 1.5)));
  options.optimizer = OptimizerKind::muon;
  EXPECT_THROW(Optimizer(start, options).load(folder.file("w.state"), {}), InputError);
}

/// Of the last tenth of the steps.
double last_loss(const TrainOptions& options) {
  double sum = 0;
  TrainOptions watched = options;
  watched.observe = [&](const TrainRecord& record) {
    if (10 * record.step > 9 * options.steps) sum += record.loss;
  };
  EXPECT_EQ(train(watched, Communicator{}), 0);
  return 10 * sum / static_cast<double>(options.steps);
}

TEST(Train, muon_learns_and_resumes_to_the_same_bits) {
  const Folder folder("muon");
  TrainOptions whole = test::small(folder.file("whole.safetensors"));
  whole.network.widths = {8, 16};
  whole.optimizer = OptimizerKind::muon;
  whole.weight_decay = 0.01;
  const double noise = 0.15 * std::sqrt(2 / 3.14159265);  // mean |N(0, 0.15)|: D(x) = x
  EXPECT_LT(last_loss(whole), 0.75 * noise);
  TrainOptions parts = whole;
  parts.output = folder.file("parts.safetensors");
  parts.seconds = 1e-9;  // stops after every step, with its state saved
  for (int call = 0; call < 5; ++call) ASSERT_EQ(train(parts, Communicator{}), 85);
  parts.seconds = 0;
  ASSERT_EQ(train(parts, Communicator{}), 0);
  EXPECT_EQ(test::largest_difference(load_network("drunet", whole.output, 1),
                                     load_network("drunet", parts.output, 1)),
            0.0);
}

TEST(Train, squared_errors_are_learned_from) {
  const Folder folder("squares");
  TrainOptions options = test::small(folder.file("w.safetensors"));
  options.loss = Loss::l2;
  EXPECT_LT(last_loss(options), 0.5 * 0.15 * 0.15);  // D(x) = x has the variance of the noise
}

}  // namespace
}  // namespace tessera
