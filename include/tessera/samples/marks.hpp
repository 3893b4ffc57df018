// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// What the values of a file of marks are, all of them, over all ranks. Values that are no numbers (NaN,
/// infinite) are counted and left out of the rest.
struct MarkValues {
  std::int64_t samples = 0, not_numbers = 0;
  double least = 0, most = 0;
  bool whole = true;             // all are whole numbers
  std::vector<double> distinct;  // ascending; kMany of them: or more
  /// Samples up to an eighth of `most`, from seven eighths on, and the rest; not counted where they are 0 and
  /// one more, or one is below 0.
  std::int64_t low = 0, high = 0, between = 0;
  std::int64_t at_most = 0;  // of the high ones, those that are `most`
  static constexpr std::size_t kMany = 17;

  /// Compressed or resampled marks of two values: nearly all samples lie beside one of two ends.
  bool two_ended() const { return low > between && high > between; }
};

/// Visits all values of this rank, in any pieces; called twice.
using VisitValues = std::function<void(const std::function<void(const double*, std::int64_t)>&)>;

/// Collective, where `visit` may be too.
MarkValues survey_marks(const VisitValues& visit, const Communicator& comm);

/// Which values are marks: those that are not 0, or from `threshold` on where that is above 0.
struct MarkRule {
  double threshold = 0;
  std::string note = {};  // a line for the user, or empty

  bool marks(float value) const;  // false where it is not a number
};

/// A mask marks, whatever its type and its two values, the samples that are not 0. Values between two ends, as
/// compression and resampling leave them, are marks from half the larger end on; whole numbers that are labels
/// or flags are marks where not 0. InputError for gains, photographs and values below 0. `name`: of the file.
MarkRule rule_of_mask(const std::string& name, const MarkValues& values);

/// Weights that are a compressed mask of 8 or 16 bits; nothing where they are anything else.
std::optional<MarkRule> rule_of_weights(const MarkValues& values);

}  // namespace tessera
