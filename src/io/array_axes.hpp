// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::io {

/// Which axes of a stored array are the channels, slices, rows and columns of an image.
struct ArrayAxes {
  std::array<int, 4> of{-1, -1, -1, -1};  // in that order; -1: it has none, which is an extent of 1
  std::string note = {};                  // how the shape was taken, where it is not plain; or empty
};

/// What a file says of its axes.
struct AxisLabels {
  std::vector<std::string> names =
      {};                   // one per axis, such as c, z, row, wavelength; "" where it says nothing
  std::string source = {};  // what says it: "its attribute axistags"
};

/// Whether the labels of that many axes make an image: rows and columns, and each letter once.
bool says_axes(const AxisLabels& labels, std::size_t axes);

/// c, z, y, x or t of each axis, as the labels have them; empty where they make no image.
std::string axis_letters(const AxisLabels& labels, std::size_t axes);

/// The axes as the labels have them, else by position: (H, W), (C, H, W) or (C, D, H, W).
///
/// By position the first of three axes is taken for the channels, with a note where they are not 1 or 3.
/// InputError, with the way out, where the last axis is as likely to be them: it is the smallest, or the two
/// before it are equal and it is not. Of four axes likewise. Labels that make no image are as none.
ArrayAxes array_axes(const std::string& path, const std::vector<std::int64_t>& shape,
                     const AxisLabels& labels = {});

/// Whether slices, rows and columns are as likely rows, columns and channels: far fewer columns than of the others.
bool last_may_be_bands(const std::array<std::int64_t, 3>& shape);

std::string shape_text(const std::vector<std::int64_t>& shape);  // (5, 96, 112)

}  // namespace tessera::io
