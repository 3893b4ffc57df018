// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/domain/decomposition.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// Which rank owns which samples of a measurement: the one that owns the anchor pixel.
///
/// Covers measurements smaller than the image (valid), on a coarser grid (decimation) and stacks alike. Host
/// arithmetic, equal on all ranks.
class MeasurementLayout {
 public:
  struct Part {
    std::string name;
    Box box;  // all samples, in the part's own coordinates
    std::int64_t channels = 1;
    Anchor anchor;
  };

  MeasurementLayout() = default;
  MeasurementLayout(const Decomposition& decomposition, std::vector<Part> parts);

  std::size_t parts() const { return parts_.size(); }
  const Part& part(std::size_t i) const { return parts_[i]; }
  /// The samples of part i that this rank owns.
  Box block(std::size_t i, int rank) const;
  /// The same for all ranks.
  Layout layout(std::size_t i) const;
  /// All samples of all parts, channels counted.
  std::int64_t samples() const;

 private:
  Decomposition decomposition_;
  std::vector<Part> parts_;
};

}  // namespace tessera
