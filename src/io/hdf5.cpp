// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/hdf5.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "array_copy.hpp"
#include "hdf5_impl.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kBandBytes = 32 << 20;  // what a read or write packs at once

herr_t keep_innermost(unsigned depth, const H5E_error2_t* entry, void* text) {
  if (depth == 0 && entry->desc) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

std::string h5_problem(const char* call, const std::string& path) {
  std::string inner = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &inner);
  H5Eclear2(H5E_DEFAULT);
  return concat(call, " failed on ", path, " (", inner, ")");
}

// HDF5 prints its whole error stack by default; ours is one line.
void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

hid_t check_read(hid_t code, const char* call, const std::string& path) {
  if (code < 0) throw InputError(h5_problem(call, path) + " is the file complete, and HDF5?");
  return code;
}

// Where HDF5 looks for it: at 0, 512, 1024, and so on by powers of two.
bool has_signature(const io::InputFile& file) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, kSignature.size()> found{};
  for (std::int64_t at = 0; at + std::ssize(kSignature) <= file.size(); at = at == 0 ? 512 : 2 * at) {
    file.read(at, std::ssize(found), found.data());
    if (std::string_view(found.data(), found.size()) == kSignature) return true;
  }
  return false;
}

std::string type_name(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  const auto bits = std::to_string(8 * H5Tget_size(type));
  if (kind == H5T_FLOAT) return "float" + bits;
  if (kind == H5T_INTEGER) return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits;
  if (kind == H5T_ENUM) return "bool";  // h5py's way of storing numpy's bool; numbers either way
  return "";
}

H5Handle open_dataset(hid_t file, const std::string& dataset, const std::string& path) {
  return {check_read(H5Dopen2(file, dataset.c_str(), H5P_DEFAULT), "H5Dopen", path + ":" + dataset),
          H5Dclose};
}

// Offsets of a region in a dataset of 2, 3 or 4 axes.
struct Slab {
  std::array<hsize_t, 4> start{}, count{};
  int rank = 0;
};

Slab slab(int rank, std::int64_t first, std::int64_t channels, const Box& region) {
  Slab s;
  s.rank = rank;
  const auto put = [&](int axis, std::int64_t from, std::int64_t extent) {
    s.start[static_cast<std::size_t>(axis)] = static_cast<hsize_t>(from);
    s.count[static_cast<std::size_t>(axis)] = static_cast<hsize_t>(extent);
  };
  if (rank > 2) put(0, first, channels);
  if (rank > 3) put(1, region.lo()[0], region.extent(0));
  put(rank - 2, region.lo()[1], region.extent(1));
  put(rank - 1, region.lo()[2], region.extent(2));
  return s;
}

H5Handle select(hid_t file_space, const Slab& s, const std::string& path) {
  check_h5(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, s.start.data(), nullptr, s.count.data(), nullptr),
           "H5Sselect_hyperslab", path);
  return {check_h5(H5Screate_simple(s.rank, s.count.data(), nullptr), "H5Screate_simple", path), H5Sclose};
}

// Parts of a block, in order, one channel and at most kBandBytes each; whole rows of chunks where they fit.
std::vector<std::pair<std::int64_t, Box>> bands(const Box& box, std::int64_t channels, const Index3& chunk,
                                                std::int64_t element) {
  std::vector<std::pair<std::int64_t, Box>> parts;
  if (box.empty()) return parts;
  const std::int64_t row = box.extent(2) * element, chunk_row = row * chunk[0] * chunk[1];
  const bool fits = chunk_row <= kBandBytes;
  const std::int64_t deep = fits ? chunk[0] : 1, step = fits ? chunk[1] : 1;
  const std::int64_t rows = step * std::max<std::int64_t>(1, kBandBytes / (row * deep * step));
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t z = box.lo()[0]; z < box.hi()[0];) {
      const std::int64_t z_end = std::min(box.hi()[0], (z / deep + 1) * deep);
      for (std::int64_t y = box.lo()[1]; y < box.hi()[1];) {
        const std::int64_t y_end = std::min(box.hi()[1], y / step * step + rows);
        parts.emplace_back(c, Box({z, y, box.lo()[2]}, {z_end, y_end, box.hi()[2]}));
        y = y_end;
      }
      z = z_end;
    }
  return parts;
}

}  // namespace

