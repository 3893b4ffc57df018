// SPDX-License-Identifier: BSD-3-Clause
#include "job/shown_part.hpp"

#include <utility>
#include <vector>

#include "tessera/app/run_plan.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {

ShownPart shown_part(const ProductSpace& layout, std::size_t part, const at::Tensor& values, int rank) {
  const ImageSpace& space = layout.part(part).space;
  const Box &all = space.box, mine = layout.block(part, rank);
  const bool views = space.volume() && space.grid[0].name == "view";
  const std::int64_t row = all.lo()[1] + all.extent(1) / 2;
  const Box plane =
      views ? Box({all.lo()[0], row, all.lo()[2]}, {all.hi()[0], row + 1, all.hi()[2]}) : middle_slice(all);
  const auto turned = [&](const Box& b) {  // views become the rows
    if (!views || b.empty()) return b;
    return Box({0, b.lo()[0], b.lo()[2]}, {1, b.hi()[0], b.hi()[2]});
  };
  std::vector<Box> boxes;
  for (int r = 0; r < layout.layout(part).ranks(); ++r)
    boxes.push_back(turned(layout.block(part, r).intersect(plane)));
  at::Tensor shown = crop(values, mine, mine.intersect(plane));
  if (views) shown = shown.transpose(1, 2);  // (C, V, 1, W)
  return {shown.contiguous(), Layout(std::move(boxes)), turned(plane)};
}

}  // namespace tessera
