// SPDX-License-Identifier: BSD-3-Clause
// Areas of a picture whose edges are sharper than its blur makes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "area_runs.hpp"
#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// What a kernel makes of edges. A step from a sample to the next is at most `bound` of the picture's contrast.
struct EdgeKernel {
  using Taps = std::vector<std::array<std::int64_t, 2>>;
  std::array<double, 2> bound{1, 1};  // of any picture, along rows and columns of the grid
  std::array<double, 2> twice{1, 1};  // of two samples
  std::array<bool, 2> tells{};        // whether steps along that axis say anything
  bool bars_only = false;             // only where the edge is straight along the other axis
  bool sharp = false;                 // it ends in edges itself, as a disk: so do bright points under it
  double cut = 0;                     // the largest tap at its rim, of the largest of all
  Taps all, tenth, half;              // its taps: all, and from so much of the largest on
  std::int64_t reach = 0, core = 0;   // longer side of `all` and of `tenth`
};
std::optional<EdgeKernel> edge_kernel(const at::Tensor& taps);

/// One channel of a picture on this rank, with kBeyond samples around its block.
struct NearPlane {
  static constexpr std::int64_t kBeyond = 4;
  Box frame, block, around;
  std::vector<float> values;
  std::vector<std::uint8_t> counted;  // 0 outside of the frame
  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((row - around.lo()[1]) * around.extent(2) + column - around.lo()[2]);
  }
};

/// The slices of all channels of a part of a measurement, one of them at a time as a plane, with `beyond` samples around
/// this rank's block. `marks` 0: does not count. Collective to make.
class NearPlanes {
 public:
  NearPlanes(const at::Tensor& y, const at::Tensor& marks, const ProductSpace& layout, std::size_t part,
             const Communicator& comm, std::int64_t beyond = NearPlane::kBeyond);
  std::int64_t channels() const { return channels_; }
  std::int64_t slices() const { return slices_; }  // of this rank; 1 where it has no block
  NearPlane plane(std::int64_t channel, std::int64_t slice) const;

 private:
  Box frame_, block_, around_;
  std::int64_t channels_ = 0, slices_ = 1;
  at::Tensor near_;
};

/// The channels of a picture.
std::vector<NearPlane> planes_of(const at::Tensor& y, const at::Tensor& marks, const ProductSpace& layout,
                                 std::size_t part, const Communicator& comm);

/// Samples that may be such areas: of one value, or within `within` of it and connected to a corner of the frame.
struct Candidate {
  double value = 0, within = 0;
  std::optional<std::array<std::int64_t, 2>> corner{};
  bool bright = false;          // brighter than most of the picture
  double noise = 0, range = 1;  // of the picture
};

/// Whether enough samples have one like them on one side, or are the darkest or brightest of all, and two alike that are far
/// off beyond the next one on the other: without them there is no such area. Collective.
bool has_sharp_steps(const NearPlane& plane, std::array<double, 2> ends, double noise, double range,
                     const EdgeKernel& kernel, const Communicator& comm);

struct SharpArea {
  std::vector<Run> runs;
  double value = 0;
  Box box;
  bool at_frame = false;
  bool letter = false;  // small, within the picture, of smoothed edges
};
/// Collective; the same for any number of ranks.
std::vector<SharpArea> sharp_areas(const NearPlane& plane, const Candidate& what, const EdgeKernel& kernel,
                                   const Communicator& comm);

}  // namespace tessera
