// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <numeric>

#include "pack_body.hpp"
#include "tessera/core/error.hpp"

namespace tessera::pack {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // elements of a device cell: 31 bits are enough

// The axis along which target and source lie without gaps: 0 channels, 3 columns.
std::size_t run_axis(const Cell& cell) { return cell.stride[0] == 1 && cell.extent[0] > 1 ? 0 : 3; }

DeviceCell device_cell(const Cell& cell) {
  DeviceCell d;
  d.cell = cell;
  d.elements = static_cast<std::uint32_t>(cell.elements());
  d.channels_inside = cell.stride[0] == 1;
  const auto& e = cell.extent;
  d.fast = Divisor(d.channels_inside ? e[0] : e[3]);
  d.middle = Divisor(d.channels_inside ? e[3] : e[2]);
  d.slow = Divisor(d.channels_inside ? e[2] : e[1]);
  return d;
}

// A cell too large for 31 bits, halved along its longest axis, and so on.
void append(const Cell& cell, const Term* terms, Shares& out) {
  if (cell.elements() > kMost) {
    const auto axis = static_cast<std::size_t>(std::max_element(cell.extent, cell.extent + 4) - cell.extent);
    const std::int64_t half = cell.extent[axis] / 2;
    Cell low = cell, high = cell;
    low.extent[axis] = half;
    high.extent[axis] -= half;
    high.offset += half * cell.stride[axis];
    std::vector<Term> moved(terms, terms + cell.terms);
    for (Term& t : moved) t.offset += half * t.stride[axis];
    append(low, terms, out);
    append(high, moved.data(), out);
    return;
  }
  DeviceCell d = device_cell(cell);
  d.cell.first_term = static_cast<std::int64_t>(out.terms.size());
  out.terms.insert(out.terms.end(), terms, terms + cell.terms);
  const auto index = static_cast<std::int32_t>(out.cells.size());
  for (std::uint32_t first = 0; first < d.elements; first += kShare) out.shares.push_back({index, first});
  out.cells.push_back(d);
}

}  // namespace

Divisor::Divisor(std::int64_t n) : value(static_cast<std::uint32_t>(n)) {
  TESSERA_EXPECT(0 < n && n <= kMost, "a divisor of ", n, " (31 bits are meant) cut the cell");
  while ((std::uint64_t{1} << shift) < value) ++shift;
  factor = static_cast<std::uint32_t>(
      ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - value)) / value + 1);
}

bool only_copies(const Program& program) {
  return program.mode == Mode::assign &&
         std::all_of(program.cells.begin(), program.cells.end(), [&](const Cell& cell) {
           return cell.terms == 0 || is_copy(program.mode, cell, program.terms.data() + cell.first_term);
         });
}

std::int64_t largest_unit(const Program& program, std::int64_t element_bytes) {
  if (!only_copies(program)) return element_bytes;
  std::int64_t together = 16 / element_bytes;  // elements of a vector
  for (const Cell& cell : program.cells) {
    const Term* terms = program.terms.data() + cell.first_term;
    const std::size_t run = run_axis(cell);
    if (cell.stride[run] != 1 || (cell.terms > 0 && terms->stride[run] != 1)) return element_bytes;
    const auto divides = [&](std::int64_t n) { together = std::gcd(together, n); };
    divides(cell.extent[run]);
    divides(cell.offset);
    if (cell.terms > 0) divides(terms->offset);
    for (std::size_t d = 0; d < 4; ++d) {
      if (d == run || cell.extent[d] == 1) continue;
      divides(cell.stride[d]);
      if (cell.terms > 0) divides(terms->stride[d]);
    }
  }
  return element_bytes * together;
}

Shares cut_into_shares(const Program& program, std::int64_t element_bytes, std::int64_t unit) {
  Shares out{program.mode, unit, {}, {}, {}};
  const std::int64_t together = unit / element_bytes;
  for (Cell cell : program.cells) {
    std::vector<Term> terms(program.terms.begin() + cell.first_term,
                            program.terms.begin() + cell.first_term + cell.terms);
    if (together > 1) {
      const std::size_t run = run_axis(cell);
      cell.extent[run] /= together;
      cell.offset /= together;
      for (Term& t : terms) t.offset /= together;
      for (std::size_t d = 0; d < 4; ++d)
        if (d != run) {
          cell.stride[d] /= together;
          for (Term& t : terms) t.stride[d] /= together;
        }
    }
    append(cell, terms.data(), out);
  }
  return out;
}

}  // namespace tessera::pack
