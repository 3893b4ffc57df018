// SPDX-License-Identifier: BSD-3-Clause
// numpy's arrays as images. They say nothing but their shape and type.
#include <array>
#include <utility>
#include <vector>

#include "array_axes.hpp"
#include "array_copy.hpp"
#include "formats.hpp"
#include "npy/npy_file.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

class NpySource final : public ImageSource {
 public:
  NpySource(const std::string& path, const AxesOf& axes_of) : file_(path) {
    TESSERA_VALIDATE(file_.count() > 0, path, " has the shape ", shape_text(file_.shape()),
                     " (nothing can be read) write it again");
    const ArrayAxes axes = axes_of(file_.shape());
    for (std::size_t k = 0; k < 4; ++k) {
      if (axes.of[k] < 0) continue;
      const auto axis = static_cast<std::size_t>(axes.of[k]);
      extent_[k] = file_.shape()[axis];
      stride_[k] = file_.strides()[axis];
    }
    info_ = {ImageSpace(Box({0, 0, 0}, {extent_[1], extent_[2], extent_[3]}), extent_[0])};
    info_.type = file_.type();
    info_.note = axes.note;
    info_.full_scale = full_scale(info_.type);
  }

  void read(const Box& box, double* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void read_floats(const Box& box, float* planar) override { fill(dense_view(planar, box, info_.channels)); }

  // Runs along the axis that is contiguous in the file, whatever its order.
  void fill(const ArrayView& to) override {
    const std::array<std::int64_t, 4> low{0, to.box.lo()[0], to.box.lo()[1], to.box.lo()[2]};
    std::array<std::int64_t, 4> count{to.channels, to.box.extent(0), to.box.extent(1), to.box.extent(2)};
    const std::array<std::int64_t, 4> step{to.channel_stride, to.stride[0], to.stride[1], to.stride[2]};
    std::size_t run = 3;
    for (std::size_t d = 0; d < 4; ++d)
      if (stride_[d] == 1 && extent_[d] > extent_[run] * (stride_[run] == 1 ? 1 : 0)) run = d;
    const std::int64_t n = std::exchange(count[run], 1);
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::int64_t c = 0; c < count[0]; ++c)
      for (std::int64_t z = 0; z < count[1]; ++z)
        for (std::int64_t y = 0; y < count[2]; ++y)
          for (std::int64_t x = 0; x < count[3]; ++x) {
            const std::array<std::int64_t, 4> at{c, z, y, x};
            std::int64_t from = 0, into = 0;
            for (std::size_t d = 0; d < 4; ++d) {
              from += (low[d] + at[d]) * stride_[d];
              into += at[d] * step[d];
            }
            file_.read(from, n, values.data());
            for (std::int64_t k = 0; k < n; ++k)
              if (to.type == ElementType::float64)
                static_cast<double*>(to.data)[into + k * step[run]] = values[static_cast<std::size_t>(k)];
              else
                static_cast<float*>(to.data)[into + k * step[run]] =
                    static_cast<float>(values[static_cast<std::size_t>(k)]);
          }
  }

 private:
  NpyFile file_;
  std::array<std::int64_t, 4> extent_{1, 1, 1, 1}, stride_{};  // channels, slices, rows, columns
};

}  // namespace

std::unique_ptr<ImageSource> npy_source(const std::string& path, const AxesOf& axes_of) {
  return std::make_unique<NpySource>(path, axes_of);
}

ImageFormat npy_format() {
  ImageFormat f;
  f.name = "npy";
  f.suffixes = {".npy"};
  f.open = [](const std::string& file, const std::string&) {
    return npy_source(file, [&](const auto& shape) { return array_axes(file, shape); });
  };
  return f;
}

}  // namespace tessera::io
