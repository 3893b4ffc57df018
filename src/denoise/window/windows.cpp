// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tessera/core/error.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/denoise/graph.hpp"

namespace tessera {

namespace {

// Extents that cut an axis of so many units into 1, 2, 3 ... parts; descending, none twice.
std::vector<std::int64_t> extents_of(std::int64_t units, std::int64_t alignment) {
  std::vector<std::int64_t> extents;
  for (std::int64_t parts = 1; parts <= units; ++parts) {
    const std::int64_t extent = (units + parts - 1) / parts * alignment;
    if (extents.empty() || extent < extents.back()) extents.push_back(extent);
  }
  return extents;
}

}  // namespace

Box window_region(const Box& block, const Box& padded, const Index3& halo) {
  return block.grow({halo, halo}).intersect(padded);
}

std::int64_t patch_pixels(std::int64_t patch, Axes axes) {
  return axes == Axes::volume ? patch * patch * patch : patch * patch;
}

std::vector<Window> cut_windows(const Box& block, const Box& padded, const Index3& alignment,
                                std::int64_t patch, const Index3& halo, std::int64_t planes) {
  TESSERA_EXPECT(patch > 0, "a patch of ", patch, " pixels (cores must hold some) choose a side first");
  const auto units = [&](std::size_t axis) {
    return (block.extent(axis) + alignment[axis] - 1) / alignment[axis];
  };
  // Pixels of all windows along an axis together, where it is cut into cores of this extent.
  const auto computed = [&](std::size_t axis, std::int64_t extent) {
    std::int64_t sum = 0;
    for (std::int64_t at = block.lo()[axis]; at < block.hi()[axis]; at += extent) {
      const std::int64_t end = std::min(at + extent, block.hi()[axis]);
      sum += end - at + std::min(halo[axis], at - padded.lo()[axis]) +
             std::min(halo[axis], padded.hi()[axis] - end);
    }
    return sum;
  };
  const std::int64_t calls = planes > 0 ? (block.extent(0) + planes - 1) / planes : 0;
  const std::vector<std::int64_t> depths =
      planes == 0  ? extents_of(units(0), alignment[0])
      : calls == 0 ? std::vector<std::int64_t>{}
                   : std::vector<std::int64_t>{(block.extent(0) + calls - 1) / calls};
  Index3 core{};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t depth : depths) {
    const std::int64_t most = planes > 0 ? depth * patch_pixels(patch, Axes::picture)
                                         : patch_pixels(patch, ImageSpace(padded).axes);
    for (const std::int64_t height : extents_of(units(1), alignment[1])) {
      const std::int64_t widest = most / (depth * height * alignment[2]);  // in units
      if (widest == 0) continue;
      const std::int64_t across = (units(2) + widest - 1) / widest;
      const std::int64_t width = (units(2) + across - 1) / across * alignment[2];
      const std::int64_t pixels = computed(0, depth) * computed(1, height) * computed(2, width);
      if (pixels >= least) continue;
      least = pixels;
      core = {depth, height, width};
    }
  }
  std::vector<Window> windows;
  const Index3 &lo = block.lo(), &hi = block.hi();
  for (std::int64_t z = lo[0]; z < hi[0]; z += core[0])
    for (std::int64_t y = lo[1]; y < hi[1]; y += core[1])
      for (std::int64_t x = lo[2]; x < hi[2]; x += core[2]) {
        const Box part = Box({z, y, x}, {z + core[0], y + core[1], x + core[2]}).intersect(block);
        windows.push_back({part, window_region(part, padded, halo)});
      }
  return windows;
}

std::vector<std::int64_t> patches_for(std::int64_t pixels, std::int64_t alignment, Axes axes) {
  std::vector<std::int64_t> patches;
  const bool volume = axes == Axes::volume;
  for (std::int64_t k = 1; patches.empty() || patches.back() > alignment; ++k)
    for (const std::int64_t parts :
         volume ? std::vector<std::int64_t>{k * k * k, k * k * (k + 1), k * (k + 1) * (k + 1)}
                : std::vector<std::int64_t>{k * k, k * (k + 1)}) {
      const double share = static_cast<double>(pixels) / static_cast<double>(parts),
                   side = volume ? std::cbrt(share) : std::sqrt(share);
      const auto units = static_cast<std::int64_t>(std::ceil(side / static_cast<double>(alignment) - 1e-9));
      const std::int64_t patch = std::max<std::int64_t>(1, units) * alignment;
      if (patches.empty() || patch < patches.back()) patches.push_back(patch);
    }
  return patches;
}

std::int64_t fitting_patch(const std::vector<Box>& blocks, const Box& padded, const Index3& alignment,
                           const Index3& halo, const std::function<bool(const Box&)>& fits, bool by_planes) {
  std::int64_t pixels = 1;  // that windows cut
  for (const Box& block : blocks)
    pixels = std::max(pixels, by_planes ? block.extent(1) * block.extent(2) : block.pixels());
  const Axes axes = by_planes ? Axes::picture : ImageSpace(padded).axes;
  for (const std::int64_t patch : patches_for(pixels, longest(alignment), axes)) {
    std::set<Index3> shapes;  // windows of one shape take the same
    for (const Box& block : blocks)
      for (const Window& window : cut_windows(block, padded, alignment, patch, halo, by_planes ? 1 : 0))
        shapes.insert(window.box.extents());
    if (std::all_of(shapes.begin(), shapes.end(), [&](const Index3& e) { return fits(Box({0, 0, 0}, e)); }))
      return patch;
  }
  return 0;
}

CutSize smaller_cut(const CutSize& cut, std::int64_t alignment, Axes axes) {
  if (cut.batch > 1) return {cut.patch, cut.batch / 2};
  const std::int64_t units = (cut.patch + alignment - 1) / alignment;
  const std::int64_t tenths = axes == Axes::volume ? 8 : 7;  // of each side: half of the pixels
  return {std::max<std::int64_t>(1, units * tenths / 10) * alignment, 1};
}

ExchangePlan network_plan(const Decomposition& d, const Index3& halo, int rank) {
  std::vector<Box> regions;
  for (int r = 0; r < d.ranks(); ++r) regions.push_back(window_region(d.padded_block(r), d.padded(), halo));
  return {d.layout(), Layout(std::move(regions)), d.image(), Border::replicate, rank};
}

std::int64_t network_bytes_sent(const Decomposition& decomposition, const Index3& halo, std::int64_t channels,
                                int rank) {
  return network_plan(decomposition, halo, rank).pixels_sent() * channels * 4;
}

}  // namespace tessera
