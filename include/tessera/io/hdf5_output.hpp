// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "tessera/io/hdf5.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {

/// A new file, the bytes of which HDF5 hands over to us.
///
/// HDF5 1.10 and 1.12 crash when the program ends, or before, where a write of theirs has failed and the file
/// could therefore not be closed. Here no write fails for HDF5: the first error is kept, and require() throws
/// it. It stays in its place, and longer than every handle of the file. Not collective.
class Hdf5Output {
 public:
  /// Makes the file, which is not there yet. RunError with the name `said`.
  Hdf5Output(const std::string& path, const std::string& said);
  Hdf5Output(const Hdf5Output&) = delete;
  Hdf5Output& operator=(const Hdf5Output&) = delete;

  /// HDF5's own structure, in its earliest format; once.
  H5Handle begin();
  /// RunError where a write has failed since the file was made.
  void require() const;
  /// For bytes that HDF5 does not know of.
  OutputFile& file() { return file_; }
  /// While set, samples are not written: where HDF5 would put them is told here, call by call. Null: they are again.
  void tell_places(std::vector<std::int64_t>* places) { places_ = places; }

  // What HDF5 calls.
  bool read(std::int64_t at, std::int64_t count, void* to);
  enum class Kind { structure, samples };
  void write(Kind kind, std::int64_t at, std::int64_t count, const void* from);
  void resize(std::int64_t bytes);

 private:
  OutputFile file_;
  std::string said_;
  std::exception_ptr problem_;  // the first
  std::vector<std::int64_t>* places_ = nullptr;
};

/// A file to be read, by our own calls as well: HDF5 1.10 crashes when the program ends where a close of its
/// own has failed. Takes no locks. RunError with HDF5's words.
H5Handle open_hdf5(const std::string& path);

}  // namespace tessera::io
