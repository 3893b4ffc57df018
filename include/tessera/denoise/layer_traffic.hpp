// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/graph.hpp"
#include "tessera/domain/decomposition.hpp"

namespace tessera {

/// Convolutions that share an exchange in layer mode: what the options say, or a choice by the blocks' size.
int layer_halo_depth(const Graph& graph, const Decomposition& decomposition, const ExecutionOptions& options);

/// What each rank sends per call in layer mode, by arithmetic alone. Averaging multiplies it; with
/// Averaging::cycle it is one pass.
class LayerTraffic {
 public:
  LayerTraffic(const Graph& graph, const Decomposition& decomposition, const ExecutionOptions& options,
               std::int64_t channels);
  LayerTraffic(LayerTraffic&&) noexcept;
  LayerTraffic& operator=(LayerTraffic&&) noexcept;
  ~LayerTraffic();

  /// Exchanges of one kind: this many per call, each of so many bytes in so many messages.
  struct Exchanges {
    std::int64_t count = 0, bytes = 0, messages = 0;
  };
  std::vector<Exchanges> of(int rank) const;
  std::int64_t exchanges() const;  // per call
  std::int64_t bytes_sent(int rank) const;
  std::int64_t messages(int rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
