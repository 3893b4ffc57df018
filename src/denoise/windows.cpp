// SPDX-License-Identifier: BSD-3-Clause
#include "windows.hpp"

#include <algorithm>
#include <set>

#include "tessera/core/error.hpp"

namespace tessera {

Box window_region(const Box& block, const Box& padded, std::int64_t halo) {
  return block.grow({{0, halo, halo}, {0, halo, halo}}).intersect(padded);
}

std::vector<Window> cut_windows(const Box& block, const Box& padded, std::int64_t patch, std::int64_t halo) {
  TESSERA_EXPECT(patch > 0, "a patch of ", patch, " pixels (cores must hold some) choose a side first");
  std::vector<Window> windows;
  for (std::int64_t row = block.lo()[1]; row < block.hi()[1]; row += patch)
    for (std::int64_t column = block.lo()[2]; column < block.hi()[2]; column += patch) {
      const Box core({block.lo()[0], row, column}, {block.hi()[0], std::min(row + patch, block.hi()[1]),
                                                    std::min(column + patch, block.hi()[2])});
      windows.push_back({core, window_region(core, padded, halo)});
    }
  return windows;
}

std::int64_t fitting_patch(const std::vector<Box>& blocks, const Box& padded, std::int64_t alignment,
                           std::int64_t halo, const std::function<bool(const Box&)>& fits) {
  std::int64_t side = alignment;
  for (const Box& block : blocks) side = std::max({side, block.extent(1), block.extent(2)});
  const std::int64_t units = (side + alignment - 1) / alignment;
  std::int64_t tried = 0;
  for (std::int64_t parts = 1; parts <= units; ++parts) {
    const std::int64_t patch = (units + parts - 1) / parts * alignment;
    if (patch == tried) continue;
    tried = patch;
    std::set<Index3> shapes;  // windows of one shape take the same
    for (const Box& block : blocks)
      for (const Window& window : cut_windows(block, padded, patch, halo))
        shapes.insert(window.box.extents());
    if (std::all_of(shapes.begin(), shapes.end(), [&](const Index3& e) { return fits(Box({0, 0, 0}, e)); }))
      return patch;
  }
  return 0;
}

CutSize smaller_cut(const CutSize& cut, std::int64_t alignment) {
  if (cut.batch > 1) return {cut.patch, cut.batch / 2};
  const std::int64_t units = (cut.patch + alignment - 1) / alignment;
  return {std::max<std::int64_t>(1, units * 7 / 10) * alignment, 1};  // of either side: half of the pixels
}

}  // namespace tessera
