// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {

/// Files are read into and written from host memory, float32 or float64 (ContractError otherwise).
inline void require_host(const ArrayView& view) {
  if (view.device.is_cuda() || (view.type != ElementType::float32 && view.type != ElementType::float64))
    throw ContractError("io takes host arrays of float32 or float64 (files are on the host) copy it first");
}

template <class T, class Move>
void for_rows(const ArrayView& view, const Box& region, T* data, std::int64_t first, std::int64_t count,
              Move move) {
  const Index3 low = region.lo() - view.box.lo();
  for (std::int64_t c = first; c < first + count; ++c)
    for (std::int64_t z = 0; z < region.extent(0); ++z)
      for (std::int64_t y = 0; y < region.extent(1); ++y)
        move(data + c * view.channel_stride + (low[0] + z) * view.stride[0] + (low[1] + y) * view.stride[1] +
             low[2] * view.stride[2]);
}

/// dense (count, region) <- channels [first, first + count) of the pixels `region` of the view.
template <class Dense>
void pack(const ArrayView& view, const Box& region, std::int64_t first, std::int64_t count, Dense* dense) {
  const auto rows = [&](auto* data) {
    for_rows(view, region, data, first, count, [&](const auto* row) {
      for (std::int64_t x = 0; x < region.extent(2); ++x)
        *dense++ = static_cast<Dense>(row[x * view.stride[2]]);
    });
  };
  if (view.type == ElementType::float64)
    rows(static_cast<const double*>(view.data));
  else
    rows(static_cast<const float*>(view.data));
}

/// The way back: channels and pixels of the view <- dense.
template <class Dense>
void unpack(const ArrayView& view, const Box& region, std::int64_t first, std::int64_t count,
            const Dense* dense) {
  const auto rows = [&](auto* data) {
    for_rows(view, region, data, first, count, [&](auto* row) {
      using Element = std::remove_reference_t<decltype(*row)>;
      for (std::int64_t x = 0; x < region.extent(2); ++x)
        row[x * view.stride[2]] = static_cast<Element>(*dense++);
    });
  };
  if (view.type == ElementType::float64)
    rows(static_cast<double*>(view.data));
  else
    rows(static_cast<float*>(view.data));
}

template <class Visit>
void each_row(const ArrayView& view, Visit visit) {
  const Box& b = view.box;
  for (std::int64_t c = 0; c < view.channels; ++c)
    for (std::int64_t z = b.lo()[0]; z < b.hi()[0]; ++z)
      for (std::int64_t y = b.lo()[1]; y < b.hi()[1]; ++y)
        visit(Box({z, y, b.lo()[2]}, {z + 1, y + 1, b.hi()[2]}), c);
}

/// Every sample of the view <- value.
inline void fill(const ArrayView& view, double value) {
  const std::vector<double> row(static_cast<std::size_t>(view.box.extent(2)), value);
  each_row(view, [&](const Box& region, std::int64_t c) { unpack(view, region, c, 1, row.data()); });
}

/// Every channel of the view <- its first one.
inline void copy_first_channel(const ArrayView& view) {
  std::vector<double> row(static_cast<std::size_t>(view.box.extent(2)));
  each_row(view, [&](const Box& region, std::int64_t c) {
    pack(view, region, 0, 1, row.data());
    unpack(view, region, c, 1, row.data());
  });
}

/// A dense (channels, box) view of `data`.
template <class T>
ArrayView dense_view(T* data, const Box& box, std::int64_t channels) {
  ArrayView view;
  view.data = data;
  view.box = box;
  view.channels = channels;
  view.stride = {box.extent(1) * box.extent(2), box.extent(2), 1};
  view.channel_stride = box.pixels();
  view.type = sizeof(T) == 8 ? ElementType::float64 : ElementType::float32;
  return view;
}

}  // namespace tessera::io
