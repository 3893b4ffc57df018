// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "zarr/zarr_meta.hpp"

namespace tessera::io {

/// One image of a plate: of a field of view of a well.
struct PlateField {
  std::string path;         // below the plate: "A/1/0"
  std::string well, field;  // "A1", "0"
};

/// What a group says of the plate, or of the one well, that it is. Source: OME-NGFF 0.4, 0.5.
struct ZarrPlate {
  bool plate = false, well = false;
  std::string name{};
  std::size_t rows = 0, columns = 0, wells = 0;
  std::vector<PlateField> fields{};
  bool is() const { return plate || well; }
  std::string text() const;  // "plate of 8 rows and 12 columns with 96 wells and 384 fields"
};

/// Reads the attributes of the group, and of a plate those of its wells. InputError where they name what is not below it.
ZarrPlate zarr_plate(const ZarrNode& group);

}  // namespace tessera::io
