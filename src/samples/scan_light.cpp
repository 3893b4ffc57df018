// SPDX-License-Identifier: BSD-3-Clause
// The light of single views, as their ends beside the object show it.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "tessera/samples/scan.hpp"

namespace tessera {

// Views whose two ends are off by the same, evenly inward: no object does that.
void judge_light(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kEnds = 2, kOneIn = 50;
  constexpr double kNoise = 6 * 1.4826, kLeast = 0.01, kAlike = 1.0 / 3;
  const at::Tensor p = look.y.mean(0);  // (views, columns)
  const std::int64_t views = p.size(0), columns = p.size(1);
  if (views < 8 || columns < 8 * kEnds) return;
  const auto end = [&](std::int64_t from) {
    const at::Tensor t = p.narrow(1, from, kEnds).mean(1);
    return t - t.median();
  };
  const at::Tensor left = end(0), right = end(columns - kEnds);
  const at::Tensor both = (left + right) * 0.5, apart = (left - right).abs() * 0.5;
  const at::Tensor uneven = ((end(kEnds) - left).abs()).maximum((end(columns - 2 * kEnds) - right).abs());
  const double least = std::max(kLeast, kNoise * apart.median().item<double>());
  const at::Tensor off = both.abs().gt(least);
  const at::Tensor alike = off.logical_and(apart.maximum(uneven).lt(both.abs() * kAlike));
  const std::int64_t n = off.sum().item<std::int64_t>(), same = alike.sum().item<std::int64_t>();
  if (same * kOneIn < views || same < 3 || 4 * same < 3 * n) return;
  const at::Tensor found = both.masked_select(alike);
  scan.warnings.push_back(
      fmt::format("{} of {} views have {:.2g} to {:.2g} more than the others at both of their ends, where a "
                  "ray beside the object "
                  "has 0 (the beam or the exposure changed from view to view, and the flats do not say so): "
                  "divide each view by "
                  "what it has beside the object first",
                  same, views, found.min().item<double>(), found.max().item<double>()));
}

}  // namespace tessera
