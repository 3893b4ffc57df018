// SPDX-License-Identifier: BSD-3-Clause
#include "job/astra_matlab.hpp"

#include <nlohmann/json.hpp>

#include "tessera/core/error.hpp"
#include "tessera/io/matlab_file.hpp"

namespace tessera {
namespace {

// Numbers by rows where `rows` asks for them; else one, or a list.
nlohmann::json json_of(const MatlabValue& value, bool rows) {
  if (!value.text.empty()) return value.text;
  if (!rows)
    return value.numbers.size() == 1 ? nlohmann::json(value.numbers[0]) : nlohmann::json(value.numbers);
  nlohmann::json out = nlohmann::json::array();
  const auto high = static_cast<std::size_t>(value.size[0]);
  for (std::size_t r = 0; r < high; ++r) {
    nlohmann::json row = nlohmann::json::array();
    for (std::size_t k = r; k < value.numbers.size(); k += high) row.push_back(value.numbers[k]);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::string astra_json(const std::string& bytes, const std::string& path) {
  const MatlabValue file = read_matlab(bytes, path);
  const MatlabValue* dict = file.field("type") ? &file : nullptr;
  for (const auto& [name, value] : file.fields) {
    if (!value.field("type")) continue;
    TESSERA_VALIDATE(!dict, path, " has several geometries (", name, " is the second) save one");
    dict = &value;
  }
  TESSERA_VALIDATE(
      dict, path,
      " has no geometry of ASTRA (a struct whose type is a word, as cone_vec) save proj_geom, for example "
      "by scipy.io.savemat");
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, value] : dict->fields) {
    if (!value.fields.empty()) continue;
    const bool list = name == "ProjectionAngles";
    out[name] = list ? nlohmann::json(value.numbers) : json_of(value, name == "Vectors");
  }
  return out.dump();
}

}  // namespace tessera
