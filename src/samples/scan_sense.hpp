// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/samples/scan.hpp"

namespace tessera {

/// InputError where flats are darker than darks, or where the views do not lie between the two as what a detector counts
/// does, but hold line integrals or the share of the beam already. Of a share that the job says (`values_said`) the
/// file's own flats and darks are left out of `scan`, with a notice. Looks at some rows. Collective.
void check_frames(Scan& scan, bool values_said, std::vector<std::string>& notices, const Communicator& comm);

/// Where columns of the detector stand out from their neighbors in all views (gains that are not those of the flats, which
/// become rings): has them taken, with a notice; a line in scan.warnings where they are to stay.
void judge_gains(Scan& scan, const ScanRows& look, std::vector<std::string>& notices);

/// Parts of judge_parallel(): a line in scan.warnings each.
void judge_motion(Scan& scan, const ScanRows& look);
void judge_linearity(Scan& scan, const ScanRows& look);

/// A line in scan.warnings where views whose angles follow each other are not alike, and in another order they would be.
void judge_order(Scan& scan, const ScanRows& look);

/// A line in scan.warnings where the last views are earlier ones once more, at other angles: of scans that return to see
/// whether the object moved.
void judge_returns(Scan& scan, const ScanRows& look);

/// A line in scan.warnings where whole frames look as of an axis along their rows, or as sinograms. Collective.
void judge_frames(Scan& scan, const ScanRows& look, const Communicator& comm);

}  // namespace tessera
