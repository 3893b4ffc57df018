// SPDX-License-Identifier: BSD-3-Clause
// What other programs say in HDF5 of pixel sizes, and of samples that are codes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hdf5/hdf5_read.hpp"
#include "hdf5/hdf5_values.hpp"
#include "hdf5/hdf5_words.hpp"

namespace tessera::io {
namespace {

// The step between places that stand evenly along an axis of n samples; 0: there is none.
double step_in(const Hdf5File& file, const std::string& places, std::int64_t n) {
  constexpr std::int64_t kMost = 1 << 20;
  constexpr double kEven = 0.02;  // of a step
  if (n < 2 || n > kMost || shape_of(file, places) != std::vector<std::int64_t>{n}) return 0;
  std::vector<double> at(static_cast<std::size_t>(n));
  const H5Handle set(H5Oopen(file.id(), places.c_str(), H5P_DEFAULT), H5Oclose);
  if (H5Dread(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, at.data()) < 0) {
    H5Eclear2(H5E_DEFAULT);
    return 0;
  }
  const double step = (at.back() - at.front()) / static_cast<double>(n - 1);
  for (std::size_t k = 0; k < at.size(); ++k)
    if (!(std::abs(at[k] - at.front() - step * static_cast<double>(k)) <= kEven * std::abs(step))) return 0;
  return std::abs(step);
}

std::string unit_in(const Hdf5File& file, const std::string& object) {
  for (const char* key : {"units", "unit"})
    if (const std::string unit = file.text_attribute(object, key).value_or(""); !unit.empty())
      return unit.starts_with("degree") ? "deg" : unit;  // degrees_north of CF
  return "";
}

// The group of the detector whose frames a dataset is: its own, else the one that holds it too, by a link; "": none
// says the size of its pixels.
std::string detector_of(const Hdf5File& file, const std::string& dataset) {
  const auto says = [&](const std::string& group) {
    return file.has(group + "/x_pixel_size") || file.has(group + "/y_pixel_size");
  };
  if (const std::string own = dataset.substr(0, dataset.rfind('/')); says(own)) return own;
  H5O_info_t about;
  if (H5Oget_info_by_name(file.id(), dataset.c_str(), &about, H5P_DEFAULT) < 0) return "";
  std::vector<std::string> groups;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    const std::string path = std::string("/") + name;
    for (const char* size : {"/x_pixel_size", "/y_pixel_size"})
      if (path.ends_with(size))
        static_cast<std::vector<std::string>*>(to)->push_back(path.substr(0, path.rfind('/')));
    return 0;
  };
  H5Lvisit(file.id(), H5_INDEX_NAME, H5_ITER_INC, add, &groups);
  std::string found;
  for (const std::string& group : groups)
    for (const std::string& name : file.list(group.empty() ? "/" : group)) {
      H5O_info_t other;
      if (found.empty() && file.has(group + "/" + name) &&
          H5Oget_info_by_name(file.id(), (group + "/" + name).c_str(), &other, H5P_DEFAULT) >= 0 &&
          other.fileno == about.fileno && other.addr == about.addr)
        found = group;
    }
  H5Eclear2(H5E_DEFAULT);
  return found;
}

// A length that a dataset says once, or of each pixel the same; 0: none.
double size_in(const Hdf5File& file, const std::string& dataset) {
  constexpr std::int64_t kMost = 1 << 24;
  constexpr double kEven = 0.02;
  const H5Handle set(H5Oopen(file.id(), dataset.c_str(), H5P_DEFAULT), H5Oclose);
  if (set.get() < 0 || H5Iget_type(set.get()) != H5I_DATASET) return 0;
  const H5Handle space(H5Dget_space(set.get()), H5Sclose), type(H5Dget_type(set.get()), H5Tclose);
  const hssize_t n = H5Sget_simple_extent_npoints(space.get());
  const H5T_class_t kind = H5Tget_class(type.get());
  if (n < 1 || n > kMost || (kind != H5T_FLOAT && kind != H5T_INTEGER)) return 0;
  std::vector<double> sizes(static_cast<std::size_t>(n));
  if (H5Dread(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, sizes.data()) < 0) {
    H5Eclear2(H5E_DEFAULT);
    return 0;
  }
  for (const double size : sizes)
    if (!(size > 0 && std::isfinite(size) && std::abs(size - sizes[0]) <= kEven * sizes[0])) return 0;
  return sizes[0];
}

// Source: NeXus, NXdetector: x_pixel_size along columns, y_pixel_size along rows.
void read_detector(const Hdf5File& file, const std::string& dataset, ImageSpace& space) {
  const std::string group = detector_of(file, dataset);
  for (const std::size_t d : {std::size_t{1}, std::size_t{2}}) {
    const std::string place = group + (d == 1 ? "/y_pixel_size" : "/x_pixel_size");
    if (!file.has(place)) continue;
    const std::string unit = unit_in(file, place);
    const double size = unit.empty() ? 0 : size_in(file, place);
    if (size <= 0) continue;
    space.grid[d].spacing = size;
    space.grid[d].unit = unit;
  }
}

}  // namespace

