// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Detectors mark pixels that measure nothing by the largest number of their type: 2^32 - 1 (Dectris, NeXus),
/// 65535. Such samples are marks where the type is wider than 8 bits, they are less than half of all, and no
/// other sample that is a number reaches an eighth of them: what saturates has neighbors in between.
class MaskedPixels {
 public:
  MaskedPixels() = default;
  explicit MaskedPixels(const std::string& type);
  /// Looks at a sample; false where it is no number, or a mark if marks there are.
  bool count(double v);
  void sum(const Communicator& comm);  // over all ranks. Collective

  bool found() const;
  double mark() const { return mark_; }
  std::int64_t marked() const { return marked_; }
  std::int64_t others() const { return others_; }
  std::string text() const;  // "500 samples of 4294967295"

 private:
  double mark_ = 0;  // 0: the type has none
  double largest_ = 0;
  std::int64_t marked_ = 0, others_ = 0;
};

/// 0, or the power of two by which numbers up to `largest` must be divided so that float32 holds them and
/// what lies far below them.
int float_exponent(double largest);

}  // namespace tessera
