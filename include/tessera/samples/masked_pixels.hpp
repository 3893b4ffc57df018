// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Detectors mark pixels that measure nothing by the largest number of their type: 2^32 - 1 (Dectris, NeXus),
/// 65535; programs fill what is missing in floats by 1e20 (numpy.ma, CF), 1e30, 9.96921e36 (netCDF) or the largest
/// number. A counter that is full stands at 2^N - 1 in a wider type: 1048575 of Pilatus' 20 bits. Such samples are marks
/// where the type is wider than 8 bits, they are less than half of all, and no other sample that is a number reaches an
/// eighth of them: what saturates has neighbors in between.
class MaskedPixels {
 public:
  MaskedPixels() = default;
  explicit MaskedPixels(const std::string& type);
  /// Looks at a sample; false where it is no number, or a mark if marks there are.
  bool count(double v);
  void sum(const Communicator& comm);  // over all ranks. Collective

  bool found() const;
  double mark() const { return mark_; }  // the least of those that were seen
  /// visit(value, how many): of those that this rank saw and count() took for marks, which are samples after all.
  template <class Visit>
  void visit_samples(const Visit& visit) const {
    for (const auto& [value, n] : own_)
      if (!found() || value < mark_) visit(value, n);
  }
  std::int64_t marked() const { return marked_; }
  std::int64_t others() const { return others_; }
  std::string mark_text() const;  // "4294967295"
  std::string text() const;       // "500 samples of 4294967295"

 private:
  std::vector<double> marks_;  // of the type, ascending; empty: none
  double least_ = 0;           // from which on a value may be one, or a full counter's
  std::map<double, std::int64_t> own_;
  double mark_ = 0;
  double largest_ = 0;
  std::int64_t marked_ = 0, others_ = 0;
};

/// 0, or the power of two by which numbers up to `largest` must be divided so that float32 holds them and
/// what lies far below them.
int float_exponent(double largest);

}  // namespace tessera
