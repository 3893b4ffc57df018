// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/scan_coverage.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {
namespace {

// Places of about `most` of n, evenly from half a step on.
std::vector<std::int64_t> some_of(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> out;
  const std::int64_t count = std::min(n, most);
  for (std::int64_t k = 0; k < count; ++k) out.push_back((2 * k + 1) * n / (2 * count));
  return out;
}

}  // namespace

Coverage coverage(const ProjectionGeometry& g) {
  constexpr std::int64_t kSide = 23, kDepth = 9, kViews = 90;
  const std::vector<std::int64_t> depths = some_of(g.volume.size[0], kDepth),
                                  rows = some_of(g.volume.size[1], kSide),
                                  columns = some_of(g.volume.size[2], kSide),
                                  views = some_of(std::ssize(g.views), kViews);
  const auto place = [&](std::int64_t index, std::size_t axis) {
    return (static_cast<double>(index) - 0.5 * static_cast<double>(g.volume.size[axis] - 1)) *
           g.volume.voxel[2 - axis];
  };
  std::int64_t none = 0, some = 0;
  for (const std::int64_t d : depths)
    for (const std::int64_t h : rows)
      for (const std::int64_t w : columns) {
        std::int64_t seen = 0;
        for (const std::int64_t v : views) {
          const auto [column, row] = project_point(g, v, {place(w, 2), place(h, 1), place(d, 0)});
          seen += column > -1 && column < static_cast<double>(g.columns) && row > -1 &&
                  row < static_cast<double>(g.rows);
        }
        none += seen == 0;
        some += seen < std::ssize(views);
      }
  const auto all = static_cast<double>(depths.size() * rows.size() * columns.size());
  return {static_cast<double>(none) / all, static_cast<double>(some) / all};
}

}  // namespace tessera
