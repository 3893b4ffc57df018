// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/image_space.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// What an operator maps from or to: parts with a grid of points each, and which rank owns which of them. An
/// image has one part, a measurement one per operator of a stack.
///
/// A part's grid is its own: pixels of the image, a coarser or a smaller grid, angles and detector cells. Who
/// owns the points is a Layout of that grid; every point has one owner. Host arithmetic, equal on all ranks.
class ProductSpace {
 public:
  struct Part {
    std::string name;
    ImageSpace space;  // all points, in the part's own coordinates
    Layout owners;     // of the points, one box per rank
    std::optional<Anchor>
        anchor{};  // where they stand on the grid of the domain; none: nowhere in particular
    const Box& box() const { return space.box; }
    const Box& block(int rank) const { return owners.box(rank); }
  };

  ProductSpace() = default;
  explicit ProductSpace(std::vector<Part> parts) : parts_(std::move(parts)) {}
  /// An image, cut into the blocks of a decomposition of its box.
  ProductSpace(const ImageSpace& image, const Decomposition& decomposition);

  std::size_t parts() const { return parts_.size(); }
  const Part& part(std::size_t i) const { return parts_[i]; }
  /// The points of part i that this rank owns.
  const Box& block(std::size_t i, int rank) const { return parts_[i].owners.box(rank); }
  /// The same for all ranks.
  const Layout& layout(std::size_t i) const { return parts_[i].owners; }
  int ranks() const { return parts_.empty() ? 0 : parts_.front().owners.ranks(); }
  /// Real numbers of all parts, on all ranks or on one.
  std::int64_t values() const;
  std::int64_t values(int rank) const;
  /// Parts [first, first + count).
  ProductSpace slice(std::size_t first, std::size_t count) const;
  /// The same with real numbers of so many bytes.
  ProductSpace held_as(std::int64_t element_bytes) const;
  /// The parts of both, one after the other.
  void append(const ProductSpace& other);

 private:
  std::vector<Part> parts_;
};

/// Owners of samples that stand on the grid of `image`: the rank that owns the anchor pixel. Covers
/// measurements smaller than the image (valid) and on a coarser grid (decimation).
Layout anchored_layout(const ProductSpace::Part& image, const Box& samples, const Anchor& anchor);
/// A part whose samples stand on the grid of `image`.
ProductSpace::Part anchored_part(const ProductSpace::Part& image, const LocalOperator& op);
/// Owners of samples that stand nowhere in particular: the box cut along its longest axis, as evenly as it
/// goes.
Layout even_layout(const Box& samples, int ranks);

}  // namespace tessera
