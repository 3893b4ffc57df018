// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5/hdf5_words.hpp"

#include <cmath>
#include <optional>
#include <set>

#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

constexpr const char* kGroup = "/metadata";
constexpr const char* kProfile = "/metadata/icc_profile";
constexpr std::int64_t kMostProfile = 64 << 20;  // bytes

// Axes of the grid that an array of the space has: attribute k is of axis first + k.
std::size_t first_axis(const ImageSpace& space) { return space.box.extent(0) > 1 ? 0 : 1; }

void write_profile(const Hdf5File& file, const std::vector<std::uint8_t>& profile) {
  const hsize_t count = profile.size();
  const H5Handle space(check_h5(H5Screate_simple(1, &count, nullptr), "H5Screate_simple", kProfile),
                       H5Sclose);
  const H5Handle make(check_h5(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", kProfile), H5Pclose);
  check_h5(H5Pset_obj_track_times(make.get(), false), "H5Pset_obj_track_times", kProfile);
  const H5Handle link(check_h5(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate", kProfile), H5Pclose);
  check_h5(H5Pset_create_intermediate_group(link.get(), 1), "H5Pset_create_intermediate_group", kProfile);
  const H5Handle set(check_h5(H5Dcreate2(file.id(), kProfile, H5T_STD_U8LE, space.get(), link.get(),
                                         make.get(), H5P_DEFAULT),
                              "H5Dcreate", kProfile),
                     H5Dclose);
  check_h5(H5Dwrite(set.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, profile.data()), "H5Dwrite",
           kProfile);
}

}  // namespace

void read_words(const Hdf5File& file, const std::string& dataset, ImageSpace& space) {
  const std::size_t first = first_axis(space);
  const std::string shared = file.text_attribute(dataset, "unit").value_or("");
  for (std::size_t d = first; d < 3; ++d) {
    ImageSpace::Axis& axis = space.grid[d];
    const std::size_t k = d - first;
    axis.name = file.text_attribute(dataset, concat("axis_", k)).value_or(axis.name);
    const double spacing = file.number_attribute(dataset, concat("pixel_", k)).value_or(0);
    if (!std::isfinite(spacing) || spacing <= 0) continue;
    axis.spacing = spacing;
    axis.unit = file.text_attribute(dataset, concat("unit_", k)).value_or(shared);
  }
  const std::vector<std::string> names = file.text_attributes(dataset, "channel_names");
  if (std::ssize(names) == space.channels) space.channel_names = names;
  space.orientation = file.text_attribute(dataset, "orientation").value_or("");
}

Metadata read_metadata(const Hdf5File& file) {
  Metadata out;
  for (const std::string& key : file.attributes(kGroup))
    if (const std::optional<std::string> text = file.text_attribute(kGroup, key))
      out.text.emplace_back(key, *text);
  if (!file.has(kProfile)) return out;
  const H5Handle set(H5Oopen(file.id(), kProfile, H5P_DEFAULT), H5Oclose);
  if (set.get() < 0 || H5Iget_type(set.get()) != H5I_DATASET) return out;
  const H5Handle space(H5Dget_space(set.get()), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count <= 0 || count > kMostProfile) return out;
  out.profile.resize(static_cast<std::size_t>(count));
  if (H5Dread(set.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.profile.data()) < 0)
    out.profile.clear();
  H5Eclear2(H5E_DEFAULT);
  return out;
}

void write_words(Hdf5File& file, const std::string& dataset, const ImageSpace& space) {
  const std::size_t first = first_axis(space);
  std::set<std::string> units;
  for (std::size_t d = first; d < 3; ++d)
    if (space.grid[d].spacing > 0) units.insert(space.grid[d].unit);
  for (std::size_t d = first; d < 3; ++d) {
    const ImageSpace::Axis& axis = space.grid[d];
    if (axis.spacing > 0) file.set_attribute(dataset, concat("pixel_", d - first), axis.spacing);
    if (axis.spacing > 0 && units.size() > 1 && !axis.unit.empty())
      file.set_attribute(dataset, concat("unit_", d - first), axis.unit);
    if (axis.name != ImageSpace().grid[d].name)
      file.set_attribute(dataset, concat("axis_", d - first), axis.name);
  }
  if (units.size() == 1 && !units.begin()->empty()) file.set_attribute(dataset, "unit", *units.begin());
  if (!space.channel_names.empty()) file.set_attribute(dataset, "channel_names", space.channel_names);
  if (!space.orientation.empty()) file.set_attribute(dataset, "orientation", space.orientation);
}

void write_metadata(Hdf5File& file, const Metadata& metadata, const Communicator& comm) {
  for (const auto& [key, text] : metadata.text)
    if (!key.empty()) file.set_attribute(kGroup, key, text);
  if (metadata.profile.empty()) return;
  comm.together([&] {
    if (comm.rank() == 0) write_profile(file, metadata.profile);
  });
}

}  // namespace tessera::io
