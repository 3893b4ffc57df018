// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <vector>

#include "pack_body.hpp"

namespace tessera::pack {
namespace {

template <class T>
void row(Mode mode, const Cell& cell, const Term* terms, T* to, const T* from, std::int64_t c, std::int64_t d,
         std::int64_t h) {
  const std::int64_t width = cell.extent[3];
  // Without repeats, one contiguous term: the common row, which the compiler may turn into vectors.
  const bool plain = cell.terms == 1 && cell.stride[3] == 1 && terms->stride[3] == 1 &&
                     terms->repeat[0] * terms->repeat[1] * terms->repeat[2] == 1;
  if (plain) {
    T* target = to + cell.offset + c * cell.stride[0] + d * cell.stride[1] + h * cell.stride[2];
    const T* source =
        from + terms->offset + c * terms->stride[0] + d * terms->stride[1] + h * terms->stride[2];
    if (mode == Mode::assign) {
      std::memcpy(static_cast<void*>(target), source, static_cast<std::size_t>(width) * sizeof(T));
    } else {
      for (std::int64_t w = 0; w < width; ++w) {
        auto sum = Wide<T>::load(target[w]);
        sum += Wide<T>::load(source[w]);
        target[w] = Wide<T>::store(sum);
      }
    }
    return;
  }
  for (std::int64_t w = 0; w < width; ++w) put(mode, cell, terms, to, from, c, d, h, w);
}

// Cells whose channels lie side by side, as in channels-last arrays: runs of channels, or whole rows of
// pixels where those too lie side by side. False: not such a cell.
template <class T>
bool copy_pixels(Mode mode, const Cell& cell, const Term* terms, T* to, const T* from) {
  const std::int64_t channels = cell.extent[0];
  const bool zero = cell.terms == 0;
  if (mode != Mode::assign || cell.stride[0] != 1 || channels == 1) return false;
  if (!zero && (!is_copy(mode, cell, terms) || terms->stride[0] != 1)) return false;
  const bool rows = cell.stride[3] == channels && (zero || terms->stride[3] == channels);
  const std::int64_t run = rows ? channels * cell.extent[3] : channels;
  for (std::int64_t d = 0; d < cell.extent[1]; ++d)
    for (std::int64_t h = 0; h < cell.extent[2]; ++h)
      for (std::int64_t w = 0; w < (rows ? 1 : cell.extent[3]); ++w) {
        T* target = to + cell.offset + d * cell.stride[1] + h * cell.stride[2] + w * cell.stride[3];
        const auto bytes = static_cast<std::size_t>(run) * sizeof(T);
        if (zero)
          std::memset(static_cast<void*>(target), 0, bytes);
        else
          std::memcpy(
              static_cast<void*>(target),
              from + terms->offset + d * terms->stride[1] + h * terms->stride[2] + w * terms->stride[3],
              bytes);
      }
  return true;
}

// Some rows of a cell: those of one channel and depth.
struct Rows {
  const Cell* cell;
  std::int64_t c, d, begin, end;
  std::int64_t at;  // where the first lies in the target
};

// Of a large program, in the order in which the target lies: a rim beside an image is written with the rows that it
// touches, and each page of memory once.
std::vector<Rows> in_order(const Program& program) {
  constexpr std::int64_t kRows = 32;
  std::vector<Rows> all;
  for (const Cell& cell : program.cells)
    for (std::int64_t c = 0; c < cell.extent[0]; ++c)
      for (std::int64_t d = 0; d < cell.extent[1]; ++d)
        for (std::int64_t h = 0; h < cell.extent[2]; h += kRows)
          all.push_back({&cell, c, d, h, std::min(h + kRows, cell.extent[2]),
                         cell.offset + c * cell.stride[0] + d * cell.stride[1] + h * cell.stride[2]});
  std::ranges::sort(all, {}, &Rows::at);
  return all;
}

}  // namespace

void Program::append(Cell cell, const std::vector<Term>& from) {
  if (cell.elements() == 0) return;
  cell.first_term = static_cast<std::int64_t>(terms.size());
  cell.terms = static_cast<std::int64_t>(from.size());
  elements += cell.elements();
  terms.insert(terms.end(), from.begin(), from.end());
  cells.push_back(cell);
}

void run_host(const Program& program, ElementType type, void* to, const void* from) {
  with_type(type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    constexpr std::int64_t kLarge = std::int64_t{1} << 20;
    const bool pixels = !program.cells.empty() && program.cells.front().stride[0] == 1;
    if (program.elements >= kLarge && program.cells.size() > 1 && !pixels) {
      for (const Rows& rows : in_order(program))
        for (std::int64_t h = rows.begin; h < rows.end; ++h)
          row(program.mode, *rows.cell, program.terms.data() + rows.cell->first_term, static_cast<T*>(to),
              static_cast<const T*>(from), rows.c, rows.d, h);
      return;
    }
    for (const Cell& cell : program.cells) {
      const Term* terms = program.terms.data() + cell.first_term;
      if (copy_pixels(program.mode, cell, terms, static_cast<T*>(to), static_cast<const T*>(from))) continue;
      for (std::int64_t c = 0; c < cell.extent[0]; ++c)
        for (std::int64_t d = 0; d < cell.extent[1]; ++d)
          for (std::int64_t h = 0; h < cell.extent[2]; ++h)
            row(program.mode, cell, terms, static_cast<T*>(to), static_cast<const T*>(from), c, d, h);
    }
  });
}

}  // namespace tessera::pack
