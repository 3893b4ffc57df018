// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fitsio.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/box.hpp"
#include "tessera/core/image_space.hpp"

namespace tessera::io {

/// What a FITS header says of an image's axes: steps of CDELT, or of a CD matrix without turns, in the unit of
/// CUNIT; names of CTYPE. Of a turned grid (CD, PC, CROTA) pixel sizes alone, of a sheared one nothing.
/// Without any, seconds of arc of PIXELSCL, PIXSCALE, SECPIX or PIXAR_A2, else micrometers of XPIXSZ and YPIXSZ.
struct FitsWords {
  std::array<ImageSpace::Axis, 3> grid = ImageSpace().grid;
  std::string directions{};  // "-RA---TAN +DEC--TAN": how the world's coordinates run along columns and rows
};
/// `axes`: FITS numbers of columns, rows and slices; 0: there is none.
FitsWords fits_words(fitsfile* file, const std::array<int, 3>& axes);

/// Whether an axis of this CTYPE is no place: FITS 4.0, tables 25 and 28 (the code before the first -), and words that
/// programs write.
bool is_spectral(const std::string& type);
/// Of the spectral ones those whose positions are the channels of a picture: RGB, CHANNEL and the like.
bool is_color(const std::string& type);
bool is_time(const std::string& type);

/// Names of the channels, in cards CHAN1, CHAN2, ...; nothing where one is missing.
std::vector<std::string> fits_channel_names(fitsfile* file, std::int64_t count);
bool is_channel_key(const std::string& key);

/// Where a detector's frame holds no picture: outside of TRIMSEC, else of DATASEC, else in BIASSEC, where these fit into
/// it. Rows and columns as they lie in the file.
struct FitsSections {
  std::vector<Box> unexposed{};
  std::string note{};  // which keyword says so; empty: none does
};
FitsSections fits_sections(fitsfile* file, std::int64_t height, std::int64_t width);

/// Keywords that describe the observation, units of samples among them; not those of the file's structure, of
/// coordinates and of comments.
std::vector<std::pair<std::string, std::string>> fits_text(fitsfile* file);
/// Cards that is_wcs_key() (fits_wcs.hpp) and wcs_tables() know, as they stand in the header.
std::vector<std::string> fits_cards(fitsfile* file);

}  // namespace tessera::io
