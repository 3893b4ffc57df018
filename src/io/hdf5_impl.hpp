// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <string>

#include "posix_file.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {

struct Hdf5File::Impl {
  Communicator comm;
  std::string path, temporary;  // temporary is empty for a file that is read, and after close()
  H5Handle file;                // of a file that is created: on rank 0, which alone writes its structure
  io::OutputFile pixels;        // of a file that is created: for this rank's pixels

  ~Impl() {
    file.reset();
    if (!temporary.empty() && comm.rank() == 0) ::unlink(temporary.c_str());
  }
};

}  // namespace tessera
