// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/io/image_format.hpp"
#include "txm/compound_file.hpp"

namespace tessera::io {

/// What a file of Zeiss' X-ray microscopes says of its images: .txrm (views of a scan), .txm (slices of a volume), .xrm.
struct TxmInfo {
  std::int64_t rows = 0, columns = 0, images = 0;
  std::string type{};               // uint16, float32
  double pixel = 0;                 // micrometers, of an image's sample at the object; 0: not said
  std::vector<double> angles{};     // degrees, one per image; empty: not said
  double source = 0, detector = 0;  // millimeters from the axis, of the first view; 0: not said
  bool moves = false;               // these differ between views
  // Whether rays spread; nothing: it does not say.
  std::optional<bool> cone{};
  bool reference = false;  // it has an image of the beam alone
};
/// InputError where numbers contradict each other or the streams.
TxmInfo txm_info(const CompoundFile& file);

/// Whether a path is of such a file.
bool is_txm(const ImagePath& path);

}  // namespace tessera::io
