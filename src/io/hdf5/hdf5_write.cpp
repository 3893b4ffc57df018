// SPDX-License-Identifier: BSD-3-Clause
// Datasets of an image: rank 0 allocates all chunks, every rank writes its pixels into them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "array_copy.hpp"
#include "hdf5/hdf5_impl.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

static_assert(std::endian::native == std::endian::little, "pixels are written as they lie in memory");

namespace tessera {
namespace {

struct Chunk {
  Index3 side;        // pixels
  int rank = 0;       // axes of the dataset
  bool wide = false;  // float64
  bool packed = false;
};

Chunk chunk_of(const Box& global, bool wide) {
  Chunk out{Hdf5File::chunk_side(global), global.extent(0) > 1 ? 4 : 3, wide};
  return out;
}

/// HDF5 walks through all chunks to find one: asking for each of the 49152 of 3 x 65536 x 65536 takes 53 s.
/// They were allocated all at once in their order, so where the last of some lies right behind the others'
/// bytes, nothing but these lies between.
class ChunkPlaces {
 public:
  ChunkPlaces(hid_t file, const std::string& dataset, const std::string& path)
      : path_(path),
        set_(check_h5(H5Dopen2(file, dataset.c_str(), H5P_DEFAULT), "H5Dopen", path), H5Dclose),
        space_(check_h5(H5Dget_space(set_.get()), "H5Dget_space", path), H5Sclose) {}
  std::vector<ChunkRun> runs() const {
    hsize_t count = 0;
    check_h5(H5Dget_num_chunks(set_.get(), space_.get(), &count), "H5Dget_num_chunks", path_);
    std::vector<ChunkRun> out;
    const auto n = static_cast<std::int64_t>(count);
    if (n > 0) append(out, 0, at(0), n - 1, at(n - 1));
    return out;
  }

 private:
  struct Place {
    std::int64_t begin = 0, bytes = 0;
  };
  Place at(std::int64_t index) const {
    std::array<hsize_t, 4> offset{};
    unsigned filters = 0;
    haddr_t begin = 0;
    hsize_t bytes = 0;
    check_h5(H5Dget_chunk_info(set_.get(), space_.get(), static_cast<hsize_t>(index), offset.data(), &filters,
                               &begin, &bytes),
             "H5Dget_chunk_info", path_);
    return {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(bytes)};
  }
  void append(std::vector<ChunkRun>& runs, std::int64_t first, Place a, std::int64_t last, Place b) const {
    if (b.begin == a.begin + (last - first) * a.bytes) {
      runs.push_back({first, last - first + 1, a.begin, a.bytes});
      return;
    }
    const std::int64_t middle = (first + last) / 2;
    append(runs, first, a, middle, middle == first ? a : at(middle));
    append(runs, middle + 1, middle + 1 == last ? b : at(middle + 1), last, b);
  }

