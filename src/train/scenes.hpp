// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/box.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/core/random.hpp"

namespace tessera::training {

/// A decoded picture, or volume: 8 bits per value, planar (channels, depth, height, width).
struct Picture {
  std::string name;
  std::int64_t channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> values;
  std::int64_t depth = 1;
  bool thick = false;  // its slices lie farther apart than its pixels: depth is an axis of its own

  Index3 size() const { return {depth, height, width}; }
  /// Whether a crop of this size can be cut out.
  bool holds(const Index3& crop) const;
};

/// All pictures of the folders (one that is a file: that picture), in the order of their names, as gray or RGB (gray is replicated; gray from
/// RGB by the weights of ITU-R BT.601). `exclude`: "name" or "folder/name" without suffix. InputError where a
/// folder holds none, and for a picture that 8 bits from 0 to its white cannot hold.
/// Volumes are what HDF5, .npy, FITS and TIFF files (all pages) hold; their white is their largest value, their black 0
/// or their smallest value below it, unless the file says a scale.
std::vector<Picture> read_pictures(const std::vector<std::string>& folders,
                                   const std::vector<std::string>& exclude, std::int64_t channels,
                                   Axes axes = Axes::picture);
/// A line for each kind of picture among them from which there is little to learn.
std::vector<std::string> doubts_about(const std::vector<Picture>& pictures);

/// Draws of one crop: a pure function of (seed, step, crop, use), each call takes the next number.
class Draws {
 public:
  /// use: 0 for the crops of a batch, 1 for those of orbits.
  Draws(std::uint64_t seed, std::int64_t step, std::int64_t item, std::uint32_t use = 0);
  double uniform() { return random_.uniform(item_, next_++); }
  std::int64_t below(std::int64_t n);  // 0 .. n - 1
  /// For whole arrays of numbers: the same stream, free at indices that are no item of this step.
  const Random& random() const { return random_; }

 private:
  Random random_;
  std::int64_t item_;
  std::uint32_t next_ = 0;
};

/// A crop of a photograph or volume at a random place, values in [0, 1], planar; a square (depth 1) or a cube. With
/// `shrink` it covers twice the side and 2 x 2 pixels (2 x 2 x 2 voxels) become one: sharper, and free of the file's
/// coding errors. It is turned by one of the 8 symmetries of the square, of the 48 of the cube, or of those 16 that
/// leave the axis of thick slices where it is.
void photograph_crop(const Picture& picture, bool shrink, const Index3& size, Draws& draws, float* out);

/// Dead leaves: opaque disks of random place, size and color in front of each other, sizes by the power law
/// r^-3 that makes such scenes scale invariant like photographs; edges anti-aliased 2 x 2.
/// Source: Lee, Mumford, Huang, "Occlusion models for natural images", Int. J. Comput. Vis. 41 (2001) 35.
void dead_leaves(std::int64_t channels, std::int64_t side, Draws& draws, float* out);

}  // namespace tessera::training
