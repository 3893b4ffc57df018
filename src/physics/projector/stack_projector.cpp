// SPDX-License-Identifier: BSD-3-Clause
// Parallel and fan beams through many slices: the rays of a detector row stay in their plane, so that the
// weights in the plane are the same for all slices, and rows are sums of two slices.
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "block_projector.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kViews = 32;  // projected by a thread at a time
constexpr std::int64_t kChunk = 8;   // views whose sums stay in registers
constexpr std::int64_t kTileRows = 16, kTileColumns = 32;
constexpr std::int64_t kCache = 1 << 20;  // bytes of the volume that a thread works on at a time
constexpr std::int64_t kRoom = std::int64_t{64} << 20;  // bytes of samples that are turned at a time

// Which samples of some views a rectangle of pixels gets, and their weights; see StackGather.
struct TileWeights {
  std::vector<std::int32_t> first;
  std::vector<float> weight;
};

class StackProjector final : public BlockProjector {
 public:
  explicit StackProjector(const BlockTask& task) : t_(task), g_(*task.geometry), shape_(task.block, 0) {}

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
    const std::int64_t per_view = (samples.extent(2) + kMostTaps) * shape_.pixel;
    const std::int64_t fit = kRoom / (4 * per_view) / kChunk * kChunk;
    const std::int64_t some = std::clamp(fit, kChunk, 8 * kChunk);
    FloatRoom turned(std::min(some, samples.extent(0)) * per_view);
    for (std::int64_t v = samples.lo()[0]; v < samples.hi()[0]; v += some)
      gather(samples, v, std::min(samples.hi()[0], v + some), y, turned.data(), per_view);
  }

 private:
  std::array<std::int64_t, 2> block_columns(std::int64_t view, const Box& samples) const {
    const Box& b = t_.block;
    return columns_of(seen_column(g_, view), b.lo()[1], b.hi()[1], b.lo()[2], b.hi()[2], samples.lo()[2],
                      samples.hi()[2]);
  }

  // Views [begin, end) of the samples, counted from their first one.
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
    const std::int64_t per_view = widest * shape_.pixel;
    if (sums.size() < (end - begin) * per_view) sums = FloatRoom((end - begin) * per_view);
    std::fill_n(sums.data(), (end - begin) * per_view, 0.0F);
    for (const std::size_t main : {std::size_t{1}, std::size_t{2}}) {
      const PlaneSpan whole = plane_span(shape_, main, b.lo()[1], b.hi()[1], b.lo()[2], b.hi()[2]);
      const std::int64_t chunk = t_.kernels->stack_slices;
      const std::int64_t planes = std::clamp<std::int64_t>(
          kCache / (whole.cells * std::min(chunk, shape_.slices) * 4), 8, kMostPlanes);
      for (std::int64_t p = 0; p < whole.planes; p += planes) {
        for (std::int64_t z = 0; z < shape_.slices; z += chunk) {
          PlaneSpan span = whole;
          span.first_plane += p;
          span.planes = std::min(planes, whole.planes - p);
          const float* volume = room_.data() + shape_.at(b.lo()[1], b.lo()[2]) + p * whole.plane_stride + z;
          for (std::int64_t k = 0; k < end - begin; ++k) {
            const ViewLines& view = lines[static_cast<std::size_t>(k)];
            for (const ColumnRun& run : view.runs()) {
              if (run.main != main) continue;
              t_.kernels->stack_project(
                  {volume, span, view.span(run),
                   sums.data() + k * per_view + (run.first - view.first()) * shape_.pixel + z, shape_.pixel,
                   std::min(chunk, shape_.slices - z)});
            }
          }
        }
      }
    }
    for (std::int64_t k = begin; k < end; ++k)
      write_rows(samples, k, lines[static_cast<std::size_t>(k - begin)], sums.data() + (k - begin) * per_view,
                 y, into);
  }

  // Rows from slices, and the length of the lines.
  void write_rows(const Box& samples, std::int64_t view, const ViewLines& lines, const float* sums, float* y,
                  ProjectorInto into) const {
    const RowParts parts(row_slices(g_, samples.lo()[0] + view), samples.lo()[1], samples.hi()[1]);
    const std::int64_t rows = samples.extent(1), columns = samples.extent(2), pixel = shape_.pixel;
    y += view * rows * columns;
    if (into == ProjectorInto::replace) {
      for (std::int64_t j = 0; j < rows; ++j) {
        std::fill(y + j * columns, y + j * columns + (lines.first() - samples.lo()[2]), 0.0F);
        std::fill(y + j * columns + (lines.last() - samples.lo()[2]), y + (j + 1) * columns, 0.0F);
      }
    }
    constexpr std::int64_t kSome = 32;
    for (std::int64_t i = lines.first(); i < lines.last(); i += kSome) {
      const std::int64_t n = std::min(kSome, lines.last() - i);
      std::array<float, kSome> length{};
      for (std::int64_t c = 0; c < n; ++c) length[static_cast<std::size_t>(c)] = lines.length(i + c);
      const float* from = sums + (i - lines.first()) * pixel;
      for (std::int64_t j = 0; j < rows; ++j) {
        const std::int64_t d = parts.slice[static_cast<std::size_t>(j)] - shape_.first_slice;
        const float above = parts.above[static_cast<std::size_t>(j)];
        std::array<float, kSome> value{};
        if (d >= 0 && d < shape_.slices)
          for (std::int64_t c = 0; c < n; ++c)
            value[static_cast<std::size_t>(c)] = (1 - above) * from[c * pixel + d];
        if (above > 0 && d + 1 >= 0 && d + 1 < shape_.slices)
          for (std::int64_t c = 0; c < n; ++c)
            value[static_cast<std::size_t>(c)] += above * from[c * pixel + d + 1];
        float* to = y + j * columns + (i - samples.lo()[2]);
        for (std::int64_t c = 0; c < n; ++c) {
          const float one = value[static_cast<std::size_t>(c)] * length[static_cast<std::size_t>(c)];
          to[c] = into == ProjectorInto::replace ? one : to[c] + one;
        }
      }
    }
  }

  // Slices from rows: columns with slices innermost, times the length of their lines.
  void turn(const Box& samples, const ViewLines& lines, std::int64_t view, const float* y, float* to) const {
    const RowParts parts(row_slices(g_, view), samples.lo()[1], samples.hi()[1]);
    const std::int64_t rows = samples.extent(1), columns = samples.extent(2), pixel = shape_.pixel;
    y += (view - samples.lo()[0]) * rows * columns;
    std::fill_n(to, (lines.last() - lines.first() + kMostTaps) * pixel, 0.0F);
    constexpr std::int64_t kSome = 32;
    for (std::int64_t i = lines.first(); i < lines.last(); i += kSome) {
      const std::int64_t n = std::min(kSome, lines.last() - i);
      std::array<float, kSome> length{};
      for (std::int64_t c = 0; c < n; ++c) length[static_cast<std::size_t>(c)] = lines.length(i + c);
      float* at = to + (i - lines.first()) * pixel;
      for (std::int64_t j = 0; j < rows; ++j) {
        const std::int64_t d = parts.slice[static_cast<std::size_t>(j)] - shape_.first_slice;
        const float above = parts.above[static_cast<std::size_t>(j)];
        const float* from = y + j * columns + (i - samples.lo()[2]);
        const auto add = [&](std::int64_t slice, float part) {
          if (part == 0 || slice < 0 || slice >= shape_.slices) return;
          for (std::int64_t c = 0; c < n; ++c)
            at[c * pixel + slice] += part * (length[static_cast<std::size_t>(c)] * from[c]);
        };
        add(d, 1 - above);
        add(d + 1, above);
      }
    }
  }

  void gather(const Box& samples, std::int64_t begin, std::int64_t end, const float* y, float* turned,
              std::int64_t per_view) {
    std::vector<ViewLines> lines;
    std::vector<SeenColumn> seen;
    for (std::int64_t v = begin; v < end; ++v) {
      const std::array<std::int64_t, 2> c = block_columns(v, samples);
      lines.emplace_back(g_, v, c[0], c[1]);
      seen.push_back(seen_column(g_, v));
    }
    at::parallel_for(begin, end, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t v = from; v < to; ++v)
        turn(samples, lines[static_cast<std::size_t>(v - begin)], v, y, turned + (v - begin) * per_view);
    });
    const Box& b = t_.block;
    const std::int64_t down = (b.extent(1) + kTileRows - 1) / kTileRows;
    const std::int64_t right = (b.extent(2) + kTileColumns - 1) / kTileColumns;
    at::parallel_for(0, down * right, 1, [&](std::int64_t from, std::int64_t to) {
      TileWeights weights;
      for (std::int64_t n = from; n < to; ++n) {
        const std::int64_t h = b.lo()[1] + n / right * kTileRows, w = b.lo()[2] + n % right * kTileColumns;
        const Box tile({0, h, w},
                       {1, std::min(b.hi()[1], h + kTileRows), std::min(b.hi()[2], w + kTileColumns)});
        for (std::int64_t v = begin; v < end; v += kChunk)
          gather_tile(tile, std::min(kChunk, end - v), lines.data() + (v - begin), seen.data() + (v - begin),
                      v, turned + (v - begin) * per_view, per_view, weights);
      }
    });
  }

  void gather_tile(const Box& tile, std::int64_t views, const ViewLines* lines, const SeenColumn* seen,
                   std::int64_t first_view, const float* turned, std::int64_t per_view,
                   TileWeights& weights) {
    int taps = 1;
    for (std::int64_t k = 0; k < views; ++k)
      taps = std::max(taps, taps_of((*t_.traits)[static_cast<std::size_t>(first_view + k)]));
    const std::int64_t pixels = tile.pixels();
    weights.first.assign(static_cast<std::size_t>(views * pixels), 0);
    weights.weight.assign(static_cast<std::size_t>(views * pixels * taps), 0);
    for (std::int64_t k = 0; k < views; ++k)
      weigh(tile, lines[k], seen[k], taps, weights.first.data() + k * pixels,
            weights.weight.data() + k * pixels * taps);
    for (std::int64_t z = 0; z < shape_.slices; z += t_.kernels->stack_slices)
      t_.kernels->stack_gather(
          {turned + z, per_view, shape_.pixel, views, taps, pixels, weights.first.data(),
           weights.weight.data(), room_.data() + shape_.at(tile.lo()[1], tile.lo()[2]) + z, tile.extent(1),
           tile.extent(2), shape_.row, shape_.pixel, std::min(t_.kernels->stack_slices, shape_.slices - z)});
  }

  // Goes along the columns and tells pixels of them.
  static void weigh(const Box& tile, const ViewLines& lines, const SeenColumn& seen, int taps,
                    std::int32_t* first, float* weight) {
    const std::array<std::int64_t, 2> c =
        columns_of(seen, tile.lo()[1], tile.hi()[1], tile.lo()[2], tile.hi()[2], lines.first(), lines.last());
    const std::int64_t wide = tile.extent(2);
    const auto tell = [&](std::int64_t pixel, std::int64_t column, float part) {
      if (part < kLeastWeight) return;
      const auto own = static_cast<std::int32_t>(column - lines.first());
      float* to = weight + pixel * taps;
      if (to[0] == 0) first[pixel] = own;
      const std::int64_t n = own - first[pixel];
      if (n < taps) to[n] = part;
    };
    for (const ColumnRun& run : lines.runs()) {
      const std::int64_t from = std::max(run.first, c[0]), to = std::min(run.last, c[1]);
      const LineSpan span = lines.span(run);
      const std::size_t planes = run.main, cells = 3 - run.main;
      const std::int64_t plane_step = planes == 1 ? wide : 1, cell_step = planes == 1 ? 1 : wide;
      const double least = static_cast<double>(tile.lo()[cells] - 1),
                   most = static_cast<double>(tile.hi()[cells]);
      constexpr double kLift = 1 << 20;  // truncation of what is above zero is the floor
      for (std::int64_t p = tile.lo()[planes]; p < tile.hi()[planes]; ++p) {
        const std::int64_t pixels = (p - tile.lo()[planes]) * plane_step;
        for (std::int64_t i = from; i < to; ++i) {
          const double at = span.at[i - run.first] + static_cast<double>(p) * span.slope[i - run.first];
          if (at < least || at >= most) continue;
          std::int64_t down = static_cast<std::int64_t>(at + kLift) - (1 << 20);
          if (static_cast<double>(down) > at) --down;  // at was rounded up to a whole number
          const auto above = static_cast<float>(at - static_cast<double>(down));
          const std::int64_t cell = down - tile.lo()[cells];
          if (cell >= 0) tell(pixels + cell * cell_step, i, 1 - above);
          if (cell + 1 < tile.extent(cells)) tell(pixels + (cell + 1) * cell_step, i, above);
        }
      }
    }
  }

  BlockTask t_;
  const ProjectionGeometry& g_;
  PackedShape shape_;
  FloatRoom room_;
};

}  // namespace

std::unique_ptr<BlockProjector> make_stack_projector(const BlockTask& task) {
  return std::make_unique<StackProjector>(task);
}

}  // namespace tessera
