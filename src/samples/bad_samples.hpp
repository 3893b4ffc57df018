// SPDX-License-Identifier: BSD-3-Clause
// What a job asks to look for in samples and to leave out: `problem.bad`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sharp_areas.hpp"
#include "tessera/samples/survey.hpp"

namespace tessera {

/// Samples that are bad, as the job asks, no longer count in `marks`; one line says how many of each kind. `stored`: as the
/// file has them, internal range. InputError where they are no picture. Collective; the same for any number of ranks.
void leave_out_bad(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                   const Communicator& comm);

/// Samples around a block that the looks below need.
constexpr std::int64_t kBadBeyond = 8;

/// How much details scatter in most of a part, of white noise its deviation. Collective.
double detail_level(const NearPlanes& near, const Communicator& comm);

constexpr double kStarContrast = 5;
struct BadPlace {
  std::int64_t channel = 0, slice = 0, row = 0, column = 0;  // slice: of this rank's
};

/// Single samples that stand out of all around them, up (hot) or down (dead), and out of how much others there do. `level`:
/// detail_level(). This rank's.
struct BadPoints {
  std::vector<BadPlace> hot, dead;
};
BadPoints bad_points(const NearPlanes& near, double level);

/// Samples brighter than their surroundings in finer details than stars have (`contrast` kStarContrast), or than a kernel lets through
/// (hit_contrast() of it), with what touches them. This rank's.
std::vector<BadPlace> cosmic_rays(const NearPlanes& near, double level, double contrast);
double hit_contrast(const at::Tensor& taps);

/// Rows (axis 1) or columns (axis 2) of a channel that stand out on both sides all along, or from one end of the frame on
/// for a third of it, up to three beside each other; in all slices together. Collective.
struct OddLine {
  std::int64_t channel = 0, line = 0, begin = 0, end = 0;  // begin, end: along it
};
std::vector<OddLine> bad_lines(const NearPlanes& near, const Box& frame, std::size_t axis,
                               const Communicator& comm);

}  // namespace tessera
