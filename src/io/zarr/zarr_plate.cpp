// SPDX-License-Identifier: BSD-3-Clause
#include "zarr/zarr_plate.hpp"

#include <algorithm>
#include <filesystem>

#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

using PlateJson = nlohmann::json;

const PlateJson& entry(const PlateJson& object, const char* key) {
  static const PlateJson none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

const PlateJson& said_of(const ZarrNode& node, const char* key) {
  const PlateJson& ome = entry(entry(node.attributes, "ome"), key);
  return ome.is_null() ? entry(node.attributes, key) : ome;
}

// The paths of a list of {path: ...}, each below its group.
std::vector<std::string> paths_in(const PlateJson& list, const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  if (!list.is_array()) return out;
  for (const PlateJson& one : list) {
    const PlateJson& path = entry(one, "path");
    const std::string text = path.is_string() ? path.get<std::string>() : "";
    const fs::path parts(text);
    TESSERA_VALIDATE(
        !text.empty() && !parts.is_absolute() &&
            std::none_of(parts.begin(), parts.end(), [](const fs::path& p) { return p == ".."; }),
        "cannot read ", folder, ": its plate or well names the path '", text,
        "' (wells and fields are groups below it) write it again");
    out.push_back(text);
  }
  return out;
}

std::string counted(std::size_t n, const char* what) { return concat(n, " ", what, n == 1 ? "" : "s"); }

// "A/1" -> "A1"
std::string well_name(const std::string& path) {
  std::string out = path;
  std::erase(out, '/');
  return out;
}

}  // namespace

std::string ZarrPlate::text() const {
  const std::string held = counted(fields.size(), "field");
  if (!plate) return concat("well of ", held);
  const std::string called = name.empty() ? std::string() : concat(" '", name, "'");
  return concat("plate", called, " of ", counted(rows, "row"), " and ", counted(columns, "column"), " with ",
                counted(wells, "well"), " and ", held);
}

ZarrPlate zarr_plate(const ZarrNode& group) {
  ZarrPlate out;
  const auto add_well = [&](const ZarrNode& well, const std::string& path) {
    for (const std::string& field : paths_in(entry(said_of(well, "well"), "images"), well.folder))
      out.fields.push_back({path.empty() ? field : concat(path, "/", field), well_name(path), field});
  };
  if (const PlateJson& plate = said_of(group, "plate"); plate.is_object()) {
    out.plate = true;
    out.rows = entry(plate, "rows").size();
    out.columns = entry(plate, "columns").size();
    if (const PlateJson& name = entry(plate, "name"); name.is_string()) out.name = name.get<std::string>();
    for (const std::string& path : paths_in(entry(plate, "wells"), group.folder)) {
      const ZarrNode well = zarr_node(group.folder + "/" + path);
      if (well.format == 0) continue;  // copied in part
      ++out.wells;
      add_well(well, path);
    }
  } else if (said_of(group, "well").is_object()) {
    out.well = true;
    add_well(group, "");
  }
  return out;
}

}  // namespace tessera::io
