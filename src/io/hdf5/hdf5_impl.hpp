// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <optional>
#include <string>

#include "tessera/io/hdf5.hpp"
#include "tessera/io/hdf5_output.hpp"

namespace tessera {

struct Hdf5File::Impl {
  Communicator comm;
  std::string path, temporary;  // temporary is empty for a file that is read, and after close()
  std::optional<io::Hdf5Output>
      output;            // of a file that is created: on rank 0, which alone writes its structure
  io::OutputFile other;  // of a file that is created: on the other ranks
  H5Handle file;

  io::OutputFile& pixels() { return output ? output->file() : other; }

  ~Impl() {
    file.reset();
    if (!temporary.empty() && comm.rank() == 0) ::unlink(temporary.c_str());
  }
};

}  // namespace tessera
