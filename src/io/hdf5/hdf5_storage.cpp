// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5/hdf5_storage.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include "hdf5/hdf5_read.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/hdf5_output.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

constexpr int kDeep = 8;  // virtual datasets of virtual datasets

using Extent = std::vector<hsize_t>;

H5Handle space_of(hid_t set, const std::string& where) {
  return {check_read(H5Dget_space(set), "H5Dget_space", where), H5Sclose};
}

Extent extent_of(hid_t space) {
  std::array<hsize_t, H5S_MAX_RANK> extent{};
  const int rank = std::max(0, H5Sget_simple_extent_dims(space, extent.data(), nullptr));
  return {extent.begin(), extent.begin() + rank};
}

// Calls visit(first sample of the chunk) for those that meet a box.
template <class Visit>
void each_chunk(const Extent& start, const Extent& count, const Extent& chunk, Visit visit) {
  const std::size_t rank = chunk.size();
  Extent first(rank);
  for (std::size_t d = 0; d < rank; ++d) first[d] = start[d] / chunk[d] * chunk[d];
  Extent at = first;
  for (;;) {
    visit(at);
    std::size_t d = rank;
    for (; d-- > 0; at[d] = first[d])
      if ((at[d] += chunk[d]) < start[d] + count[d]) break;
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

// NaN in the part lo ... hi (not included) of a dense box.
void forget(const Extent& start, const Extent& count, const Extent& lo, const Extent& hi, double* dense) {
  const std::size_t rank = count.size();
  Extent size(rank);
  for (std::size_t d = 0; d < rank; ++d) size[d] = hi[d] - lo[d];
  each_chunk(lo, size, Extent(rank, 1), [&](const Extent& at) {
    hsize_t place = 0;
    for (std::size_t d = 0; d < rank; ++d) place = place * count[d] + at[d] - start[d];
    dense[place] = std::numeric_limits<double>::quiet_NaN();
  });
}

// First and last corner of each block of a selection, one behind the other.
std::vector<Extent> blocks_of(hid_t space, const std::string& where) {
  const auto rank = static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space)));
  const hssize_t n = check_read(H5Sget_select_hyper_nblocks(space), "H5Sget_select_hyper_nblocks", where);
  Extent all(2 * rank * static_cast<std::size_t>(n));
  check_read(H5Sget_select_hyper_blocklist(space, 0, static_cast<hsize_t>(n), all.data()),
             "H5Sget_select_hyper_blocklist", where);
  std::vector<Extent> out;
  for (auto at = all.begin(); at != all.end(); at += 2 * static_cast<std::ptrdiff_t>(rank))
    out.emplace_back(at, at + 2 * static_cast<std::ptrdiff_t>(rank));
  return out;
}

// The file of a source, beside the one that names it or in the working directory; empty: there is none.
std::string source_file(const std::string& name, const std::string& where) {
  std::error_code none;
  const auto folder = std::filesystem::path(where.substr(0, where.rfind(":/"))).parent_path();
  if (std::filesystem::exists(folder / name, none)) return folder / name;
  return std::filesystem::exists(name, none) ? name : "";
}

// Raw data outside of the file end where HDF5 goes on with zeros.
void require_external(hid_t layout, const Extent& extent, std::size_t sample, const std::string& where) {
  const int files = std::max(0, H5Pget_external_count(layout));
  hsize_t left = sample;
  for (const hsize_t n : extent) left *= n;
  for (int k = 0; k < files && left > 0; ++k) {
    std::array<char, 4096> name{};
    off_t offset = 0;
    hsize_t size = 0;
    check_read(H5Pget_external(layout, static_cast<unsigned>(k), name.size(), name.data(), &offset, &size),
               "H5Pget_external", where);
    const hsize_t here = std::min(size, left);
    std::error_code none;
    std::string file = name.data();
    if (!std::filesystem::exists(file, none)) file = source_file(file, where);
    TESSERA_VALIDATE(!file.empty(), where, " has its samples in ", name.data(),
                     ", which is missing (there is nothing to read) put it where the name says");
    const auto there = static_cast<hsize_t>(std::max<std::int64_t>(0, InputFile(file).size() - offset));
    TESSERA_VALIDATE(there >= here, where, " has its samples in ", file, ", which has ", there, " of ", here,
                     " bytes of them (the rest would read as 0) is that file complete?");
    left -= here;
  }
}

