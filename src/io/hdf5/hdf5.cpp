// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/hdf5.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "hdf5/hdf5_choice.hpp"
#include "hdf5/hdf5_impl.hpp"
#include "hdf5/hdf5_read.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {

using io::check_read;

namespace {

herr_t keep_innermost(unsigned depth, const H5E_error2_t* entry, void* text) {
  if (depth == 0 && entry->desc) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

// HDF5 prints its whole error stack by default; ours is one line.
void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

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

// What a file without a signature is instead, and what to do.
std::string other_kind(const io::InputFile& file) {
  std::array<char, 16> first{};
  const std::int64_t n = file.read_some(0, std::ssize(first), first.data());
  const std::string_view head(first.data(), static_cast<std::size_t>(n));
  if (head.starts_with("CDF"))
    return "it is netCDF of the classic kind, no HDF5) convert it: nccopy -k nc4 IN.nc OUT.nc";
  if (head.starts_with("MATLAB 5.0"))
    return "it is a MATLAB file before version 7.3, no HDF5) save(file, '-v7.3') writes one";
  return "it is no HDF5 file, or was not closed by its writer) write it again";
}

}  // namespace

namespace io {

std::string number_type(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  const auto bits = std::to_string(8 * H5Tget_size(type));
  if (kind == H5T_FLOAT) return "float" + bits;
  if (kind == H5T_INTEGER) return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits;
  if (kind == H5T_ENUM) return "bool";  // h5py's way of storing numpy's bool; numbers either way
  if (kind == H5T_BITFIELD && bits == "8") return "bool";  // that of PyTables
  if (kind == H5T_BITFIELD && H5Tget_size(type) <= 8) return "uint" + bits;
  return "";
}

std::string h5_problem(const char* call, const std::string& path) {
  std::string inner = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &inner);
  H5Eclear2(H5E_DEFAULT);
  return concat(call, " failed on ", path, " (", inner, ")");
}

std::string read_advice(const std::string& problem) {
  const auto says = [&](const char* text) { return problem.find(text) != std::string::npos; };
  if (says("version number"))
    return concat(" it is of a newer HDF5 than this one, ", H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".",
                  H5_VERS_RELEASE, ": write it without libver='latest', or with libver=('earliest', 'v110')");
  if (says("not a dataset")) return " name a dataset, as FILE.h5:/name; h5ls -r lists them";
  return " is the file complete, and HDF5?";
}

hid_t check_read(hid_t code, const char* call, const std::string& path) {
  if (code < 0) {
    const std::string problem = h5_problem(call, path);
    throw InputError(problem + read_advice(problem));
  }
  return code;
}

}  // namespace io

Hdf5File::Hdf5File() : impl_(std::make_unique<Impl>()) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File::~Hdf5File() = default;
hid_t Hdf5File::id() const { return impl_->file.get(); }

hid_t check_h5(hid_t code, const char* call, const std::string& path) {
  if (code < 0) throw RunError(io::h5_problem(call, path));
  return code;
}

Hdf5File Hdf5File::open(const std::string& path, const Communicator& comm) {
  silence();
  comm.together([&] {
    const io::InputFile file(path);
    TESSERA_VALIDATE(comm.rank() != 0 || has_signature(file), "cannot read ", path, " (", other_kind(file));
  });
  Hdf5File out;
  out.impl_->comm = comm;
  out.impl_->path = path;
  comm.together([&] {
    try {
      out.impl_->file = io::open_hdf5(path);
    } catch (const RunError& e) {
      throw InputError(e.what() + io::read_advice(e.what()));
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
  return io::choose_in(*this, impl_->path, dataset, {}).about;
}

}  // namespace tessera
