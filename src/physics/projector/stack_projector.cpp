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

constexpr std::int64_t kViews = 32;  // projected by a thread at a time; whose samples are turned at a time
constexpr std::int64_t kChunk = 8;   // views whose sums stay in registers
constexpr std::int64_t kTile = 32;   // of pixels, adjoint
constexpr std::int64_t kCells =
    32;  // of a tile of kMostPlanes planes, projection: half a megabyte of 64 slices
constexpr std::int64_t kRoom = std::int64_t{1}
                               << 26;  // floats that are turned at a time, at most, if views are not large
constexpr std::int64_t kSome = 32;     // columns that are turned at a time

// Which samples of some views a rectangle of pixels gets, and their weights; see StackGather.
struct TileWeights {
  std::vector<std::int32_t> first;
  std::vector<float> weight;
};

class StackProjector final : public BlockProjector {
 public:
  explicit StackProjector(const BlockTask& task)
      : t_(task), g_(*task.geometry), shape_(task.block, task.kernels->stack_slices, 0) {}

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
    const std::int64_t per_view = (samples.extent(2) + kMostTaps) * shape_.layers * shape_.pixel;
    const std::int64_t some = std::clamp(kRoom / per_view / kChunk * kChunk, kChunk, kViews);
    for (std::int64_t v = samples.lo()[0]; v < samples.hi()[0]; v += some)
      gather(samples, v, std::min(samples.hi()[0], v + some), y);
  }

 private:
  // Columns of some views with slices innermost, by layers, then views.
  struct Columns {
    float* data;
    std::int64_t layer, view, pixel;
    float* of(std::int64_t k, std::int64_t column) const { return data + k * view + column * pixel; }
  };

  std::array<std::int64_t, 2> block_columns(std::int64_t view, const Box& samples) const {
    const Box& b = t_.block;
    return columns_of(seen_column(g_, view), b.lo()[1], b.hi()[1], b.lo()[2], b.hi()[2], samples.lo()[2],
                      samples.hi()[2]);
  }
  std::int64_t slices_of(std::int64_t layer) const {
    return std::min(shape_.thick, shape_.slices - layer * shape_.thick);
  }

  // Views [begin, end) of the samples, counted from their first one.
  void project(const Box& samples, std::int64_t begin, std::int64_t end, FloatRoom& sums, float* y,
               ProjectorInto into) const {
    std::vector<ViewLines> lines;
    std::vector<SeenColumn> seen;
    std::int64_t widest = 0;
    for (std::int64_t v = samples.lo()[0] + begin; v < samples.lo()[0] + end; ++v) {
      const std::array<std::int64_t, 2> c = block_columns(v, samples);
      lines.emplace_back(g_, v, c[0], c[1]);
      seen.push_back(seen_column(g_, v));
      widest = std::max(widest, c[1] - c[0]);
    }
    const std::int64_t per_layer = (end - begin) * widest * shape_.pixel, floats = shape_.layers * per_layer;
    if (sums.size() < floats) sums = FloatRoom(floats);
    std::fill_n(sums.data(), floats, 0.0F);
    const Columns to{sums.data(), per_layer, widest * shape_.pixel, shape_.pixel};
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer)
      for (const std::size_t main : {std::size_t{1}, std::size_t{2}}) project(layer, main, lines, seen, to);
    for (std::size_t k = 0; k < lines.size(); ++k)
      write_rows(samples, begin + static_cast<std::int64_t>(k), lines[k], to, static_cast<std::int64_t>(k), y,
                 into);
  }

  // Tiles of the volume that stay in a cache while all views go through them.
  void project(std::int64_t layer, std::size_t main, const std::vector<ViewLines>& lines,
               const std::vector<SeenColumn>& seen, const Columns& to) const {
    const Box& b = t_.block;
    const std::size_t across = 3 - main;
    for (std::int64_t p = b.lo()[main]; p < b.hi()[main]; p += kMostPlanes) {
      for (std::int64_t c = b.lo()[across]; c < b.hi()[across]; c += kCells) {
        Index3 lo{}, hi{};
        lo[main] = p;
        hi[main] = std::min(b.hi()[main], p + kMostPlanes);
        lo[across] = c;
        hi[across] = std::min(b.hi()[across], c + kCells);
        PlaneSpan span = plane_span(shape_, main, lo[1], hi[1], lo[2], hi[2]);
        span.lowest = c == b.lo()[across] ? -1 : 0;
        const float* volume = room_.data() + layer * shape_.layer + shape_.at(lo[1], lo[2]);
        for (std::size_t k = 0; k < lines.size(); ++k) {
          const ViewLines& view = lines[k];
          const std::array<std::int64_t, 2> met =
              columns_of(seen[k], lo[1], hi[1], lo[2], hi[2], view.first(), view.last());
          for (const ColumnRun& whole : view.runs()) {
            const ColumnRun run{std::max(whole.first, met[0]), std::min(whole.last, met[1]), whole.main};
            if (run.main != main || run.first >= run.last) continue;
            t_.kernels->stack_project(
                {volume, span, view.span(run),
                 to.of(static_cast<std::int64_t>(k), run.first - view.first()) + layer * to.layer, to.pixel,
                 slices_of(layer)});
          }
        }
      }
    }
  }

  // Rows from slices, and the length of the lines.
  void write_rows(const Box& samples, std::int64_t view, const ViewLines& lines, const Columns& sums,
                  std::int64_t k, float* y, ProjectorInto into) const {
    const RowParts parts(row_slices(g_, samples.lo()[0] + view), samples.lo()[1], samples.hi()[1]);
    const std::int64_t rows = samples.extent(1), columns = samples.extent(2), pixel = sums.pixel;
    y += view * rows * columns;
    if (into == ProjectorInto::replace) {
      for (std::int64_t j = 0; j < rows; ++j) {
        std::fill(y + j * columns, y + j * columns + (lines.first() - samples.lo()[2]), 0.0F);
        std::fill(y + j * columns + (lines.last() - samples.lo()[2]), y + (j + 1) * columns, 0.0F);
      }
    }
    for (std::int64_t i = lines.first(); i < lines.last(); i += kSome) {
      const std::int64_t n = std::min(kSome, lines.last() - i);
      std::array<float, kSome> length{};
      for (std::int64_t c = 0; c < n; ++c) length[static_cast<std::size_t>(c)] = lines.length(i + c);
      const float* from = sums.of(k, i - lines.first());
      for (std::int64_t j = 0; j < rows; ++j) {
        const std::int64_t d = parts.slice[static_cast<std::size_t>(j)] - shape_.first_slice;
        const float above = parts.above[static_cast<std::size_t>(j)];
        std::array<float, kSome> value{};
        const auto add = [&](std::int64_t slice, float part) {
          if (part == 0 || slice < 0 || slice >= shape_.slices) return;
          const float* at = from + slice / shape_.thick * sums.layer + slice % shape_.thick;
          for (std::int64_t c = 0; c < n; ++c) value[static_cast<std::size_t>(c)] += part * at[c * pixel];
        };
        add(d, 1 - above);
        add(d + 1, above);
        float* to = y + j * columns + (i - samples.lo()[2]);
        for (std::int64_t c = 0; c < n; ++c) {
          const float one = value[static_cast<std::size_t>(c)] * length[static_cast<std::size_t>(c)];
          to[c] = into == ProjectorInto::replace ? one : to[c] + one;
        }
      }
    }
  }

  // Slices from rows: columns with slices innermost, times the length of their lines.
  void turn(const Box& samples, const ViewLines& lines, std::int64_t view, const float* y, const Columns& to,
            std::int64_t k) const {
    const RowParts parts(row_slices(g_, view), samples.lo()[1], samples.hi()[1]);
    const std::int64_t rows = samples.extent(1), columns = samples.extent(2), pixel = to.pixel;
    y += (view - samples.lo()[0]) * rows * columns;
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer)
      std::fill_n(to.of(k, 0) + layer * to.layer, (lines.last() - lines.first() + kMostTaps) * pixel, 0.0F);
    for (std::int64_t i = lines.first(); i < lines.last(); i += kSome) {
      const std::int64_t n = std::min(kSome, lines.last() - i);
      std::array<float, kSome> length{};
      for (std::int64_t c = 0; c < n; ++c) length[static_cast<std::size_t>(c)] = lines.length(i + c);
      for (std::int64_t j = 0; j < rows; ++j) {
        const std::int64_t d = parts.slice[static_cast<std::size_t>(j)] - shape_.first_slice;
        const float above = parts.above[static_cast<std::size_t>(j)];
        const float* from = y + j * columns + (i - samples.lo()[2]);
        const auto add = [&](std::int64_t slice, float part) {
          if (part == 0 || slice < 0 || slice >= shape_.slices) return;
          float* at = to.of(k, i - lines.first()) + slice / shape_.thick * to.layer + slice % shape_.thick;
          for (std::int64_t c = 0; c < n; ++c)
            at[c * pixel] += part * (length[static_cast<std::size_t>(c)] * from[c]);
        };
        add(d, 1 - above);
        add(d + 1, above);
      }
    }
  }

  void gather(const Box& samples, std::int64_t begin, std::int64_t end, const float* y) {
    std::vector<ViewLines> lines;
    std::vector<SeenColumn> seen;
    std::int64_t widest = 0;
    int taps = 1;
    for (std::int64_t v = begin; v < end; ++v) {
      const std::array<std::int64_t, 2> c = block_columns(v, samples);
      lines.emplace_back(g_, v, c[0], c[1]);
      seen.push_back(seen_column(g_, v));
      widest = std::max(widest, c[1] - c[0]);
      taps = std::max(taps, taps_of((*t_.traits)[static_cast<std::size_t>(v)]));
    }
    const std::int64_t view = (widest + kMostTaps) * shape_.pixel, layer = (end - begin) * view;
    if (turned_.size() < shape_.layers * layer) turned_ = FloatRoom(shape_.layers * layer);
    const Columns turned{turned_.data(), layer, view, shape_.pixel};
    at::parallel_for(begin, end, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t v = from; v < to; ++v)
        turn(samples, lines[static_cast<std::size_t>(v - begin)], v, y, turned, v - begin);
    });
    const Box& b = t_.block;
    const std::int64_t down = (b.extent(1) + kTile - 1) / kTile, right = (b.extent(2) + kTile - 1) / kTile;
    at::parallel_for(0, down * right, 1, [&](std::int64_t from, std::int64_t to) {
      TileWeights weights;
      for (std::int64_t n = from; n < to; ++n) {
        const std::int64_t h = b.lo()[1] + n / right * kTile, w = b.lo()[2] + n % right * kTile;
        gather_tile({{0, h, w}, {1, std::min(b.hi()[1], h + kTile), std::min(b.hi()[2], w + kTile)}}, begin,
                    lines, seen, taps, turned, weights);
      }
    });
  }

  void gather_tile(const Box& tile, std::int64_t begin, const std::vector<ViewLines>& lines,
                   const std::vector<SeenColumn>& seen, int taps, const Columns& turned,
                   TileWeights& weights) {
    const std::int64_t pixels = tile.pixels(), views = static_cast<std::int64_t>(lines.size());
    weights.first.assign(static_cast<std::size_t>(views * pixels), 0);
    weights.weight.assign(static_cast<std::size_t>(views * pixels * taps), 0);
    for (std::int64_t k = 0; k < views; ++k) {
      const auto at = static_cast<std::size_t>(k);
      std::int32_t* first = weights.first.data() + k * pixels;
      float* weight = weights.weight.data() + k * pixels * taps;
      const ViewLines& view = lines[at];
      if (g_.beam == Beam::parallel && taps == 2)
        t_.kernels->stack_weigh(
            {{seen[at].number[0], seen[at].number[2], seen[at].number[1],
              static_cast<float>((*t_.traits)[static_cast<std::size_t>(begin + k)].closest)},
             view.first(),
             view.last() - view.first(),
             tile.lo()[1],
             tile.extent(1),
             tile.lo()[2],
             tile.extent(2),
             first,
             weight});
      else
        weigh(tile, view, seen[at], taps, first, weight);
    }
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer)
      for (std::int64_t k = 0; k < views; k += kChunk)
        t_.kernels->stack_gather(
            {turned.of(k, 0) + layer * turned.layer, turned.view, turned.pixel, std::min(kChunk, views - k),
             taps, pixels, weights.first.data() + k * pixels, weights.weight.data() + k * pixels * taps,
             room_.data() + layer * shape_.layer + shape_.at(tile.lo()[1], tile.lo()[2]), tile.extent(1),
             tile.extent(2), shape_.row, shape_.pixel, slices_of(layer)});
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
  FloatRoom room_, turned_;
};

}  // namespace

std::unique_ptr<BlockProjector> make_stack_projector(const BlockTask& task) {
  return std::make_unique<StackProjector>(task);
}

}  // namespace tessera