void read_grid(const Hdf5File& file, const std::string& dataset, const DatasetInfo& about,
               ImageSpace& space) {
  const auto said = [](const ImageSpace::Axis& axis) { return axis.spacing > 0; };
  if (std::any_of(space.grid.begin(), space.grid.end(), said)) return;
  // Of slices, rows and columns, whatever the order of the axes (Fiji, ilastik).
  const std::vector<double> size = numbers_in(file, dataset, "element_size_um");
  const std::size_t first = 3 - std::min<std::size_t>(3, size.size());
  if (size.size() == 2 || size.size() == 3)
    for (std::size_t d = first; d < 3; ++d)
      if (std::isfinite(size[d - first]) && size[d - first] > 0 && space.box.extent(d) > 1) {
        space.grid[d].spacing = size[d - first];
        space.grid[d].unit = "um";
      }
  if (!size.empty()) return;
  const std::vector<std::string> places = coordinates_of(file, dataset, about.shape.size());
  for (std::size_t d = 0; d < 3; ++d) {
    const int axis = about.axes[d + 1];
    if (axis < 0) continue;
    const auto k = static_cast<std::size_t>(axis);
    if (places[k].empty()) continue;
    const std::string unit = unit_in(file, places[k]);
    const double step = unit.empty() ? 0 : step_in(file, places[k], about.shape[k]);
    if (!std::isfinite(step) || step <= 0) continue;
    space.grid[d].spacing = step;
    space.grid[d].unit = unit;
  }
  if (std::none_of(space.grid.begin(), space.grid.end(), said)) read_detector(file, dataset, space);
}

// Source: CF conventions 1.11, section 3.5: flag_values and flag_masks with flag_meanings.
std::string codes_of(const Hdf5File& file, const std::string& dataset) {
  constexpr std::size_t kShown = 6;
  std::string meanings = file.text_attribute(dataset, "flag_meanings").value_or("");
  std::replace(meanings.begin(), meanings.end(), ',', ' ');
  std::vector<std::string> words;
  for (std::size_t at = 0; at < meanings.size();) {
    const std::size_t from = meanings.find_first_not_of(' ', at),
                      end = std::min(meanings.find(' ', from), meanings.size());
    if (from == std::string::npos) break;
    words.push_back(meanings.substr(from, end - from));
    at = end;
  }
  for (const char* key : {"flag_values", "flag_masks"}) {
    const std::vector<double> values = numbers_in(file, dataset, key);
    if (values.empty()) continue;
    std::vector<std::string> shown;
    for (std::size_t k = 0; k < std::min(values.size(), kShown); ++k)
      shown.push_back(
          fmt::format("{:g}{}{}", values[k], k < words.size() ? " " : "", k < words.size() ? words[k] : ""));
    // Two values, of which 1 is what is good, are a mask.
    if (std::string_view(key) == "flag_values" && values.size() == 2 && values[0] == 0 && words.size() == 2) {
      const auto has = [&](std::size_t k, std::initializer_list<const char*> any) {
        return std::any_of(any.begin(), any.end(),
                           [&](const char* w) { return words[k].find(w) != std::string::npos; });
      };
      const bool bad = has(1, {"bad", "invalid", "not_", "no_", "un", "mask", "flag", "cloud", "reject",
                               "missing"}),
                 good = has(0, {"good", "valid", "ok", "clear", "best"}) && !has(0, {"not_", "no_", "in"});
      if (!bad && !good) return "";
    }
    return fmt::format("{} {}{}", key, fmt::join(shown, ", "), values.size() > kShown ? ", ..." : "");
  }
  if (!words.empty()) return "flag_meanings " + meanings;
  const std::string name = file.text_attribute(dataset, "standard_name").value_or("");
  return name.ends_with("status_flag") || name == "quality_flag" ? "standard_name " + name : "";
}

}  // namespace tessera::io
