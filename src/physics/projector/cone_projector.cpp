// SPDX-License-Identifier: BSD-3-Clause
// Cone beam on an upright detector: slices and detector rows innermost.
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "block_projector.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kViews = 8;    // projected by a thread at a time
constexpr std::int64_t kPlanes = 16;  // of the volume, which these views go through together
constexpr std::int64_t kBatch = 8;    // views whose samples are turned at a time
constexpr std::int64_t kTileRows = 16, kTileColumns = 64;
constexpr std::int64_t kSome = 32;  // columns that are turned at a time

std::int64_t up_to(std::int64_t x, std::int64_t step) { return (x + step - 1) / step * step; }

class ConeProjector final : public BlockProjector {
 public:
  explicit ConeProjector(const BlockTask& task)
      : t_(task), g_(*task.geometry), shape_(task.block, 0, kMargin) {}

  void load(const float* x) override {
    if (room_.size() == 0) room_ = FloatRoom(shape_.floats);
    pack(shape_, x, room_.data());
  }
  void clear() override {
    if (room_.size() == 0) room_ = FloatRoom(shape_.floats);
    room_.zero();
  }
  void store(float* x, ProjectorInto into) const override { unpack(shape_, room_.data(), x, into); }
  std::int64_t bytes() const override { return shape_.floats * 4; }

  void project(const Box& samples, float* y, ProjectorInto into) const override {
    const std::int64_t views = samples.extent(0), threads = at::get_num_threads();
    const std::int64_t some = std::clamp((views + threads - 1) / threads, std::int64_t{1}, kViews);
    at::parallel_for(0, (views + some - 1) / some, 1, [&](std::int64_t begin, std::int64_t end) {
      FloatRoom sums;
      for (std::int64_t k = begin; k < end; ++k)
        project(samples, k * some, std::min(views, (k + 1) * some), sums, y, into);
    });
  }

  void gather(const Box& samples, const float* y) override {
    for (std::int64_t v = samples.lo()[0]; v < samples.hi()[0]; v += kBatch)
      gather(samples, v, std::min(samples.hi()[0], v + kBatch), y);
  }

 private:
  std::array<std::int64_t, 2> block_columns(std::int64_t view, const Box& samples) const {
    const Box& b = t_.block;
    return columns_of(seen_column(g_, view), b.lo()[1], b.hi()[1], b.lo()[2], b.hi()[2], samples.lo()[2],
                      samples.hi()[2]);
  }

