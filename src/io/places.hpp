// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/image_space.hpp"

namespace tessera::io {

// Where an image lies, as texts that go along with it (Metadata): they hold on its own grid alone.
using PlaceTexts = std::vector<std::pair<std::string, std::string>>;

/// Centers of the first pixel along slices, rows and columns, in the units of the spacings (OME-Zarr, MRC).
constexpr const char* kTranslation = "translation";
/// Three rows of four numbers that take columns, rows and slices to x, y and z in space (NIfTI's sform).
constexpr const char* kAffine = "affine";

/// Cards of a FITS header (fits_wcs.hpp).
constexpr const char* kWcs = "wcs";

/// Whether a text is one of them, or a map's (GeoTIFF).
bool is_place(const std::string& key);
/// The same places for what begins at space.box.lo().
void move_place(PlaceTexts& texts, const ImageSpace& space);
/// The same places for other pixels along slices, rows and columns: pixel k was `step k + first`. `spacing`: of the old
/// ones, 0 where it is not known. A map's place is left out where pixels have another size.
void move_place(PlaceTexts& texts, const std::array<double, 3>& spacing, const std::array<double, 3>& step,
                const std::array<double, 3>& first);

/// Which way columns, rows and slices run by twelve numbers of an affine to right, anterior and superior: "PRS"; "" of
/// none.
std::string directions_of(const std::vector<double>& affine);

/// So many numbers of the text of a key; nothing where there is none, or another count.
std::vector<double> numbers_of(const PlaceTexts& texts, const std::string& key, std::size_t count);
/// With blanks between them, as short as they can be read back.
std::string number_text(const std::vector<double>& numbers);

/// Meters of a unit of length, 0 for another word.
double meters_of(const std::string& unit);

}  // namespace tessera::io
