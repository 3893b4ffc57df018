// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <tiffio.h>

#include <string>
#include <utility>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera::io {

/// Where a map lies and what its values mean, GeoTIFF's and GDAL's tags as texts that go along with an image.
/// Numbers are decimal, with blanks between them. Source: OGC 19-008r4; https://gdal.org/drivers/raster/gtiff.html
using Texts = std::vector<std::pair<std::string, std::string>>;

/// Of the page at which the file stands.
Texts geo_texts(TIFF* tiff);
/// Sets the tags of a page that is written, of those texts that are such.
void set_geo_tags(TIFF* tiff, const Texts& texts);
/// Whether a text is one of them, and of a place: it holds on the same grid alone.
bool is_geo(const std::string& key);
bool is_geo_place(const std::string& key);
/// The same place for a part that begins at `first` of the grid.
void move_geo(Texts& texts, const Index3& first);
/// That values have a scale and an offset which are not applied; or empty.
std::string scale_note(const Texts& texts);

}  // namespace tessera::io