  void project(const Box& samples, std::int64_t begin, std::int64_t end, FloatRoom& sums, float* y,
               ProjectorInto into) const {
    const Box& b = t_.block;
    std::vector<ViewLines> lines;
    std::int64_t widest = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::array<std::int64_t, 2> c = block_columns(samples.lo()[0] + k, samples);
      lines.emplace_back(g_, samples.lo()[0] + k, c[0], c[1]);
      widest = std::max(widest, c[1] - c[0]);
    }
    const std::int64_t rows = up_to(samples.extent(1), kAlign), stride = rows + kAlign;
    const std::int64_t per_view = widest * stride;
    if (sums.size() < (end - begin) * per_view) sums = FloatRoom((end - begin) * per_view);
    std::fill_n(sums.data(), (end - begin) * per_view, 0.0F);
    for (const std::size_t main : {std::size_t{1}, std::size_t{2}}) {
      const PlaneSpan whole = plane_span(shape_, main, b.lo()[1], b.hi()[1], b.lo()[2], b.hi()[2]);
      for (std::int64_t p = 0; p < whole.planes; p += kPlanes) {
        PlaneSpan span = whole;
        span.first_plane += p;
        span.planes = std::min(kPlanes, whole.planes - p);
        const float* volume = room_.data() + shape_.at(b.lo()[1], b.lo()[2]) + p * whole.plane_stride;
        for (std::int64_t k = 0; k < end - begin; ++k) {
          const ViewLines& view = lines[static_cast<std::size_t>(k)];
          for (const ColumnRun& run : view.runs())
            if (run.main == main)
              t_.kernels->cone_project({volume, span, view.span(run), view.rows(run), shape_.first_slice,
                                        shape_.slices, samples.lo()[1], rows / kAlign,
                                        sums.data() + k * per_view + (run.first - view.first()) * stride,
                                        stride});
        }
      }
    }
    for (std::int64_t k = begin; k < end; ++k)
      write_rows(samples, k, lines[static_cast<std::size_t>(k - begin)], sums.data() + (k - begin) * per_view,
                 stride, y, into);
  }

  void write_rows(const Box& samples, std::int64_t view, const ViewLines& lines, const float* sums,
                  std::int64_t stride, float* y, ProjectorInto into) const {
    const std::int64_t rows = samples.extent(1), columns = samples.extent(2);
    y += view * rows * columns;
    if (into == ProjectorInto::replace) {
      for (std::int64_t j = 0; j < rows; ++j) {
        std::fill(y + j * columns, y + j * columns + (lines.first() - samples.lo()[2]), 0.0F);
        std::fill(y + j * columns + (lines.last() - samples.lo()[2]), y + (j + 1) * columns, 0.0F);
      }
    }
    for (std::int64_t i = lines.first(); i < lines.last(); i += kSome) {
      const std::int64_t n = std::min(kSome, lines.last() - i);
      const float* from = sums + (i - lines.first()) * stride;
      for (std::int64_t j = 0; j < rows; ++j) {
        float* to = y + j * columns + (i - samples.lo()[2]);
        std::array<float, kSome> length;
        lines.lengths(i, n, samples.lo()[1] + j, length.data());
        if (into == ProjectorInto::replace)
          for (std::int64_t c = 0; c < n; ++c)
            to[c] = length[static_cast<std::size_t>(c)] * from[c * stride + j];
        else
          for (std::int64_t c = 0; c < n; ++c)
            to[c] += length[static_cast<std::size_t>(c)] * from[c * stride + j];
      }
    }
  }

  // A view's rows in the orders that ConeGather wants, one after the other.
  struct Sorted {
    std::vector<ConeSorted> orders;  // samples: of the view's first column
    std::int64_t floats = 0;
    Sorted(const Box& samples, const ViewTraits& traits, std::int64_t columns) {
      const auto phases_for = [](double step) {
        return std::max(1, static_cast<int>(std::ceil(1 / step - kLeastWeight)));
      };
      for (int n = phases_for(traits.row_step_most); n <= phases_for(traits.row_step_least); ++n) {
        const std::int64_t first = samples.lo()[1] / n, rows = (samples.hi()[1] - 1) / n + 1 - first;
        const std::int64_t phase = rows + 2 * kMargin, column = up_to(n * phase, kAlign);
        orders.push_back({nullptr, column, phase, n, first, rows});
        floats += columns * column;
      }
    }
    void place(float* at, std::int64_t columns) {
      for (ConeSorted& order : orders) {
        order.samples = at + kMargin;
        at += columns * order.column_stride;
      }
    }
  };

  void turn(const Box& samples, const Sorted& sorted, const ViewLines& lines, std::int64_t view,
            const float* y, float* to) const {
    const std::int64_t columns = samples.extent(2);
    y += (view - samples.lo()[0]) * samples.extent(1) * columns;
    std::fill_n(to, sorted.floats, 0.0F);
    for (const ConeSorted& order : sorted.orders) {
      for (std::int64_t i = lines.first(); i < lines.last(); i += kSome) {
        const std::int64_t n = std::min(kSome, lines.last() - i);
        float* at = to + (i - lines.first()) * order.column_stride + kMargin;
        for (std::int64_t j = samples.lo()[1]; j < samples.hi()[1]; ++j) {
          const std::int64_t place =
              j % order.phases * order.phase_stride + j / order.phases - order.first_row;
          const float* from = y + (j - samples.lo()[1]) * columns + (i - samples.lo()[2]);
          std::array<float, kSome> length;
          lines.lengths(i, n, j, length.data());
          for (std::int64_t c = 0; c < n; ++c)
            at[c * order.column_stride + place] = length[static_cast<std::size_t>(c)] * from[c];
        }
      }
      to += (lines.last() - lines.first()) * order.column_stride;
    }
  }

  void gather(const Box& samples, std::int64_t begin, std::int64_t end, const float* y) {
    std::vector<ViewLines> lines;
    std::vector<SeenColumn> seen;
    std::vector<Sorted> sorted;
    std::vector<std::int64_t> place{0};
    for (std::int64_t v = begin; v < end; ++v) {
      const std::array<std::int64_t, 2> c = block_columns(v, samples);
      lines.emplace_back(g_, v, c[0], c[1]);
      seen.push_back(seen_column(g_, v));
      sorted.emplace_back(samples, (*t_.traits)[static_cast<std::size_t>(v)], c[1] - c[0]);
      place.push_back(place.back() + sorted.back().floats);
    }
    if (turned_.size() < place.back()) turned_ = FloatRoom(place.back());
    for (std::size_t k = 0; k < sorted.size(); ++k)
      sorted[k].place(turned_.data() + place[k], lines[k].last() - lines[k].first());
    at::parallel_for(begin, end, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t v = from; v < to; ++v) {
        const auto k = static_cast<std::size_t>(v - begin);
        turn(samples, sorted[k], lines[k], v, y, turned_.data() + place[k]);
      }
    });
    const Box& b = t_.block;
    const std::int64_t down = (b.extent(1) + kTileRows - 1) / kTileRows;
    const std::int64_t right = (b.extent(2) + kTileColumns - 1) / kTileColumns;
    at::parallel_for(0, down * right, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t n = from; n < to; ++n) {
        const std::int64_t h0 = b.lo()[1] + n / right * kTileRows, h1 = std::min(b.hi()[1], h0 + kTileRows);
        const std::int64_t w0 = b.lo()[2] + n % right * kTileColumns,
                           w1 = std::min(b.hi()[2], w0 + kTileColumns);
        for (std::size_t k = 0; k < lines.size(); ++k) {
          const ViewLines& view = lines[k];
          const std::array<std::int64_t, 2> c =
              columns_of(seen[k], h0, h1, w0, w1, view.first(), view.last());
          for (const ColumnRun& whole : view.runs()) {
            const ColumnRun run{std::max(whole.first, c[0]), std::min(whole.last, c[1]), whole.main};
            if (run.first >= run.last) continue;
            std::vector<ConeSorted> orders = sorted[k].orders;
            for (ConeSorted& order : orders)
              order.samples += (run.first - view.first()) * order.column_stride;
            t_.kernels->cone_gather({orders.data(), orders.back().phases,
                                     plane_span(shape_, run.main, h0, h1, w0, w1), view.span(run),
                                     view.rows(run), shape_.first_slice, shape_.slices / kAlign,
                                     room_.data() + shape_.at(h0, w0)});
          }
        }
      }
    });
  }

  BlockTask t_;
  const ProjectionGeometry& g_;
  PackedShape shape_;
  FloatRoom room_, turned_;
};

}  // namespace

std::unique_ptr<BlockProjector> make_cone_projector(const BlockTask& task) {
  return std::make_unique<ConeProjector>(task);
}

}  // namespace tessera
