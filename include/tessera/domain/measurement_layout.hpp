// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// A measurement: parts with a grid of samples each, and which rank owns which of them.
///
/// A part's grid is its own: pixels of the image, a coarser or a smaller grid, angles and detector cells. Who
/// owns the samples is a Layout of that grid; every sample has one owner. Host arithmetic, equal on all
/// ranks.
class MeasurementLayout {
 public:
  struct Part {
    std::string name;
    Box box;  // all samples, in the part's own coordinates
    std::int64_t channels = 1;
    Layout owners;                   // of the samples, one box per rank
    std::optional<Anchor> anchor{};  // where they stand on the image grid; none: nowhere in particular
    bool of_volume = false;          // they stand on the grid of a volume
    Axes axes() const { return of_volume ? Axes::volume : axes_of(box); }
  };

  MeasurementLayout() = default;
  explicit MeasurementLayout(std::vector<Part> parts) : parts_(std::move(parts)) {}

  std::size_t parts() const { return parts_.size(); }
  const Part& part(std::size_t i) const { return parts_[i]; }
  /// The samples of part i that this rank owns.
  const Box& block(std::size_t i, int rank) const { return parts_[i].owners.box(rank); }
  /// The same for all ranks.
  const Layout& layout(std::size_t i) const { return parts_[i].owners; }
  /// All samples of all parts, channels counted.
  std::int64_t samples() const;

 private:
  std::vector<Part> parts_;
};

/// Owners of samples that stand on the image grid: the rank that owns the anchor pixel. Covers measurements
/// smaller than the image (valid) and on a coarser grid (decimation).
Layout anchored_layout(const Decomposition& decomposition, const Box& samples, const Anchor& anchor);
/// A part whose samples stand on the image grid.
MeasurementLayout::Part anchored_part(const Decomposition& decomposition, const LocalOperator& op,
                                      std::int64_t channels);
/// Owners of samples that stand nowhere in particular: the box cut along its longest axis, as evenly as it
/// goes.
Layout even_layout(const Box& samples, int ranks);

}  // namespace tessera
