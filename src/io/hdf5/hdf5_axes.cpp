// SPDX-License-Identifier: BSD-3-Clause
// What a file of HDF5 says of its arrays: which one is meant, and which axis is which.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "hdf5/hdf5_read.hpp"
#include "hdf5/hdf5_values.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

std::string parent_of(const std::string& object) {
  const std::size_t slash = object.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : object.substr(0, slash);
}

std::string join(const std::string& group, const std::string& name) {
  if (name.starts_with("/")) return name;
  return (group == "/" ? "" : group) + "/" + name;
}

// {"axes": [{"key": "z"}, ...]}, as vigra and ilastik write it.
std::vector<std::string> keys_of(const std::string& axistags) {
  std::vector<std::string> names;
  const auto tags = nlohmann::json::parse(axistags, nullptr, false);
  if (!tags.is_object() || !tags.contains("axes") || !tags["axes"].is_array()) return names;
  for (const auto& axis : tags["axes"]) {
    const bool named = axis.is_object() && axis.contains("key") && axis["key"].is_string();
    names.push_back(named ? axis["key"].get<std::string>() : "");
  }
  return names;
}

// The scales that stand beside the axes (netCDF, h5py's attach_scale).
std::vector<std::string> scales_of(const Hdf5File& file, const std::string& dataset) {
  std::vector<std::string> names;
  const H5Handle attribute(
      H5Aexists_by_name(file.id(), dataset.c_str(), "DIMENSION_LIST", H5P_DEFAULT) > 0
          ? H5Aopen_by_name(file.id(), dataset.c_str(), "DIMENSION_LIST", H5P_DEFAULT, H5P_DEFAULT)
          : -1,
      H5Aclose);
  if (attribute.get() < 0) return names;
  const H5Handle space(H5Aget_space(attribute.get()), H5Sclose),
      type(H5Tvlen_create(H5T_STD_REF_OBJ), H5Tclose);
  const hssize_t axes = H5Sget_simple_extent_npoints(space.get());
  if (axes <= 0) return names;
  std::vector<hvl_t> lists(static_cast<std::size_t>(axes));
  if (H5Aread(attribute.get(), type.get(), lists.data()) < 0) return names;
  for (const hvl_t& list : lists) {
    std::array<char, 256> name{};
    if (list.len > 0) {
      const H5Handle scale(H5Rdereference2(file.id(), H5P_DEFAULT, H5R_OBJECT, list.p), H5Oclose);
      if (scale.get() >= 0) H5Iget_name(scale.get(), name.data(), name.size());
    }
    names.emplace_back(name.data());
  }
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, lists.data());
  return names;
}

std::vector<std::string> last_names(std::vector<std::string> paths) {
  for (std::string& path : paths) path = path.substr(path.rfind('/') + 1);
  return paths;
}

// A list, or one text of names with colons or commas (old NeXus), or of letters.
std::vector<std::string> names_in(const std::vector<std::string>& texts, std::size_t axes) {
  if (texts.size() != 1 || axes == 1) return texts;
  std::string text = texts[0];
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  if (text.size() == axes && text.find_first_of(":,") == std::string::npos) {
    std::vector<std::string> letters;
    for (const char c : text) letters.emplace_back(1, c);
    return letters;
  }
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(":,", at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

}  // namespace

std::vector<std::string> objects(const Hdf5File& file) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->push_back(std::string("/") + name);
    return 0;
  };
  H5Lvisit(file.id(), H5_INDEX_NAME, H5_ITER_INC, add, &names);
  std::erase_if(names, [&](const std::string& name) { return !file.has(name); });
  H5Eclear2(H5E_DEFAULT);
  return names;
}

std::vector<std::int64_t> shape_of(const Hdf5File& file, const std::string& object) {
  if (object.starts_with("/#")) return {};  // what MATLAB keeps for itself
  const H5Handle opened(H5Oopen(file.id(), object.c_str(), H5P_DEFAULT), H5Oclose);
  if (opened.get() < 0 || H5Iget_type(opened.get()) != H5I_DATASET) return {};
  const H5Handle type(H5Dget_type(opened.get()), H5Tclose), space(H5Dget_space(opened.get()), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER && kind != H5T_ENUM && kind != H5T_BITFIELD) return {};
  if (file.text_attribute(object, kMatlabClass) == "char") return {};
  std::array<hsize_t, H5S_MAX_RANK> extent{};
  const int axes = H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  return {extent.begin(), extent.begin() + std::max(0, axes)};
}

