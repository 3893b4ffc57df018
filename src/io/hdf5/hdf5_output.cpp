// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/hdf5_output.hpp"

#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

// HDF5's innermost line is what the system said.
void tell(const std::exception& e, hid_t kind) {
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, kind, "%s", e.what());
}

struct Driver {
  H5FD_t base;                      // HDF5's part
  Hdf5Output* to;                   // of a new file
  std::unique_ptr<InputFile> from;  // of one that is read
  haddr_t end_of_allocated, end_of_file;

  bool read(std::int64_t at, std::int64_t count, void* out) const {
    if (to) return to->read(at, count, out);
    try {
      // As HDF5's own drivers: zeros behind the end.
      const std::int64_t there = std::clamp<std::int64_t>(from->size() - at, 0, count);
      from->read(at, there, out);
      std::memset(static_cast<char*>(out) + there, 0, static_cast<std::size_t>(count - there));
      return true;
    } catch (const std::exception& e) {
      tell(e, H5E_READERROR);
      return false;
    }
  }
};
Driver* own(H5FD_t* file) { return reinterpret_cast<Driver*>(file); }
const Driver* own(const H5FD_t* file) { return reinterpret_cast<const Driver*>(file); }

// Also where a file that is read has a link to another one.
H5FD_t* open_driver(const char* path, unsigned, hid_t access, haddr_t) {
  try {
    auto made = std::make_unique<Driver>();
    // None where a link leads here from another file.
    if (const void* info = H5Pget_driver_info(access))
      made->to = *static_cast<Hdf5Output* const*>(info);
    else
      H5Eclear2(H5E_DEFAULT);
    if (!made->to) {
      made->from = std::make_unique<InputFile>(path);
      made->end_of_file = static_cast<haddr_t>(made->from->size());
    }
    return &made.release()->base;
  } catch (const std::exception& e) {
    tell(e, H5E_CANTOPENFILE);
    return nullptr;
  }
}

hid_t driver() {
  static const hid_t id = [] {
    static H5FD_class_t c{};
#ifdef H5FD_CLASS_VERSION
    c.version = H5FD_CLASS_VERSION;
    c.value = static_cast<H5FD_class_value_t>(501);
#endif
    c.name = "tessera";
    c.maxaddr = static_cast<haddr_t>(1) << 62;
    c.fc_degree = H5F_CLOSE_STRONG;
    c.fapl_size = sizeof(Hdf5Output*);
    c.open = open_driver;
    c.close = [](H5FD_t* f) -> herr_t {
      delete own(f);
      return 0;
    };
    c.cmp = [](const H5FD_t* a, const H5FD_t* b) { return a < b ? -1 : b < a; };
    c.query = [](const H5FD_t*, unsigned long* flags) -> herr_t {
      if (flags)
        *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
                 H5FD_FEAT_AGGREGATE_SMALLDATA;
      return 0;
    };
    c.get_eoa = [](const H5FD_t* f, H5FD_mem_t) { return own(f)->end_of_allocated; };
    c.set_eoa = [](H5FD_t* f, H5FD_mem_t, haddr_t at) -> herr_t {
      own(f)->end_of_allocated = at;
      return 0;
    };
    c.get_eof = [](const H5FD_t* f, H5FD_mem_t) { return own(f)->end_of_file; };
    c.read = [](H5FD_t* f, H5FD_mem_t, hid_t, haddr_t at, size_t count, void* to) -> herr_t {
      return own(f)->read(static_cast<std::int64_t>(at), static_cast<std::int64_t>(count), to) ? 0 : -1;
    };
    c.write = [](H5FD_t* f, H5FD_mem_t type, hid_t, haddr_t at, size_t count, const void* from) -> herr_t {
      const auto kind = type == H5FD_MEM_DRAW ? Hdf5Output::Kind::samples : Hdf5Output::Kind::structure;
      own(f)->to->write(kind, static_cast<std::int64_t>(at), static_cast<std::int64_t>(count), from);
      own(f)->end_of_file = std::max(own(f)->end_of_file, static_cast<haddr_t>(at + count));
      return 0;
    };
    c.truncate = [](H5FD_t* f, hid_t, hbool_t) -> herr_t {
      if (own(f)->end_of_file == own(f)->end_of_allocated) return 0;
      own(f)->end_of_file = own(f)->end_of_allocated;
      own(f)->to->resize(static_cast<std::int64_t>(own(f)->end_of_file));
      return 0;
    };
    constexpr H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(map), std::end(map), c.fl_map);
    return H5FDregister(&c);
  }();
  return id;
}

}  // namespace

Hdf5Output::Hdf5Output(const std::string& path, const std::string& said)
    : file_(path, OutputFile::Use::make, said), said_(said) {}

H5Handle Hdf5Output::begin() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors become messages in check_h5
  const H5Handle access(check_h5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", said_), H5Pclose);
  check_h5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds",
           said_);
  check_h5(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree", said_);
  Hdf5Output* const self = this;
  check_h5(H5Pset_driver(access.get(), driver(), &self), "H5Pset_driver", said_);
  return {check_h5(H5Fcreate(said_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "H5Fcreate", said_),
          H5Fclose};
}

H5Handle open_hdf5(const std::string& path) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const H5Handle access(check_h5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", path), H5Pclose);
  check_h5(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree", path);
  Hdf5Output* const none = nullptr;
  check_h5(H5Pset_driver(access.get(), driver(), &none), "H5Pset_driver", path);
  return {check_h5(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "H5Fopen", path), H5Fclose};
}

void Hdf5Output::require() const {
  if (problem_) std::rethrow_exception(problem_);
}

bool Hdf5Output::read(std::int64_t at, std::int64_t count, void* to) { return file_.read(at, count, to); }

void Hdf5Output::write(Kind kind, std::int64_t at, std::int64_t count, const void* from) {
  if (places_ && kind == Kind::samples) return places_->push_back(at);
  try {
    file_.write(at, from, count);
  } catch (...) {
    if (!problem_) problem_ = std::current_exception();
  }
}

void Hdf5Output::resize(std::int64_t bytes) {
  try {
    file_.resize(bytes);
  } catch (...) {
    if (!problem_) problem_ = std::current_exception();
  }
}

}  // namespace tessera::io
