// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

// The two ways to run a network on a distributed image. The options have been checked.

/// This rank's share of a potential (NetworkOptions::potential) in one call of a denoiser, added up from
/// passes over parts of its block; undefined for networks that were not asked for one. A gray image that is
/// replicated for a color network has a third of the potential, whose gradient is the mean of the channels.
class PotentialSum {
 public:
  PotentialSum(const Network& network, std::int64_t image_channels);
  /// A call begins, the mean of so many passes; once more where it has to be repeated.
  void begin(std::size_t passes);
  /// What the pixels of this part (C, h, w) of a pass's result add.
  void add(const at::Tensor& part);
  /// The image's channels of a pass's result (N, C, H, W).
  at::Tensor image(const at::Tensor& result) const;
  at::Tensor value() const { return sum_; }

 private:
  std::int64_t channels_;
  double replicas_;
  bool asked_;
  double share_ = 1;
  at::Tensor sum_;
};

/// On windows of the block, one exchange per call; whole is one window. One denoiser for each context (of one
/// image in turned axes); they share their weights and the choice of patch and batch.
std::vector<std::unique_ptr<Denoiser>> make_window_denoisers(const Network& network,
                                                             const ExecutionOptions& options,
                                                             const std::vector<DenoiserContext>& contexts);
/// Layer by layer on whole blocks. They share their weights.
std::vector<std::unique_ptr<Denoiser>> make_layer_denoisers(const Network& network,
                                                            const ExecutionOptions& options,
                                                            const std::vector<DenoiserContext>& contexts);

}  // namespace tessera
