// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "pack.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/comm/exchange_plan.hpp"

namespace tessera::pack {

/// How one side's array lies in memory; what the programs of a plan depend on.
struct Shape {
  Index3 lo{};            // the pixel at its data pointer
  std::int64_t base = 0;  // of its data pointer, from the one that a program is given
  std::int64_t channel_stride = 0;
  Index3 stride{};

  explicit Shape(const ArrayView& view)
      : lo(view.box.lo()), channel_stride(view.channel_stride), stride(view.stride) {}
  /// Counted from the data of `first`, a view with pixels; elements of `bytes` each.
  Shape(const ArrayView& view, const ArrayView& first, std::int64_t bytes) : Shape(view) {
    if (view.box.empty()) return;
    base = (static_cast<const char*>(view.data) - static_cast<const char*>(first.data)) / bytes;
  }
  std::int64_t offset(const Index3& pixel) const {
    const Index3 p = pixel - lo;
    return base + p[0] * stride[0] + p[1] * stride[1] + p[2] * stride[2];
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.lo == b.lo && a.base == b.base && a.channel_stride == b.channel_stride && a.stride == b.stride;
  }
};

/// The three steps of one direction: before the messages leave, beside them, after they have arrived.
struct Steps {
  Program pack, local, unpack;
};

/// need <- own. pack: own -> packed sends; local: own -> need; unpack: packed receives -> need.
/// `needs`: one shape per needed box. `aliased`: need's memory contains own's, pixel by pixel; such pixels
/// are left as they are.
Steps forward_steps(const ExchangePlan& plan, const Shape& own, const std::vector<Shape>& needs,
                    std::int64_t channels, bool aliased, Packing packing);

/// own += need^T. pack: need -> packed receives; local: need -> own; unpack: packed sends -> own. Sums run in
/// the order of the plan.
Steps transposed_steps(const ExchangePlan& plan, const std::vector<Shape>& needs, const Shape& own,
                       std::int64_t channels, bool aliased, Packing packing);

}  // namespace tessera::pack
