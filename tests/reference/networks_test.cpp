// SPDX-License-Identifier: BSD-3-Clause
// Networks with the reference's weights give the reference's outputs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand_like.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "reference/reference.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {
namespace {

using test::Reference;

struct Case {
  const char* file;
  const char* name;  // the network's
  std::int64_t channels, alignment;
  bool takes_sigma;
};

class Networks : public testing::TestWithParam<Case> {
 protected:
  using Weights = std::map<std::string, at::Tensor>;
  static Weights weights_of(const Network& network, at::ScalarType type) {
    Weights weights;
    for (const auto& [key, w] : network.weights) weights[key] = w.is_floating_point() ? w.to(type) : w;
    return weights;
  }
  at::Tensor run(const Network& network, at::ScalarType type) const {
    return run(network, weights_of(network, type), type);
  }
  // The file's output.
  at::Tensor run(const Network& network, const Weights& weights, at::ScalarType type) const {
    const Reference io(std::string(GetParam().file) + "_io");
    const at::Tensor x = io["input"].to(type).unsqueeze(0);
    const at::Tensor sigma = at::full({1}, io.number("sigma"), at::TensorOptions().dtype(type));
    return evaluate(network.graph, weights, x, sigma)[0];
  }
  static Network load() {
    return load_network(GetParam().name, test::reference_path(GetParam().file), GetParam().channels);
  }
};

TEST_P(Networks, IsReadFromItsStateDict) {
  const Network network = load();
  EXPECT_EQ(network.channels(), GetParam().channels);
  EXPECT_EQ(network.alignment()[1], GetParam().alignment);
  EXPECT_EQ(network.takes_sigma(), GetParam().takes_sigma);
}

TEST_P(Networks, GivesTheReferenceOutput) {
  const Network network = load();
  const Reference io(std::string(GetParam().file) + "_io");
  EXPECT_LT(test::difference(run(network, at::kFloat), io["output"]), 1e-5);
  EXPECT_LT(test::difference(run(network, at::kDouble), io["output64"]), 1e-12);
  EXPECT_GT(test::difference(io["input"], io["output"]), 1e-2) << "the network does nothing";
}

TEST_P(Networks, GivesItWithFoldedNorms) {
  const Network network = fold_batch_norm(load());
  const Reference io(std::string(GetParam().file) + "_io");
  EXPECT_LT(test::difference(run(network, at::kFloat), io["output"]), 1e-5);
}

// What the comparison above is worth: every weight tensor, a tenth off, must be seen by it. To first order, by
// at least what it changes a drawn mean of the output's values; statistics of norms, which cannot be differentiated
// by, one after the other.
TEST_P(Networks, NoWeightIsWithoutEffect) {
  const Network network = load();
  const auto statistic = [](const std::string& key) { return key.find(".running_") != std::string::npos; };
  Weights weights = weights_of(network, at::kDouble);
  for (auto& [key, w] : weights)
    if (w.is_floating_point()) w.requires_grad_(!statistic(key));
  const at::Tensor output = run(network, weights, at::kDouble);
  const at::Tensor share = at::rand_like(output);
  (output * share / (share.sum() * output.abs().max().detach())).sum().backward();
  for (auto& [key, w] : weights) {
    if (!w.is_floating_point() || w.eq(0).all().item<bool>()) continue;  // zeros: a bias that was not there
    double change = 0;
    if (statistic(key)) {
      const at::Tensor kept = std::exchange(w, w * 1.1);
      change = test::difference(run(network, weights, at::kDouble), output);
      w = kept;
    } else {
      ASSERT_TRUE(w.grad().defined()) << key;
      change = 0.1 * std::abs((w.grad() * w).sum().item<double>());
    }
    EXPECT_GT(change, 1e-10) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Reference, Networks,
    testing::Values(Case{"drunet_color", "drunet", 3, 8, true}, Case{"drunet_gray", "drunet", 1, 8, true},
                    Case{"dncnn", "dncnn", 3, 1, false}, Case{"unet", "unet", 1, 8, false},
                    Case{"unet_plain", "unet", 3, 2, false}, Case{"gsdrunet", "gsdrunet", 3, 8, true},
                    Case{"ffdnet", "ffdnet", 3, 2, true}, Case{"ffdnet_plain", "ffdnet", 1, 2, true},
                    Case{"scunet", "scunet", 1, 64, false}, Case{"restormer", "restormer", 1, 8, false}),
    [](const auto& info) { return std::string(info.param.file); });

}  // namespace
}  // namespace tessera
