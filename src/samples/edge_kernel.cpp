// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "sharp_areas.hpp"

namespace tessera {

std::optional<EdgeKernel> edge_kernel(const at::Tensor& taps) {
  constexpr double kMostStep = 0.5;  // of contrast: beyond it a kernel blurs little along that axis
  const at::Tensor t = taps.to(at::kCPU, at::kDouble).mean(at::IntArrayRef{0, 1}).abs().contiguous();
  const std::int64_t rows = t.size(0), columns = t.size(1);
  const double* const v = t.const_data_ptr<double>();
  const auto at = [&](std::int64_t r, std::int64_t c) {
    return r < 0 || c < 0 || r >= rows || c >= columns ? 0.0 : v[r * columns + c];
  };
  double all = 0, most = 0;
  for (std::int64_t k = 0; k < rows * columns; ++k) all += v[k], most = std::max(most, v[k]);
  if (!(all > 0)) return std::nullopt;
  EdgeKernel out;
  std::array<double, 2> straight{};  // the same as bound, of edges along the grid
  std::int64_t rim = 0, sharp = 0;
  for (const std::size_t axis : {0U, 1U}) {
    const std::int64_t dr = axis == 0 ? 1 : 0, dc = 1 - dr;
    double step = 0, twice = 0;
    std::vector<double> line(static_cast<std::size_t>(axis == 0 ? rows : columns) + 1);
    for (std::int64_t r = -2; r < rows; ++r)
      for (std::int64_t c = -2; c < columns; ++c) {
        const double d = at(r + dr, c + dc) - at(r, c);
        step += std::abs(d);
        twice += std::abs(at(r + 2 * dr, c + 2 * dc) - at(r, c));
        if (const std::int64_t k = (axis == 0 ? r : c) + 1; k >= 0) line[static_cast<std::size_t>(k)] += d;
      }
    for (const double d : line) straight[axis] += std::abs(d) / (2 * all);
    out.bound[axis] = step / (2 * all);
    out.twice[axis] = twice / (2 * all);
  }
  out.bars_only = out.bound[0] > kMostStep && out.bound[1] > kMostStep;
  for (const std::size_t axis : {0U, 1U})
    out.tells[axis] = (out.bars_only ? straight : out.bound)[axis] <= kMostStep;
  if (!out.tells[0] && !out.tells[1]) return std::nullopt;
  Index3 lo{0, rows, columns}, hi{}, core_lo = lo, core_hi{};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const double k = at(r, c);
      if (!(k > 0)) continue;
      const std::array<std::int64_t, 2> place{r - rows / 2, c - columns / 2};
      out.all.push_back(place);
      lo = {0, std::min(lo[1], r), std::min(lo[2], c)};
      hi = {0, std::max(hi[1], r + 1), std::max(hi[2], c + 1)};
      if (k > most / 2) out.half.push_back(place);
      if (k > most / 10) {
        out.tenth.push_back(place);
        core_lo = {0, std::min(core_lo[1], r), std::min(core_lo[2], c)};
        core_hi = {0, std::max(core_hi[1], r + 1), std::max(core_hi[2], c + 1)};
      }
      for (const auto& [i, j] : {std::array<std::int64_t, 2>{0, 1}, {0, -1}, {1, 0}, {-1, 0}}) {
        const double next = at(r + i, c + j), after = at(r + 2 * i, c + 2 * j);
        if (next == 0) out.cut = std::max(out.cut, k / most);
        if (!(k > most / 20) || next > most / 20) continue;
        ++rim;
        sharp += k - next > most / 4 && std::abs(next - after) < (k - next) / 4;
      }
    }
  out.sharp = 10 * sharp > 3 * rim;
  out.reach = std::max(hi[1] - lo[1], hi[2] - lo[2]);
  out.core = std::max(core_hi[1] - core_lo[1], core_hi[2] - core_lo[2]);
  return out;
}

}  // namespace tessera
