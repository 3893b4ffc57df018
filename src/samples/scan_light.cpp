// SPDX-License-Identifier: BSD-3-Clause
// The light of single views, as their ends beside the object show it.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tessera/samples/scan.hpp"

namespace tessera {

namespace {

// Views whose two ends are off by the same, evenly inward: no object does that.
bool ends_differ(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kEnds = 2, kOneIn = 50;
  constexpr double kNoise = 6 * 1.4826, kLeast = 0.01, kAlike = 1.0 / 3;
  const at::Tensor p = look.y.mean(0);  // (views, columns)
  const std::int64_t views = p.size(0), columns = p.size(1);
  if (views < 8 || columns < 8 * kEnds) return false;
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
  if (same * kOneIn < views || same < 3 || 4 * same < 3 * n) return false;
  const at::Tensor found = both.masked_select(alike);
  scan.warnings.push_back(
      fmt::format("{} of {} views have {:.2g} to {:.2g} more than the others at both of their ends, where a "
                  "ray beside the object "
                  "has 0 (the beam or the exposure changed from view to view, and the flats do not say so): "
                  "divide each view by "
                  "what it has beside the object first",
                  same, views, found.min().item<double>(), found.max().item<double>()));
  return true;
}

// Views that differ from the one before by the same in all columns, with or without air beside the object. Each quarter of
// the detector has its own median, and all agree.
void look_for_jumps(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kViews = 24, kColumns = 32, kQuarters = 4;
  constexpr double kLeast = 0.015, kNoise = 6, kAlike = 0.3, kUsual = 4, kSudden = 0.7;
  const at::Tensor p = look.y.mean(0);
  const std::int64_t views = p.size(0), columns = p.size(1), quarter = columns / kQuarters;
  if (views < kViews || columns < kColumns) return;
  const at::Tensor change = (p.narrow(0, 1, views - 1) - p.narrow(0, 0, views - 1))
                                .narrow(1, 0, kQuarters * quarter)
                                .reshape({views - 1, kQuarters, quarter});
  const at::Tensor each = std::get<0>(change.median(2)), all = each.mean(1),
                   apart = std::get<0>((each - all.unsqueeze(1)).abs().max(1));
  const at::Tensor scatter = std::get<0>((change - each.unsqueeze(2)).abs().flatten(1).median(1)) / 0.6745;
  // What changes from view to view as it does before and after is the object: a slab's rays grow longer with its tilt.
  const at::Tensor sudden = at::zeros_like(all);
  for (std::int64_t k = 2; k < views - 3; ++k)
    sudden[k] = all[k] - at::stack({all[k - 2], all[k - 1], all[k + 1], all[k + 2]}).quantile(0.5);
  // Of a median of so many.
  const at::Tensor error = scatter * (1.2533 / std::sqrt(static_cast<double>(quarter)));
  const at::Tensor jumps = all.abs()
                               .gt(kLeast)
                               .logical_and(all.abs().gt(error * kNoise))
                               .logical_and(apart.lt(all.abs() * kAlike))
                               .logical_and(all.abs().gt(scatter * (1 / kUsual)))
                               .logical_and((sudden * all.sign()).gt(all.abs() * kSudden));
  const std::int64_t n = jumps.sum().item<std::int64_t>();
  if (n == 0) return;
  scan.warnings.push_back(
      fmt::format("{} view{} from the one before by up to {:.2g} in all columns alike, the first of them "
                  "view {} (counted from 0; the "
                  "beam or the exposure changed, and the flats do not say so): divide each view by the light "
                  "that a monitor "
                  "counted, or that it has beside the object, first",
                  n, n == 1 ? " differs" : "s differ", all.abs().masked_select(jumps).max().item<double>(),
                  jumps.to(at::kInt).argmax().item<std::int64_t>() + 1));
}

}  // namespace

void judge_light(Scan& scan, const ScanRows& look) {
  if (!ends_differ(scan, look)) look_for_jumps(scan, look);
}

}  // namespace tessera