Hdf5File::Hdf5File() : impl_(std::make_unique<Impl>()) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File::~Hdf5File() = default;
hid_t Hdf5File::id() const { return impl_->file.get(); }

hid_t check_h5(hid_t code, const char* call, const std::string& path) {
  if (code < 0) throw RunError(h5_problem(call, path));
  return code;
}

Hdf5File Hdf5File::open(const std::string& path, const Communicator& comm) {
  silence();
  comm.together([&] {
    const io::InputFile file(path);
    TESSERA_VALIDATE(comm.rank() != 0 || has_signature(file), "cannot read ", path,
                     " (it is no HDF5 file, or was not closed by its writer) write it again");
  });
  Hdf5File out;
  out.impl_->comm = comm;
  out.impl_->path = path;
  comm.together([&] {
    try {
      out.impl_->file = io::open_hdf5(path);
    } catch (const RunError& e) {
      throw InputError(std::string(e.what()) + " is the file complete, and HDF5?");
    }
  });
  return out;
}

Hdf5File Hdf5File::create(const std::string& path, const Communicator& comm) {
  silence();
  Hdf5File out;
  Impl& f = *out.impl_;
  f.comm = comm;
  f.path = path;
  const std::string temporary = comm.broadcast(temporary_name(path), 0);
  comm.together([&] {
    if (comm.rank() != 0) return;
    f.output.emplace(temporary, path);
    f.temporary = temporary;
    f.file = f.output->begin();
    f.output->require();
  });
  comm.together([&] {
    if (comm.rank() != 0) f.other = io::OutputFile(temporary, io::OutputFile::Use::open, path);
    f.temporary = temporary;
  });
  return out;
}

void Hdf5File::close(const std::function<void(const std::string& temporary)>& finish) {
  Impl& f = *impl_;
  if (f.temporary.empty()) return f.file.reset();
  f.comm.together([&] {
    if (f.comm.rank() == 0) {
      check_h5(H5Fflush(f.file.get(), H5F_SCOPE_GLOBAL), "H5Fflush", f.path);
      check_h5(H5Fclose(f.file.release()), "H5Fclose", f.path);
      f.output->require();
    }
    f.pixels().sync();  // what this rank's host holds; rank 0's own sync covers only its own
    f.pixels().close();
  });
  f.comm.together([&] {
    if (f.comm.rank() != 0) return;
    if (finish) finish(f.temporary);
    io::commit_file(f.temporary, f.path);
  });
  f.temporary.clear();
}

