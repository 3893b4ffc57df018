// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/comm/array.hpp"

namespace tessera::pack {

/// Where the values of a cell come from. Everything in elements; axes are (channel, depth, height, width).
struct Term {
  std::int64_t offset = 0;      // of the value that belongs to the cell's first element
  std::int64_t stride[4] = {};  // steps with the cell's axes; negative where mirrored, 0 where repeated
  std::int64_t repeat[3] = {1, 1, 1};  // values that are summed, per spatial axis
  std::int64_t repeat_stride[3] = {};
};

/// A strided block of the target. It gets the sum of its terms (assign: 0 without one; add: on top of what is
/// there), in the order of the list. Cells of a list are disjoint.
struct Cell {
  std::int64_t offset = 0;
  std::int64_t stride[4] = {};
  std::int64_t extent[4] = {};
  std::int64_t before = 0;  // elements of the cells in front of this one: finds the cell of a device thread
  std::int64_t first_term = 0, terms = 0;

  std::int64_t elements() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
};

enum class Mode { assign, add };

/// What one pack or unpack does; made for certain strides, run with any pointers.
struct Program {
  Mode mode = Mode::assign;
  std::vector<Cell> cells;
  std::vector<Term> terms;
  std::int64_t elements = 0;

  bool empty() const { return cells.empty(); }
  void append(Cell cell, const std::vector<Term>& from);
};

/// Rows on the host; the same arithmetic in the same order as on a device.
void run_host(const Program& program, ElementType type, void* to, const void* from);

/// A program in device memory.
class DeviceProgram {
 public:
  DeviceProgram(const Program& program, Device device);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;
  /// Enqueues the one kernel on a CUDA stream; returns at once.
  void run(ElementType type, void* to, const void* from, void* stream) const;

 private:
  Mode mode_;
  std::int64_t cells_, elements_;
  Device device_;
  Cell* device_cells_ = nullptr;
  Term* device_terms_ = nullptr;
};

}  // namespace tessera::pack
