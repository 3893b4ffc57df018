// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/samples/scan.hpp"

namespace tessera {

/// Columns of a view's row that stand above or below their neighbors on both sides without the outermost two: by as much as
/// those differ and again, 12 times the noise and a twentieth of `peak`.
std::vector<std::int64_t> specks_in(std::span<const double> y, double noise, double peak);

/// Whether line integrals hold such specks that nothing in the views before and behind explains: a thin wire is in those too.
/// Of views so far apart that a wire might be anywhere: no. Sets scan.peak.
bool shows_specks(Scan& scan, const ScanRows& look);

}  // namespace tessera
