// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loader.hpp"
#include "optimizer.hpp"
#include "orbits.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/train/train.hpp"

namespace tessera::training {

/// Sums of the ranks' gradients, on their way while the backward pass still runs.
///
/// The pass makes the gradients of the last layers first. Parameters stand in buckets in that order; a bucket
/// is sent as soon as the pass has made all of it, after those before it, so that all ranks send in the same
/// order. Sums are of double numbers: they do not depend on who adds what first.
/// Source: Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 13
/// (2020) 3005.
///
/// A GPU's pass ends before the first bucket is sent: its hooks run in a thread of torch, which must not call
/// MPI, and a copy to the host would hold it up. A rank alone with its GPU keeps the gradients there.
class GradientSums {
 public:
  static constexpr std::int64_t kBucket = std::int64_t{1} << 17;  // numbers: 1 MiB

  /// Of these leaves. `order`: their names as a forward pass comes to them, alike on all ranks.
  GradientSums(const Optimizer::Tensors& parameters, const std::vector<std::string>& order,
               const Communicator& comm, std::int64_t bucket = kBucket);
  ~GradientSums();
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  /// The next backward pass is the last of this step; what it adds to is the leaves' grad. At most one pass
  /// until finish(), in the thread that calls both; none on a rank without samples.
  void begin();
  /// Sends what is left and waits. The sums, in the order of the parameters' names; `extra` becomes the sum of
  /// the ranks' too. The leaves' gradients are gone. Collective.
  std::vector<at::Tensor> finish(double& extra);
  /// Buckets, and those of them that were sent since begin().
  std::size_t buckets() const { return buckets_.size(); }
  std::size_t sent() const { return sent_; }

 private:
  struct Bucket {
    std::vector<double> sums;
    std::size_t parameters = 0, waits_for = 0;
    Communicator::Pending pending;
  };
  struct Parameter {
    at::Tensor leaf;
    unsigned hook = 0;
    std::size_t bucket = 0;
    std::int64_t at = 0;  // of its numbers in the bucket
    bool made = false;
  };
  bool stay_on_device() const { return !on_host_ && comm_.size() == 1; }
  void made(Parameter& parameter, const at::Tensor& gradient);
  void send(std::size_t until);

  Communicator comm_;
  std::vector<Parameter> parameters_;  // in the order of the names
  std::vector<Bucket> buckets_;        // the last one: `extra`
  std::size_t sent_ = 0;
  bool listening_ = false, on_host_ = true;
};

/// The parameters' names in the order in which the graph comes to them.
std::vector<std::string> order_of(const Graph& graph, const Optimizer::Tensors& parameters);

/// One step's loss, penalty and norms and, in `gradients` (in the order of the parameters' names), the
/// derivatives of loss + penalty; all of them over the whole batch. `batch`: this rank's part. `orbits` may be
/// null; `pictures` are theirs. `sums`: of the optimizer's parameters. Collective.
TrainRecord differentiate(const TrainOptions& options, const Graph& graph, const Batch& batch,
                          const Optimizer& optimizer, const std::vector<Picture>& pictures, Orbits* orbits,
                          std::int64_t step, GradientSums& sums, std::vector<at::Tensor>& gradients,
                          const Communicator& comm);

}  // namespace tessera::training