AxisLabels stated_axes(const Hdf5File& file, const std::string& dataset, int rank) {
  const auto axes = static_cast<std::size_t>(rank);
  const auto text = [&](const char* key) { return file.text_attribute(dataset, key).value_or(""); };
  const std::string interpretation = text("interpretation"), interlace = text("INTERLACE_MODE");
  std::vector<std::string> meant(axes);
  if (axes > 2 && (interpretation.starts_with("rgb") || interpretation == "spectrum")) meant.back() = "c";
  if (axes > 2 && interpretation == "image") {
    meant[axes - 2] = "y";
    meant[axes - 1] = "x";
  }
  std::vector<std::string> interlaced;
  if (axes == 3 && interlace == "INTERLACE_PIXEL") interlaced = {"y", "x", "c"};
  if (axes == 3 && interlace == "INTERLACE_LINE") interlaced = {"y", "c", "x"};
  if (axes == 3 && interlace == "INTERLACE_PLANE") interlaced = {"c", "y", "x"};
  // Sizes of slices, rows and columns (Fiji, ilastik).
  const bool sized = axes == 3 && numbers_in(file, dataset, "element_size_um").size() == 3;
  const std::vector<std::string> volume =
      sized ? std::vector<std::string>{"z", "y", "x"} : std::vector<std::string>();
  // MATLAB's rows stand first, and HDF5 has its dimensions backwards.
  std::vector<std::string> matlab;
  if (file.text_attribute(dataset, kMatlabClass))
    for (const char c : std::string_view(axes == 2 ? "xy" : axes == 3 ? "cxy" : axes == 4 ? "czxy" : ""))
      matlab.emplace_back(1, c);
  for (AxisLabels labels :
       {AxisLabels{matlab, "the order of MATLAB's dimensions"},
        AxisLabels{keys_of(text("axistags")), "its attribute axistags"},
        AxisLabels{file.text_attributes(dataset, "DIMENSION_LABELS"), "its attribute DIMENSION_LABELS"},
        AxisLabels{interlaced, "its attribute INTERLACE_MODE"},
        AxisLabels{names_in(file.text_attributes(dataset, "axes"), axes), "its attribute axes"},
        AxisLabels{meant, "its attribute interpretation"},
        AxisLabels{names_in(file.text_attributes(parent_of(dataset), "axes"), axes),
                   "the attribute axes of its group"},
        AxisLabels{last_names(scales_of(file, dataset)), "the names of its scales"},
        AxisLabels{volume, "its attribute element_size_um"}})
    if (says_axes(labels, axes)) return labels;
  return {};
}

std::vector<std::string> coordinates_of(const Hdf5File& file, const std::string& dataset, std::size_t axes) {
  std::vector<std::string> out = scales_of(file, dataset);
  const std::string group = parent_of(dataset);
  for (const std::string& object : {dataset, group}) {
    if (out.size() == axes) break;
    out = names_in(file.text_attributes(object, "axes"), axes);
    for (std::string& name : out) name = name.empty() || name == "." ? "" : join(group, name);
  }
  out.resize(axes);
  for (std::string& path : out)
    if (!path.empty() && !file.has(path)) path.clear();
  return out;
}

std::string default_dataset(const Hdf5File& file) {
  constexpr int kDeep = 16;  // groups that lead to groups
  if (file.has("/image")) return "/image";
  std::string at = "/";
  for (int k = 0; k < kDeep; ++k) {
    const std::optional<std::string> next = file.text_attribute(at, "default");
    if (!next || next->empty() || *next == "." || !file.has(join(at, *next))) break;
    at = join(at, *next);
  }
  if (!shape_of(file, at).empty()) return at;
  const auto signal_of = [&](const std::string& group) {
    const std::string name = file.text_attribute(group, "signal").value_or("");
    return !name.empty() && file.has(join(group, name)) ? join(group, name) : "";
  };
  if (const std::string found = signal_of(at); !found.empty()) return found;
  std::vector<std::string> signals;  // of all groups
  for (const std::string& object : objects(file)) {
    if (const std::string found = signal_of(object); !found.empty()) signals.push_back(found);
    if (file.number_attribute(object, "signal") == 1.0 || file.text_attribute(object, "signal") == "1")
      signals.push_back(object);
  }
  std::sort(signals.begin(), signals.end());
  signals.erase(std::unique(signals.begin(), signals.end()), signals.end());
  if (signals.size() == 1) return signals[0];
  std::vector<std::string> arrays;
  if (signals.empty())
    for (const std::string& object : objects(file))
      if (shape_of(file, object).size() >= 2) arrays.push_back(object);
  return arrays.size() == 1 && arrays[0].rfind('/') == 0 ? arrays[0] : "/image";
}

std::string images_in(const Hdf5File& file) {
  constexpr std::size_t kNamed = 8;
  std::string out;
  std::size_t found = 0;
  for (const std::string& object : objects(file)) {
    const std::vector<std::int64_t> shape = shape_of(file, object);
    if (shape.size() < 2 || ++found > kNamed) continue;
    out += concat(out.empty() ? "" : ", ", object, " ", shape_text(shape));
  }
  return found > kNamed ? concat(out, " and ", found - kNamed, " more") : out;
}

}  // namespace tessera::io
