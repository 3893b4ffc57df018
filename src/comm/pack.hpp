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

/// Division by a number that is known beforehand: one multiplication. For dividends below 2^31.
/// Source: Granlund, Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
struct Divisor {
  std::uint32_t value = 1, factor = 0, shift = 0;
  Divisor() = default;
  explicit Divisor(std::int64_t n);
};

/// A cell as a device works through it: element i of fewer than 2^31, the axes in the order in which memory
/// lies, fastest first.
struct DeviceCell {
  Cell cell;
  std::uint32_t elements = 0;
  Divisor fast, middle, slow;  // extents of the three faster axes
  bool channels_inside = false;
};

/// What one block of threads does: elements [first, first + kShare) of a cell.
struct Share {
  std::int32_t cell = 0;
  std::uint32_t first = 0;
};
constexpr std::uint32_t kShare = 2048;

/// A program cut into shares, in units of `unit` bytes: one element, or, where every cell is a copy of runs
/// that allow it, vectors of up to 16 bytes.
struct Shares {
  Mode mode = Mode::assign;
  std::int64_t unit = 0;
  std::vector<DeviceCell> cells;
  std::vector<Share> shares;
  std::vector<Term> terms;
};
Shares cut_into_shares(const Program& program, std::int64_t element_bytes, std::int64_t unit);
/// Whether all cells are copies or zeros, which raw bytes serve.
bool only_copies(const Program& program);
/// The largest unit of at most 16 bytes that the program allows, where its arrays begin on multiples of it.
std::int64_t largest_unit(const Program& program, std::int64_t element_bytes);

/// A program in device memory, for elements of one type.
class DeviceProgram {
 public:
  DeviceProgram(const Program& program, ElementType type, Device device);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;
  /// Enqueues the one kernel on a CUDA stream; returns at once.
  void run(void* to, const void* from, void* stream) const;

 private:
  struct Table;  // shares of one unit, in device memory
  ElementType type_;
  Device device_;
  bool copies_ = false;
  std::unique_ptr<Table> elements_, vectors_;  // vectors: where arrays begin on its unit; null: none
};

}  // namespace tessera::pack
