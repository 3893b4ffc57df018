// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels.hpp"
#include "tessera/physics/projector.hpp"
#include "view_lines.hpp"

namespace tessera {

/// How Projector goes for views that are fast: as there, of samples whose views are all fast.
class BlockProjector {
 public:
  virtual ~BlockProjector() = default;
  virtual void load(const float* x) = 0;
  virtual void project(const Box& samples, float* y, ProjectorInto into) const = 0;
  virtual void clear() = 0;
  virtual void gather(const Box& samples, const float* y) = 0;
  /// x = or += the sum.
  virtual void store(float* x, ProjectorInto into) const = 0;
  virtual std::int64_t bytes() const = 0;
};

/// What the three of them are made of. The geometry and the traits outlive them.
struct BlockTask {
  const ProjectionGeometry* geometry;
  const std::vector<ViewTraits>* traits;  // of each view
  Box block;
  const ProjectorKernelTable* kernels;
};
/// Whether one slice after the other can be taken, by kernels with two or three taps.
bool slices_suit(const BlockTask& task);
/// Parallel and fan: few slices, one after the other; many at once.
std::unique_ptr<BlockProjector> make_slice_projector(const BlockTask& task);
std::unique_ptr<BlockProjector> make_stack_projector(const BlockTask& task);
std::unique_ptr<BlockProjector> make_cone_projector(const BlockTask& task);

/// Columns of a view that meet neighbors with weights above rounding; less is left out.
constexpr float kLeastWeight = 4e-6F;
int taps_of(const ViewTraits& traits);

/// Floats on a boundary of 64 bytes, counted as memory of ours; not set.
class FloatRoom {
 public:
  FloatRoom() = default;
  explicit FloatRoom(std::int64_t floats);
  float* data() const { return data_; }
  std::int64_t size() const { return size_; }
  void zero();  // by all threads

 private:
  at::Tensor storage_;
  float* data_ = nullptr;
  std::int64_t size_ = 0;
};

/// A block with slices innermost, in layers of `thick` slices: voxel (d, h, w) stands at at(h, w) + of(d).
/// One pixel of zeros around every layer; slices from a multiple of kAlign to one, and `margin` zeros
/// before and behind them.
struct PackedShape {
  /// thick: slices of a layer, a multiple of kAlign; 0: all.
  PackedShape(const Box& block, std::int64_t thick, std::int64_t margin);
  Box block;
  std::int64_t first_slice, slices, thick, layers;
  std::int64_t pixel, row, layer;  // strides in floats
  std::int64_t margin, floats;
  std::int64_t at(std::int64_t h, std::int64_t w) const {
    return margin + (h - block.lo()[1] + 1) * row + (w - block.lo()[2] + 1) * pixel;
  }
  std::int64_t of(std::int64_t d) const {
    return (d - first_slice) / thick * layer + (d - first_slice) % thick;
  }
};
void pack(const PackedShape& shape, const float* x, float* to);
void unpack(const PackedShape& shape, const float* from, float* x, ProjectorInto into);

/// Planes and cells of a packed block, or of a rectangle [h0, h1) x [w0, w1) of it.
PlaneSpan plane_span(const PackedShape& shape, std::size_t main, std::int64_t h0, std::int64_t h1,
                     std::int64_t w0, std::int64_t w1);

/// The slice below each row in [first, last) and the part of the one above.
struct RowParts {
  RowParts(const RowSlices& rows, std::int64_t first, std::int64_t last);
  std::vector<std::int64_t> slice;
  std::vector<float> above;
};

}  // namespace tessera
