// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "tessera/comm/array.hpp"

namespace tessera {

/// Passes over inputs of a few fixed shapes, each captured once as a CUDA graph and then replayed: one launch
/// in place of hundreds.
///
/// The first call with a shape runs as it is (libraries choose their kernels then), the second is captured on
/// a stream of its own into a memory pool that all shapes share, since one replay runs at a time; later ones
/// copy x and sigma in, replay, and copy the result out. What cannot be captured, and shapes beyond `most`,
/// go on without a graph, and leave nothing behind. Everything is ordered on the current stream; the host
/// waits for the device where a shape is captured (unused memory is given back first), else for nothing. Not
/// thread safe.
class GraphedPasses {
 public:
  /// x, and the noise level as a (1, 1, 1, 1) tensor on the device, to a tensor. Launches only: it must not
  /// wait for the device or read from it.
  using Pass = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& level)>;
  /// Collective, for passes with messages inside: whether it is true on all ranks. They replay or launch alike.
  using Agree = std::function<bool(bool captured_here)>;

  GraphedPasses(Device device, at::TensorOptions level, std::size_t most = 16);
  ~GraphedPasses();

  /// `agree` is called once per shape, at its second call, which all ranks make together. Passes of another
  /// `kind` are others, of whatever shape.
  at::Tensor run(const at::Tensor& x, double sigma, const Pass& pass, const Agree& agree = {},
                 const void* kind = nullptr);

  std::size_t shapes() const;            // seen so far
  std::size_t captured() const;          // of them, those that are replayed
  const std::string& complaint() const;  // why the last capture that failed did; empty: none did

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