bool Hdf5File::has(const std::string& object) const {
  // Every group on the way must be asked for: H5Lexists fails where one is missing.
  for (std::size_t slash = object.find('/', 1); slash != std::string::npos;
       slash = object.find('/', slash + 1))
    if (H5Lexists(id(), object.substr(0, slash).c_str(), H5P_DEFAULT) <= 0) return false;
  if (object == "/") return true;
  return H5Lexists(id(), object.c_str(), H5P_DEFAULT) > 0 &&
         H5Oexists_by_name(id(), object.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> Hdf5File::list(const std::string& group) const {
  const std::string where = impl_->path + ":" + group;
  TESSERA_VALIDATE(has(group), "no group ", group, " in ", impl_->path, " (it was asked for) write it");
  const H5Handle handle(check_read(H5Gopen2(id(), group.c_str(), H5P_DEFAULT), "H5Gopen", where), H5Gclose);
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  check_read(H5Literate(handle.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names), "H5Literate", where);
  return names;
}

DatasetInfo Hdf5File::info(const std::string& dataset) const {
  const std::string where = impl_->path + ":" + dataset;
  TESSERA_VALIDATE(has(dataset), "no dataset ", dataset, " in ", impl_->path,
                   " (it was asked for) name one as FILE.h5:/name, or list them with h5ls");
  const H5Handle set = open_dataset(id(), dataset, impl_->path);
  const H5Handle type(check_read(H5Dget_type(set.get()), "H5Dget_type", where), H5Tclose);
  const H5Handle space(check_read(H5Dget_space(set.get()), "H5Dget_space", where), H5Sclose);
  DatasetInfo out;
  out.type = type_name(type.get());
  TESSERA_VALIDATE(!out.type.empty(), where,
                   " holds no real numbers (text, complex or compound) write floats");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  TESSERA_VALIDATE(rank >= 2 && rank <= 4, where, " has ", rank,
                   " axes (an image is (H, W), (C, H, W) or (C, D, H, W)) reshape it");
  std::array<hsize_t, 4> extent{};
  check_read(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr), "H5Sget_simple_extent_dims",
             where);
  std::int64_t bytes = sizeof(double);
  for (int d = 0; d < rank; ++d) {
    out.shape.push_back(static_cast<std::int64_t>(extent[static_cast<std::size_t>(d)]));
    TESSERA_VALIDATE(out.shape.back() > 0, where, " is empty along axis ", d,
                     " (nothing can be read) write it again");
    TESSERA_VALIDATE(!__builtin_mul_overflow(bytes, out.shape.back(), &bytes), where,
                     " has a shape of more than 2^63 bytes (no file holds that) write it again");
  }
  const auto axis = [&](int from_last) { return out.shape[static_cast<std::size_t>(rank - from_last)]; };
  out.channels = rank > 2 ? out.shape[0] : 1;
  out.box = Box({0, 0, 0}, {rank > 3 ? axis(3) : 1, axis(2), axis(1)});
  return out;
}

void Hdf5File::read(const std::string& dataset, const ArrayView& to) {
  Impl& f = *impl_;
  f.comm.together([&] {
    io::require_host(to);
    const std::string where = f.path + ":" + dataset;
    const DatasetInfo about = info(dataset);
    TESSERA_VALIDATE(about.channels == to.channels && about.box.contains(to.box), where, " holds ",
                     about.channels, " channels of ", about.box, " (", to.channels, " of ", to.box,
                     " are needed) is it the right file?");
    const H5Handle set = open_dataset(id(), dataset, f.path);
    const H5Handle space(check_read(H5Dget_space(set.get()), "H5Dget_space", where), H5Sclose);
    const H5Handle layout(check_read(H5Dget_create_plist(set.get()), "H5Dget_create_plist", where), H5Pclose);
    const int rank = static_cast<int>(about.shape.size());
    std::array<hsize_t, 4> chunk{1, 1, 1, 1};
    if (H5Pget_layout(layout.get()) == H5D_CHUNKED) H5Pget_chunk(layout.get(), rank, chunk.data());
    const Index3 step{rank > 3 ? static_cast<std::int64_t>(chunk[1]) : 1,
                      static_cast<std::int64_t>(chunk[static_cast<std::size_t>(rank - 2)]), 1};
    const bool wide = to.type == ElementType::float64;
    const hid_t memory_type = wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
    std::vector<double> buffer;  // doubles also hold floats, aligned for both
    for (const auto& [channel, region] : bands(to.box, to.channels, step, wide ? 8 : 4)) {
      beat();
      buffer.resize(static_cast<std::size_t>(wide ? region.pixels() : (region.pixels() + 1) / 2));
      const H5Handle memory = select(space.get(), slab(rank, channel, 1, region), where);
      check_read(H5Dread(set.get(), memory_type, memory.get(), space.get(), H5P_DEFAULT, buffer.data()),
                 "H5Dread", where);
      if (wide)
        io::unpack(to, region, channel, 1, buffer.data());
      else
        io::unpack(to, region, channel, 1, reinterpret_cast<const float*>(buffer.data()));
    }
  });
}

}  // namespace tessera
