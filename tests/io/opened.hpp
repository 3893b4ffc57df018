// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::test {

using Wanted = std::function<double(std::int64_t, const Index3&)>;  // of a channel and a point

/// Samples of this rank's block that are not as wanted, the image read by all ranks. Collective.
inline std::int64_t wrong_samples(const std::string& path, const Communicator& comm, const Wanted& wanted) {
  const SourceInfo info = image_source_info(path, comm);
  const Layout layout = grid_layout(info.box, square_grid(comm.size()));
  Block<double> block(layout.box(comm.rank()), info.channels, ElementType::float64, -1e9);
  read_image(path, layout, block.view(), comm);
  std::int64_t wrong = 0;
  block.for_each([&](std::int64_t c, const Index3& p, double v) { wrong += v != wanted(c, p); });
  return wrong;
}

/// The message by which a file is refused; empty: it is opened.
inline std::string refusal_of(const std::string& path) {
  try {
    open_image(path);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace tessera::test
