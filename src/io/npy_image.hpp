// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "array_axes.hpp"
#include "array_copy.hpp"
#include "npy_file.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {

/// Channels, depth, height, width of an array and their strides in the file.
struct NpyImage {
  NpyFile file;
  ArrayAxes axes;
  std::array<std::int64_t, 4> extent{1, 1, 1, 1}, stride{};

  explicit NpyImage(const std::string& path) : file(path) {
    TESSERA_VALIDATE(file.count() > 0, path, " has the shape ", shape_text(file.shape()),
                     " (nothing can be read) write it again");
    axes = array_axes(path, file.shape());
    for (std::size_t k = 0; k < 4; ++k) {
      if (axes.of[k] < 0) continue;
      const auto axis = static_cast<std::size_t>(axes.of[k]);
      extent[k] = file.shape()[axis];
      stride[k] = file.strides()[axis];
    }
  }
  Box box() const { return {{0, 0, 0}, {extent[1], extent[2], extent[3]}}; }

  // Runs along the axis that is contiguous in the file, whatever its order.
  void read(const ArrayView& to) {
    std::array<std::int64_t, 4> low{0, to.box.lo()[0], to.box.lo()[1], to.box.lo()[2]};
    std::array<std::int64_t, 4> count{to.channels, to.box.extent(0), to.box.extent(1), to.box.extent(2)};
    const std::array<std::int64_t, 4> step{to.channel_stride, to.stride[0], to.stride[1], to.stride[2]};
    std::size_t run = 3;
    for (std::size_t d = 0; d < 4; ++d)
      if (stride[d] == 1 && extent[d] > extent[run] * (stride[run] == 1 ? 1 : 0)) run = d;
    const std::int64_t n = std::exchange(count[run], 1);
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::int64_t c = 0; c < count[0]; ++c)
      for (std::int64_t z = 0; z < count[1]; ++z)
        for (std::int64_t y = 0; y < count[2]; ++y)
          for (std::int64_t x = 0; x < count[3]; ++x) {
            const std::array<std::int64_t, 4> at{c, z, y, x};
            std::int64_t from = 0, into = 0;
            for (std::size_t d = 0; d < 4; ++d) {
              from += (low[d] + at[d]) * stride[d];
              into += at[d] * step[d];
            }
            file.read(from, n, values.data());
            for (std::int64_t k = 0; k < n; ++k)
              if (to.type == ElementType::float64)
                static_cast<double*>(to.data)[into + k * step[run]] = values[static_cast<std::size_t>(k)];
              else
                static_cast<float*>(to.data)[into + k * step[run]] =
                    static_cast<float>(values[static_cast<std::size_t>(k)]);
          }
  }
};

}  // namespace tessera::io
