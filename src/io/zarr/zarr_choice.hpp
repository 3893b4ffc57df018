// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "zarr/zarr_meta.hpp"

namespace tessera::io {

struct ZarrAxis {
  std::string name;
  char letter = '?';         // t, c, z, y, x; ? for another
  double scale = 0;          // between samples; 0: not known
  double translation = 0;    // place of the first one's center
  std::string unit{};        // um and the like, as other formats have them
  std::int64_t picked = -1;  // the position that the path names
};

/// The array that a path names, and what the groups above it say.
struct ZarrChoice {
  ZarrNode array;
  std::vector<ZarrAxis> axes{};  // in the order of the array
  std::string says{};            // what names the axes; empty: nothing does
  std::vector<std::string> channel_names{};
  bool finest = true;     // level 0
  bool placed = false;    // translations are said
  nlohmann::json ours{};  // what tessera wrote (kOurs)
  std::string note{};
};

/// FILE:/PART names a node below the folder (a level by its path or its number, labels/NAME, an image of a series),
/// then positions along axes: t3, c1/z4. "": the finest level. Source: OME-NGFF 0.4, 0.5. InputError, with what
/// there is to name.
ZarrChoice choose_zarr(const std::string& folder, const std::string& part);

/// The arrays and images of a store, as ImageFormat::list has them.
std::vector<std::pair<std::string, std::string>> list_zarr(const std::string& folder);

/// "micrometer" <-> "um", and so on; other words as they are.
std::string short_unit(const std::string& ome);
std::string ome_unit(const std::string& unit);

}  // namespace tessera::io