  std::string path_;
  H5Handle set_, space_;
};

H5Handle make_dataset(hid_t file, const std::string& dataset, const Box& global, std::int64_t channels,
                      const Chunk& chunk, const std::string& where) {
  const auto axes = [&](std::int64_t first, const Index3& n) {
    std::array<hsize_t, 4> out{static_cast<hsize_t>(first)};
    for (int a = 1; a < chunk.rank; ++a)
      out[static_cast<std::size_t>(a)] =
          static_cast<hsize_t>(n[static_cast<std::size_t>(a + 3 - chunk.rank)]);
    return out;
  };
  const auto shape = axes(channels, global.extents()), side = axes(1, chunk.side);
  const H5Handle space(
      check_h5(H5Screate_simple(chunk.rank, shape.data(), nullptr), "H5Screate_simple", where), H5Sclose);
  const H5Handle make(check_h5(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", where), H5Pclose);
  check_h5(H5Pset_chunk(make.get(), chunk.rank, side.data()), "H5Pset_chunk", where);
  if (chunk.packed) {
    check_h5(H5Pset_shuffle(make.get()), "H5Pset_shuffle", where);
    check_h5(H5Pset_deflate(make.get(), 1), "H5Pset_deflate", where);
  } else {
    check_h5(H5Pset_alloc_time(make.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time", where);
  }
  check_h5(H5Pset_fill_time(make.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time", where);
  // A time stamp would differ between two equal runs.
  check_h5(H5Pset_obj_track_times(make.get(), false), "H5Pset_obj_track_times", where);
  const H5Handle link(check_h5(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate", where), H5Pclose);
  check_h5(H5Pset_create_intermediate_group(link.get(), 1), "H5Pset_create_intermediate_group", where);
  H5Handle set(check_h5(H5Dcreate2(file, dataset.c_str(), chunk.wide ? H5T_IEEE_F64LE : H5T_IEEE_F32LE,
                                   space.get(), link.get(), make.get(), H5P_DEFAULT),
                        "H5Dcreate", where),
               H5Dclose);
  // Extends the file to its end: what no rank writes reads as zeros.
  check_h5(H5Fflush(file, H5F_SCOPE_GLOBAL), "H5Fflush", where);
  return set;
}

/// This rank's pixels of one chunk, rows as they lie in it.
template <class T>
void write_part(const ArrayView& from, std::int64_t channel, const Box& mine, const Box& cell,
                const Chunk& chunk, std::int64_t place, std::vector<T>& buffer, io::OutputFile& out) {
  const Index3 at = mine.lo() - cell.lo(), n = mine.extents();
  // Who has a chunk's rows up to the image's end writes the unused rest too: one call instead of one per row.
  const bool whole_rows = at[2] == 0 && n[2] == cell.extent(2);
  const std::int64_t width = whole_rows ? chunk.side[2] : n[2];
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const auto offset = [&](std::int64_t z, std::int64_t y) {
    return place + (((at[0] + z) * chunk.side[1] + at[1] + y) * chunk.side[2] + at[2]) * kSize;
  };
  buffer.assign(static_cast<std::size_t>(n[1] * width), T(0));
  for (std::int64_t z = 0; z < n[0]; ++z) {
    for (std::int64_t y = 0; y < n[1]; ++y) {
      const Index3 lo = mine.lo() + Index3{z, y, 0};
      io::pack(from, Box(lo, {lo[0] + 1, lo[1] + 1, mine.hi()[2]}), channel, 1, buffer.data() + y * width);
    }
    if (whole_rows)
      out.write(offset(z, 0), buffer.data(), n[1] * width * kSize);
    else
      for (std::int64_t y = 0; y < n[1]; ++y)
        out.write(offset(z, y), buffer.data() + y * width, width * kSize);
  }
}

template <class T>
void write_parts(const ArrayView& from, const Box& global, const Chunk& chunk,
                 const std::vector<ChunkRun>& runs, io::OutputFile& out) {
  if (from.box.empty()) return;
  Index3 chunks, first, last;
  for (std::size_t d = 0; d < 3; ++d) {
    chunks[d] = (global.extent(d) + chunk.side[d] - 1) / chunk.side[d];
    first[d] = from.box.lo()[d] / chunk.side[d];
    last[d] = (from.box.hi()[d] - 1) / chunk.side[d];
  }
  std::vector<T> buffer;
  for (std::int64_t c = 0; c < from.channels; ++c)
    for (std::int64_t z = first[0]; z <= last[0]; ++z)
      for (std::int64_t y = first[1]; y <= last[1]; ++y)
        for (std::int64_t x = first[2]; x <= last[2]; ++x) {
          beat();
          const Index3 lo{z * chunk.side[0], y * chunk.side[1], x * chunk.side[2]};
          const Box cell = Box(lo, lo + chunk.side).intersect(global);
          const std::int64_t index = ((c * chunks[0] + z) * chunks[1] + y) * chunks[2] + x;
          const auto run =
              std::prev(std::upper_bound(runs.begin(), runs.end(), index,
                                         [](std::int64_t i, const ChunkRun& r) { return i < r.first; }));
          write_part(from, c, from.box.intersect(cell), cell, chunk,
                     run->begin + (index - run->first) * run->bytes, buffer, out);
        }
}

}  // namespace

std::vector<ChunkRun> chunk_runs(hid_t file, const std::string& dataset, const std::string& path) {
  return ChunkPlaces(file, dataset, path).runs();
}

void Hdf5File::write(const std::string& dataset, const Box& global, const ArrayView& from) {
  Impl& f = *impl_;
  const std::string where = f.path + ":" + dataset;
  Chunk chunk;
  std::string places;  // of the chunks, from rank 0
  f.comm.together([&] {
    io::require_host(from);
    if (f.temporary.empty() || global.empty() || global.lo() != Index3{} || !global.contains(from.box))
      throw ContractError(concat(where, ": cannot write ", from.box, " of ", global,
                                 " (blocks lie in the image, which starts at 0, of a created file)"));
    chunk = chunk_of(global, from.type == ElementType::float64);
    if (f.comm.rank() != 0) return;
    make_dataset(f.file.get(), dataset, global, from.channels, chunk, where);
    f.output->require();
    const std::vector<ChunkRun> runs = chunk_runs(f.file.get(), dataset, f.path);
    places.assign(reinterpret_cast<const char*>(runs.data()), runs.size() * sizeof(ChunkRun));
  });
  places = f.comm.broadcast(places, 0);
  f.comm.together([&] {
    std::vector<ChunkRun> runs(places.size() / sizeof(ChunkRun));
    std::memcpy(runs.data(), places.data(), places.size());
    if (chunk.wide)
      write_parts<double>(from, global, chunk, runs, f.pixels());
    else
      write_parts<float>(from, global, chunk, runs, f.pixels());
  });
  // Whatever the shape, nobody has to guess.
  set_attribute(dataset, "axes", std::string(chunk.rank == 4 ? "czyx" : "cyx"));
}

Index3 Hdf5File::chunk_side(const Box& global) {
  Index3 side{};
  for (std::size_t d = 0; d < 3; ++d)
    side[d] = std::min<std::int64_t>(global.extent(d), global.extent(0) > 1 ? 64 : 512);
  return side;
}

std::vector<std::int64_t> Hdf5File::place_packed(const std::string& dataset, const Box& global,
                                                 std::int64_t channels, bool wide,
                                                 const std::vector<std::int64_t>& bytes) {
  Impl& f = *impl_;
  const std::string where = f.path + ":" + dataset;
  std::vector<std::int64_t> places;
  f.comm.together([&] {
    if (f.comm.rank() != 0) return;
    Chunk chunk = chunk_of(global, wide);
    chunk.packed = true;
    const H5Handle set = make_dataset(f.file.get(), dataset, global, channels, chunk, where);
    Index3 count{};
    for (std::size_t d = 0; d < 3; ++d) count[d] = (global.extent(d) + chunk.side[d] - 1) / chunk.side[d];
    const std::vector<char> none(static_cast<std::size_t>(*std::max_element(bytes.begin(), bytes.end())));
    f.output->tell_places(&places);
    for (std::size_t k = 0; k < bytes.size(); ++k) {
      auto rest = static_cast<std::int64_t>(k);
      std::array<hsize_t, 4> first{};
      auto axis = static_cast<std::size_t>(chunk.rank);
      for (std::size_t d = 3; d-- > 0 && axis > 1; rest /= count[d])
        first[--axis] = static_cast<hsize_t>(rest % count[d] * chunk.side[d]);
      first[0] = static_cast<hsize_t>(rest / (chunk.rank == 3 ? count[0] : 1));
      const herr_t code = H5Dwrite_chunk(set.get(), H5P_DEFAULT, 0, first.data(),
                                         static_cast<std::size_t>(bytes[k]), none.data());
      if (code < 0) f.output->tell_places(nullptr);
      check_h5(code, "H5Dwrite_chunk", where);
    }
    f.output->tell_places(nullptr);
    if (places.size() != bytes.size())
      throw RunError(
          concat("cannot write ", where, " (HDF5 placed ", places.size(), " of ", bytes.size(), " chunks)"));
    f.output->require();
  });
  std::string sent(reinterpret_cast<const char*>(places.data()), places.size() * sizeof(std::int64_t));
  sent = f.comm.broadcast(sent, 0);
  places.resize(bytes.size());
  std::memcpy(places.data(), sent.data(), sent.size());
  set_attribute(dataset, "axes", std::string(global.extent(0) > 1 ? "czyx" : "cyx"));
  return places;
}

void Hdf5File::put_bytes(std::int64_t at, const void* bytes, std::int64_t count) {
  impl_->pixels().write(at, bytes, count);
}

}  // namespace tessera
