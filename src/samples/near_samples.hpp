// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/product_space.hpp"

namespace tessera {

/// This rank's samples of a part and those that it sees beside them, some slices of a volume or rows of a picture at a time:
/// looks at neighbors within a slice take no memory beside what they find.
///
///   for (NearSamples near({y, counted}, layout, part, comm, seen, Border::none); near.next();) ...
class NearSamples {
 public:
  /// `kinds`: tensors over this rank's block, of as many channels each. The second says what counts: the first is 0 where it
  /// is 0. `seen`: what is needed to look at the samples of a box; a picture's are cut at multiples of kTile rows, so that
  /// tiles by their first sample lie in one of them. Kinds stay in place.
  NearSamples(std::vector<at::Tensor> kinds, const ProductSpace& layout, std::size_t part,
              const Communicator& comm, std::function<Box(const Box&)> seen, Border border);

  /// The next ones; false: there are none. Every rank has as many. Collective.
  bool next();

  static constexpr std::int64_t kTile = 16;
  const Box& own() const { return own_; }    // of this rank, that are looked at; may be empty
  const Box& seen() const { return seen_; }  // what at() holds
  /// One channel of one kind over seen(): rows of its slices.
  const float* at(std::size_t kind, std::int64_t channel) const {
    return near_[kind].const_data_ptr<float>() + channel * seen_.pixels();
  }
  const at::Tensor& of(std::size_t kind) const { return near_[kind]; }
  std::int64_t channels() const { return channels_; }

 private:
  std::vector<at::Tensor> kinds_, near_;
  Layout layout_;
  Box all_, own_, seen_;
  Axes axes_;
  int rank_;
  std::function<Box(const Box&)> seen_of_;
  Border border_;
  std::shared_ptr<Transport> transport_;
  std::int64_t channels_, slab_ = 0, slabs_ = 0;
};

}  // namespace tessera