void require_source(const std::string& where, const std::string& file, const std::string& dataset,
                    hid_t wanted, hid_t own, int depth);

// Sources of a virtual dataset: each is there, and whole.
void require_sources(hid_t layout, hid_t own, const std::string& where, int depth) {
  std::size_t parts = 0;
  check_read(H5Pget_virtual_count(layout, &parts), "H5Pget_virtual_count", where);
  for (std::size_t k = 0; k < parts; ++k) {
    std::array<char, 4096> name{}, inside{};
    if (H5Pget_virtual_filename(layout, k, name.data(), name.size()) < 0 ||
        H5Pget_virtual_dsetname(layout, k, inside.data(), inside.size()) < 0)
      continue;
    const std::string file = name.data(), dataset = inside.data();
    if ((file + dataset).find('%') != std::string::npos) continue;  // many, by number
    const H5Handle wanted(H5Pget_virtual_srcspace(layout, k), H5Sclose);
    require_source(where, file, dataset, wanted.get(), own, depth);
  }
}

[[noreturn]] void incomplete(const std::string& where, const std::string& source, const std::string& why) {
  throw InputError(concat(where, " is put together from other files, of which ", source, " ", why,
                          " (its part would read as empty) complete it, or cut the part off"));
}

void require_source(const std::string& where, const std::string& file, const std::string& dataset,
                    hid_t wanted, hid_t own, int depth) {
  const std::string path = file == "." ? where.substr(0, where.rfind(":/")) : source_file(file, where);
  TESSERA_VALIDATE(!path.empty(), where, " is put together from other files, of which ", file,
                   " is missing (its part would read as empty) put it beside this one");
  H5Handle opened;
  if (file != ".") {
    try {
      opened = open_hdf5(path);
    } catch (const RunError&) {
      H5Eclear2(H5E_DEFAULT);
      incomplete(where, path, "is no HDF5 file");
    }
  }
  const std::string source = path + ":" + (dataset.starts_with("/") ? "" : "/") + dataset;
  const H5Handle set(H5Dopen2(file == "." ? own : opened.get(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
  H5Eclear2(H5E_DEFAULT);
  if (set.get() < 0) incomplete(where, source, "is missing");
  const H5Handle space = space_of(set.get(), source);
  const Extent extent = extent_of(space.get());
  std::array<hsize_t, H5S_MAX_RANK> first{}, last{};
  if (H5Sget_select_npoints(wanted) > 0 && H5Sget_select_type(wanted) == H5S_SEL_HYPERSLABS &&
      H5Sget_select_bounds(wanted, first.data(), last.data()) >= 0)
    for (std::size_t d = 0; d < extent.size(); ++d)
      if (last[d] != H5S_UNLIMITED && last[d] >= extent[d])
        incomplete(where, source, concat("has ", extent[d], " of ", last[d] + 1, " along its axis ", d));
  H5Eclear2(H5E_DEFAULT);
  if (const Extent all = extent_of(wanted);
      H5Sget_select_type(wanted) == H5S_SEL_ALL && all.size() == extent.size())
    for (std::size_t d = 0; d < extent.size(); ++d)
      if (all[d] > extent[d])
        incomplete(where, source, concat("has ", extent[d], " of ", all[d], " along its axis ", d));
  if (depth >= kDeep) return;
  const StorageHoles holes(set.get(), source, depth + 1);
  if (!holes.note().empty()) incomplete(where, source, "has samples that were never written");
}

}  // namespace

StorageHoles::StorageHoles(hid_t set, const std::string& where, int depth) : set_(set), where_(where) {
  const H5Handle layout(check_read(H5Dget_create_plist(set), "H5Dget_create_plist", where), H5Pclose);
  const H5Handle space = space_of(set, where),
                 type(check_read(H5Dget_type(set), "H5Dget_type", where), H5Tclose);
  const H5D_layout_t kind = H5Pget_layout(layout.get());
  const bool external = H5Pget_external_count(layout.get()) > 0;
  if (external) require_external(layout.get(), extent_of(space.get()), H5Tget_size(type.get()), where);
  if (kind == H5D_VIRTUAL) look_at_virtual(layout, depth);
  TESSERA_VALIDATE(
      external || kind == H5D_VIRTUAL || kind == H5D_COMPACT || H5Dget_storage_size(set) > 0 ||
          H5Sget_simple_extent_npoints(space.get()) == 0,
      where,
      " has no samples (it was made, and nothing was ever written to it) is it the right file, and "
      "complete?");
  if (kind == H5D_CHUNKED) look_at_chunks(layout);
}

void StorageHoles::look_at_chunks(const H5Handle& layout) {
  const H5Handle space = space_of(set_, where_);
  const Extent extent = extent_of(space.get());
  Extent chunk(extent.size());
  H5Pget_chunk(layout.get(), static_cast<int>(chunk.size()), chunk.data());
  hsize_t all = 1, stored = 0;
  for (std::size_t d = 0; d < extent.size(); ++d) all *= (extent[d] + chunk[d] - 1) / chunk[d];
  check_read(H5Dget_num_chunks(set_, space.get(), &stored), "H5Dget_num_chunks", where_);
  if (stored >= all) return;
  chunk_ = chunk;
  note_ = concat(where_, ": ", all - stored, " of its ", all,
                 " chunks were never written: their samples are missing ones");
}

void StorageHoles::look_at_virtual(const H5Handle& layout, int depth) {
  const H5Handle space = space_of(set_, where_);
  const H5Handle file(check_read(H5Iget_file_id(set_), "H5Iget_file_id", where_), H5Fclose);
  require_sources(layout.get(), file.get(), where_, depth);
  const Extent extent = extent_of(space.get()), start(extent.size(), 0);
  const H5Handle left(check_read(H5Scopy(space.get()), "H5Scopy", where_), H5Sclose);
  check_read(H5Sselect_hyperslab(left.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr),
             "H5Sselect_hyperslab", where_);
  std::size_t parts = 0;
  check_read(H5Pget_virtual_count(layout.get(), &parts), "H5Pget_virtual_count", where_);
  for (std::size_t k = 0; k < parts; ++k) {
    const H5Handle part(check_read(H5Pget_virtual_vspace(layout.get(), k), "H5Pget_virtual_vspace", where_),
                        H5Sclose);
    // Parts without an end are cut to what is there by HDF5.
    if (H5Sget_select_type(part.get()) != H5S_SEL_HYPERSLABS ||
        static_cast<hsize_t>(H5Sget_select_npoints(part.get())) == H5S_UNLIMITED)
      return;
    for (const Extent& corners : blocks_of(part.get(), where_)) {
      Extent count(extent.size());
      for (std::size_t d = 0; d < count.size(); ++d) count[d] = corners[count.size() + d] - corners[d] + 1;
      check_read(
          H5Sselect_hyperslab(left.get(), H5S_SELECT_NOTB, corners.data(), nullptr, count.data(), nullptr),
          "H5Sselect_hyperslab", where_);
      if (H5Sget_select_npoints(left.get()) == 0) return;
    }
  }
  note_ = concat(where_, ": ", H5Sget_select_npoints(left.get()), " of its ",
                 H5Sget_simple_extent_npoints(space.get()),
                 " samples have no source file: they are missing ones");
  unmapped_ = blocks_of(left.get(), where_);
}

void StorageHoles::mark(const Extent& start, const Extent& count, double* dense) const {
  const std::size_t rank = start.size();
  if (!chunk_.empty())
    each_chunk(start, count, chunk_, [&](const Extent& at) {
      unsigned mask = 0;
      haddr_t place = HADDR_UNDEF;
      hsize_t size = 0;
      check_read(H5Dget_chunk_info_by_coord(set_, at.data(), &mask, &place, &size),
                 "H5Dget_chunk_info_by_coord", where_);
      if (place != HADDR_UNDEF) return;
      Extent lo(rank), hi(rank);
      for (std::size_t d = 0; d < rank; ++d) {
        lo[d] = std::max(at[d], start[d]);
        hi[d] = std::min(at[d] + chunk_[d], start[d] + count[d]);
      }
      forget(start, count, lo, hi, dense);
    });
  for (const Extent& corners : unmapped_) {
    Extent lo(rank), hi(rank);
    bool meets = true;
    for (std::size_t d = 0; d < rank; ++d) {
      lo[d] = std::max(corners[d], start[d]);
      hi[d] = std::min(corners[rank + d] + 1, start[d] + count[d]);
      meets = meets && lo[d] < hi[d];
    }
    if (meets) forget(start, count, lo, hi, dense);
  }
}

}  // namespace tessera::io
