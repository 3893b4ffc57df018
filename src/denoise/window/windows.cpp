// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tessera/core/error.hpp"
#include "tessera/core/image_space.hpp"

namespace tessera {

Box window_region(const Box& block, const Box& padded, std::int64_t halo) {
  return block.grow(ImageSpace::in_plane(halo)).intersect(padded);
}

std::vector<Window> cut_windows(const Box& block, const Box& padded, std::int64_t alignment,
                                std::int64_t patch, std::int64_t halo) {
  TESSERA_EXPECT(patch > 0, "a patch of ", patch, " pixels (cores must hold some) choose a side first");
  const auto units = [&](std::int64_t extent) { return (extent + alignment - 1) / alignment; };
  // Pixels of all windows' rows or columns together, where an axis is cut into cores of this extent.
  const auto computed = [&](std::size_t axis, std::int64_t extent) {
    std::int64_t sum = 0;
    for (std::int64_t at = block.lo()[axis]; at < block.hi()[axis]; at += extent)
      sum += std::min({at + extent, block.hi()[axis]}) - at + std::min(halo, at - padded.lo()[axis]) +
             std::min(halo, padded.hi()[axis] - std::min(at + extent, block.hi()[axis]));
    return sum;
  };
  std::int64_t rows = 0, columns = 0, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t parts = 1; parts <= units(block.extent(1)); ++parts) {
    const std::int64_t height = (units(block.extent(1)) + parts - 1) / parts * alignment;
    const std::int64_t widest = patch * patch / (height * alignment);  // in units
    if (widest == 0) continue;
    const std::int64_t across = (units(block.extent(2)) + widest - 1) / widest;
    const std::int64_t width = (units(block.extent(2)) + across - 1) / across * alignment;
    const std::int64_t pixels = computed(1, height) * computed(2, width);
    if (pixels >= least) continue;
    least = pixels;
    rows = height;
    columns = width;
  }
  std::vector<Window> windows;
  for (std::int64_t row = block.lo()[1]; row < block.hi()[1]; row += rows)
    for (std::int64_t column = block.lo()[2]; column < block.hi()[2]; column += columns) {
      const Box core({block.lo()[0], row, column}, {block.hi()[0], std::min(row + rows, block.hi()[1]),
                                                    std::min(column + columns, block.hi()[2])});
      windows.push_back({core, window_region(core, padded, halo)});
    }
  return windows;
}

std::vector<std::int64_t> patches_for(std::int64_t pixels, std::int64_t alignment) {
  std::vector<std::int64_t> patches;
  for (std::int64_t k = 1; patches.empty() || patches.back() > alignment; ++k)
    for (const std::int64_t parts : {k * k, k * (k + 1)}) {
      const double side = std::sqrt(static_cast<double>(pixels) / static_cast<double>(parts));
      const auto units = static_cast<std::int64_t>(std::ceil(side / static_cast<double>(alignment) - 1e-9));
      const std::int64_t patch = std::max<std::int64_t>(1, units) * alignment;
      if (patches.empty() || patch < patches.back()) patches.push_back(patch);
    }
  return patches;
}

std::int64_t fitting_patch(const std::vector<Box>& blocks, const Box& padded, std::int64_t alignment,
                           std::int64_t halo, const std::function<bool(const Box&)>& fits) {
  std::int64_t pixels = 1;
  for (const Box& block : blocks) pixels = std::max(pixels, block.pixels());
  for (const std::int64_t patch : patches_for(pixels, alignment)) {
    std::set<Index3> shapes;  // windows of one shape take the same
    for (const Box& block : blocks)
      for (const Window& window : cut_windows(block, padded, alignment, patch, halo))
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

ExchangePlan network_plan(const Decomposition& d, std::int64_t halo, int rank) {
  std::vector<Box> regions;
  for (int r = 0; r < d.ranks(); ++r) regions.push_back(window_region(d.padded_block(r), d.padded(), halo));
  return {d.layout(), Layout(std::move(regions)), d.image(), Border::replicate, rank};
}

std::int64_t network_bytes_sent(const Decomposition& decomposition, std::int64_t halo, std::int64_t channels,
                                int rank) {
  return network_plan(decomposition, halo, rank).pixels_sent() * channels * 4;
}

}  // namespace tessera
