// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera {

/// Whether blocks have a depth axis: blocks of a picture are (C, H, W), of a volume (C, D, H, W). The whole
/// decides, so that it is the same on ranks whose own block has depth 1 or is empty.
enum class Axes { picture, volume };

/// What a value is. Of a complex one tensors hold the real and then the imaginary part, as two channels side
/// by side.
enum class Field { real, complex };

/// A grid and what stands at each of its points: the unknown of a reconstruction, or a part of a measurement.
///
/// File headers or the job fill it; operators, denoisers, memory, output and planner read it. Host
/// arithmetic, equal on all ranks; not collective.
struct ImageSpace {
  /// An axis of the grid. Spacing 0 and unit "": not known.
  struct Axis {
    std::string name;
    double spacing = 0;
    std::string unit{};
    friend bool operator==(const Axis& a, const Axis& b) {
      return a.name == b.name && a.spacing == b.spacing && a.unit == b.unit;
    }
  };

  Box box;                    // all points, global coordinates
  std::int64_t channels = 1;  // values at a point
  Axes axes = Axes::picture;
  Field field = Field::real;
  std::int64_t element_bytes = 4;                   // of a real number as it is held
  std::array<Axis, 3> grid{{{"z"}, {"y"}, {"x"}}};  // (depth, height, width)
  std::vector<std::string> channel_names{};         // empty, or one each
  std::string orientation{};  // which way axes point, as the file says it; empty: not known

  ImageSpace() = default;
  /// A volume where the box is deeper than one point.
  explicit ImageSpace(const Box& whole, std::int64_t channels_ = 1)
      : box(whole), channels(channels_), axes(whole.extent(0) > 1 ? Axes::volume : Axes::picture) {}
  /// The same kind of values on another grid of the same axes.
  ImageSpace on(const Box& other) const {
    ImageSpace space = *this;
    space.box = other;
    return space;
  }
  ImageSpace with_channels(std::int64_t count) const {
    ImageSpace space = *this;
    if (count != channels) space.channel_names.clear();
    space.channels = count;
    return space;
  }

  bool volume() const { return axes == Axes::volume; }
  /// Axes that blocks have.
  std::size_t dimensions() const { return volume() ? 3 : 2; }
  /// Real numbers at a point: channels of a block's tensor.
  std::int64_t planes() const { return field == Field::complex ? 2 * channels : channels; }
  /// Real numbers in all, or in a part.
  std::int64_t values(const Box& part) const { return planes() * part.pixels(); }
  std::int64_t values() const { return values(box); }
  std::int64_t bytes(const Box& part) const { return values(part) * element_bytes; }
  std::int64_t bytes() const { return bytes(box); }
  /// A reach of so many points on both sides of each axis that pictures have: along rows and columns.
  static Reach in_plane(std::int64_t reach) { return {{0, reach, reach}, {0, reach, reach}}; }
  /// The same along every axis that blocks have.
  Reach around(std::int64_t reach) const {
    const std::int64_t depth = volume() ? reach : 0;
    return {{depth, reach, reach}, {depth, reach, reach}};
  }

  friend bool operator==(const ImageSpace& a, const ImageSpace& b) {
    return a.box == b.box && a.channels == b.channels && a.axes == b.axes && a.field == b.field &&
           a.element_bytes == b.element_bytes && a.grid == b.grid && a.channel_names == b.channel_names &&
           a.orientation == b.orientation;
  }
};

}  // namespace tessera
