// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5/hdf5_read.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "array_copy.hpp"
#include "hdf5/hdf5_impl.hpp"
#include "hdf5/hdf5_values.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

using io::Hdf5Reader;
using Piece = Hdf5Reader::Piece;

// Calls visit(piece) for the cells of a grid of `step` that meet the box, each cut to it.
template <class Visit>
void each_cell(const Piece& box, const std::vector<hsize_t>& step, Visit visit) {
  const std::size_t rank = step.size();
  const auto end = [&](std::size_t d) { return box.start[d] + box.count[d]; };
  std::vector<hsize_t> at = box.start;
  for (;;) {
    Piece piece{at, std::vector<hsize_t>(rank)};
    for (std::size_t d = 0; d < rank; ++d)
      piece.count[d] = std::min(end(d), (at[d] / step[d] + 1) * step[d]) - at[d];
    visit(piece);
    std::size_t d = rank;
    for (; d-- > 0; at[d] = box.start[d])
      if ((at[d] += piece.count[d]) < end(d)) break;
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

// The names of filters that this HDF5 lacks, as the file has them.
std::string missing_filters(hid_t set) {
  const H5Handle layout(H5Dget_create_plist(set), H5Pclose);
  std::string out;
  for (int k = 0, n = std::max(0, H5Pget_nfilters(layout.get())); k < n; ++k) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    std::array<char, 256> name{};
    const H5Z_filter_t id = H5Pget_filter2(layout.get(), static_cast<unsigned>(k), &flags, &values, nullptr,
                                           name.size(), name.data(), &config);
    if (id < 0 || H5Zfilter_avail(id) > 0) continue;
    const std::string said(name.data(), ::strnlen(name.data(), name.size()));
    out += concat(out.empty() ? "" : " and ", said.empty() ? "" : said.substr(0, said.find(';')) + ", ",
                  "filter ", id);
  }
  H5Eclear2(H5E_DEFAULT);
  return out;
}

// Scatters a piece, dense in the order of the file, into the view.
template <class Sample, class T>
void scatter(const Piece& piece, const std::array<int, 4>& axes, const Sample* dense, const ArrayView& to) {
  const std::size_t rank = piece.count.size();
  std::vector<std::int64_t> stride(rank, 0);
  std::int64_t first = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    if (axes[k] < 0) continue;
    const auto d = static_cast<std::size_t>(axes[k]);
    stride[d] = k == 0 ? to.channel_stride : to.stride[k - 1];
    first += (static_cast<std::int64_t>(piece.start[d]) - (k == 0 ? 0 : to.box.lo()[k - 1])) * stride[d];
  }
  const auto run = static_cast<std::int64_t>(piece.count[rank - 1]);
  std::vector<hsize_t> at(rank, 0);
  for (;;) {
    T* row = static_cast<T*>(to.data) + first;
    for (std::size_t d = 0; d + 1 < rank; ++d) row += static_cast<std::int64_t>(at[d]) * stride[d];
    for (std::int64_t k = 0; k < run; ++k) row[k * stride[rank - 1]] = static_cast<T>(*dense++);
    std::size_t d = rank - 1;
    for (; d-- > 0; at[d] = 0)
      if (++at[d] < piece.count[d]) break;
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace

namespace io {

std::int64_t Hdf5Reader::Piece::elements() const {
  std::int64_t n = 1;
  for (const hsize_t c : count) n *= static_cast<std::int64_t>(c);
  return n;
}

Hdf5Reader::Hdf5Reader(hid_t file, const std::string& dataset, DatasetInfo about, std::string where,
                       std::vector<hsize_t> start)
    : about_(std::move(about)), where_(std::move(where)), start_(std::move(start)) {
  start_.resize(about_.shape.size(), 0);
  const auto open = [&](hid_t access) {
    return H5Handle(check_read(H5Dopen2(file, dataset.c_str(), access), "H5Dopen", where_), H5Dclose);
  };
  set_ = open(H5P_DEFAULT);
  space_ = H5Handle(check_read(H5Dget_space(set_.get()), "H5Dget_space", where_), H5Sclose);
  const H5Handle layout(check_read(H5Dget_create_plist(set_.get()), "H5Dget_create_plist", where_), H5Pclose);
  chunk_.assign(about_.shape.size(), 1);
  holes_ = StorageHoles(set_.get(), where_);
  const H5Handle stored(check_read(H5Dget_type(set_.get()), "H5Dget_type", where_), H5Tclose);
  bits_ = H5Tget_class(stored.get()) == H5T_BITFIELD;
  if (H5Pget_layout(layout.get()) != H5D_CHUNKED) return;
  H5Pget_chunk(layout.get(), static_cast<int>(chunk_.size()), chunk_.data());
  // A packed chunk that is read in several pieces stays unpacked between them; HDF5 keeps 1 MiB by default.
  if (H5Pget_nfilters(layout.get()) <= 0) return;
  const H5Handle type(check_read(H5Dget_type(set_.get()), "H5Dget_type", where_), H5Tclose);
  std::size_t bytes = H5Tget_size(type.get());
  for (const hsize_t c : chunk_) bytes *= c;
  if (static_cast<std::int64_t>(bytes) * 8 <= Hdf5Reader::kBandBytes / 4) return;  // never cut
  const H5Handle access(check_read(H5Pcreate(H5P_DATASET_ACCESS), "H5Pcreate", where_), H5Pclose);
  check_read(
      H5Pset_chunk_cache(access.get(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT, bytes, H5D_CHUNK_CACHE_W0_DEFAULT),
      "H5Pset_chunk_cache", where_);
  set_.reset();
  set_ = open(access.get());
  holes_ = StorageHoles(set_.get(), where_);
}

std::vector<Hdf5Reader::Group> Hdf5Reader::groups(const Box& region, std::int64_t most) const {
  std::vector<Group> out;
  if (region.empty()) return out;
  const std::size_t rank = about_.shape.size();
  Piece whole{start_, std::vector<hsize_t>(rank, 1)};
  for (std::size_t k = 0; k < 4; ++k) {
    if (about_.axes[k] < 0) continue;
    const auto d = static_cast<std::size_t>(about_.axes[k]);
    whole.start[d] = k == 0 ? 0 : static_cast<hsize_t>(region.lo()[k - 1]);
    whole.count[d] = static_cast<hsize_t>(k == 0 ? about_.channels : region.extent(k - 1));
  }
  const auto room = static_cast<hsize_t>(most);
  // Whole chunks, as many as there is room for, along the last axis first.
  std::vector<hsize_t> step = chunk_;
  hsize_t n = 1;
  for (std::size_t d = 0; d < rank; ++d) n *= std::min(step[d], whole.count[d]);
  for (std::size_t d = rank; d-- > 0 && 2 * n <= room;) {
    const hsize_t one = std::min(step[d], whole.count[d]), rest = n / one;
    step[d] *= std::max<hsize_t>(1, room / rest / step[d]);
    n = rest * std::min(step[d], whole.count[d]);
  }
  // Or parts of one chunk.
  std::vector<hsize_t> part = step;
  for (std::size_t d = 0; d < rank && n > room; ++d) {
    const hsize_t one = std::min(part[d], whole.count[d]), rest = n / one;
    part[d] = std::max<hsize_t>(1, room / rest);
    n = rest * part[d];
  }
  each_cell(whole, step, [&](const Piece& cell) {
    out.emplace_back();
    if (part == step)
      out.back().push_back(cell);
    else
      each_cell(cell, part, [&](const Piece& piece) { out.back().push_back(piece); });
  });
  return out;
}

// HDF5 makes no numbers of bit fields.
template <class T>
void Hdf5Reader::read_numbers(hid_t type, const Piece& piece, T* dense) const {
  if (!bits_) return read_stored(type, piece, dense);
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(piece.elements()));
  read_stored(H5T_NATIVE_B64, piece, bits.data());
  std::transform(bits.begin(), bits.end(), dense, [](std::uint64_t b) { return static_cast<T>(b); });
}

void Hdf5Reader::read_stored(hid_t type, const Piece& piece, void* dense) const {
  const int rank = static_cast<int>(piece.count.size());
  check_h5(H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, piece.start.data(), nullptr, piece.count.data(),
                               nullptr),
           "H5Sselect_hyperslab", where_);
  const H5Handle memory(
      check_h5(H5Screate_simple(rank, piece.count.data(), nullptr), "H5Screate_simple", where_), H5Sclose);
  if (H5Dread(set_.get(), type, memory.get(), space_.get(), H5P_DEFAULT, dense) >= 0) return;
  const std::string problem = h5_problem("H5Dread", where_), filters = missing_filters(set_.get());
  TESSERA_VALIDATE(
      filters.empty(), "cannot read ", where_, " (it is compressed by ", filters,
      ", which this HDF5 does not have) name the folder of the filter's plug-in in "
      "HDF5_PLUGIN_PATH (Python's hdf5plugin has bitshuffle, blosc, lz4, zstd and others; lzf is "
      "h5py's alone), or write the file with gzip: h5repack -f GZIP=4, where the filter is known");
  throw InputError(problem + read_advice(problem));
}

void Hdf5Reader::read(const Piece& piece, double* dense) const {
  read_numbers(H5T_NATIVE_DOUBLE, piece, dense);
  if (!about_.values.plain()) make_samples(about_.values, dense, piece.elements());
  holes_.mark(piece.start, piece.count, dense);
}

void Hdf5Reader::fill(const ArrayView& to) const {
  const auto each_piece = [&](auto& dense, const auto& read_piece) {
    for (const Group& group : groups(to.box, kBandBytes / static_cast<std::int64_t>(sizeof dense[0])))
      for (const Piece& piece : group) {
        beat();
        dense.resize(static_cast<std::size_t>(piece.elements()));
        read_piece(piece);
      }
  };
  if (to.type == ElementType::float32 && about_.values.plain() && holes_.note().empty()) {
    std::vector<float> dense;
    return each_piece(dense, [&](const Piece& piece) {
      read_numbers(H5T_NATIVE_FLOAT, piece, dense.data());
      scatter<float, float>(piece, about_.axes, dense.data(), to);
    });
  }
  std::vector<double> dense;
  each_piece(dense, [&](const Piece& piece) {
    read(piece, dense.data());
    to.type == ElementType::float64 ? scatter<double, double>(piece, about_.axes, dense.data(), to)
                                    : scatter<double, float>(piece, about_.axes, dense.data(), to);
  });
}

}  // namespace io

void Hdf5File::read(const std::string& dataset, const ArrayView& to) {
  Impl& f = *impl_;
  f.comm.together([&] {
    io::require_host(to);
    const std::string where = f.path + ":" + dataset;
    const DatasetInfo about = info(dataset);
    TESSERA_VALIDATE(about.channels == to.channels && about.box.contains(to.box), where, " holds ",
                     about.channels, " channels of ", about.box, " (", to.channels, " of ", to.box,
                     " are needed) is it the right file?");
    Hdf5Reader(id(), dataset, about, where).fill(to);
  });
}

}  // namespace tessera
