// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/core/options.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {

/// Whether the views go as far as their angles say: a line in scan.warnings where the first of a turn, or of half a parallel
/// one, stands elsewhere behind the last. Where samples do not tell, views that a count alone spreads are asked about if
/// their steps would be round with both ends counted. `asked`: the angles of the job, of all views. `rows`: amid the
/// detector; `o`: the geometry that is taken, each view's angle among it.
void judge_turn(const Options& o, const Options& asked, const std::vector<double>& angles,
                const at::Tensor& rows, Scan& scan);

/// Of views all around: a line in scan.warnings where rays that two views see from opposite sides are alike under another
/// geometry only: a beam that opens, views that turn the other way, other distances.
void judge_rays(const Options& o, const at::Tensor& rows, Scan& scan);

}  // namespace tessera
