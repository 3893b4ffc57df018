// SPDX-License-Identifier: BSD-3-Clause
// Parallel and fan beams through few slices, one after the other: the slice itself and the slice turned
// over, so that cells of either main axis stand side by side.
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

constexpr std::int64_t kViews = 16;                         // projected by a thread at a time
constexpr std::int64_t kBatch = 256;                        // views whose samples are copied at a time
constexpr std::int64_t kTile = 64;                          // of pixels, at multiples of it
constexpr std::int64_t kTileRows = 32, kTileColumns = 256;  // parallel beam

std::int64_t down_to(std::int64_t x, std::int64_t step) { return x - x % step; }  // x >= 0
std::int64_t odd_lines(std::int64_t floats) {  // rows fall into different sets of the cache
  const std::int64_t lines = (floats + 15) / 16;
  return 16 * (lines + (lines % 2 == 0 ? 1 : 0));
}

// The columns of one view in the order that gather_lines wants: those of one number modulo `phases` side by
// side, so that their crossings stand at least two thirds of a cell apart. Column phases k + n stands at n
// row + k - first.
struct PhaseLines {
  std::int64_t phases = 1, first = 0, count = 0;
  std::vector<double> at, slope;  // phases x count
  PhaseLines(const ViewLines& lines, double closest) {
    if (closest < 2.0 / 3) phases = static_cast<std::int64_t>(std::ceil(1 / closest - kLeastWeight));
    first = lines.first() / phases;
    count = lines.last() > lines.first() ? (lines.last() - 1) / phases + 1 - first : 0;
    at.resize(static_cast<std::size_t>(phases * count));
    slope.resize(at.size());
    for (const ColumnRun& run : lines.runs()) {
      const LineSpan span = lines.span(run);
      for (std::int64_t i = run.first; i < run.last; ++i) {
        at[place(i)] = span.at[i - run.first];
        slope[place(i)] = span.slope[i - run.first];
      }
    }
  }
  std::size_t place(std::int64_t column) const {
    return static_cast<std::size_t>(column % phases * count + column / phases - first);
  }
  std::int64_t room() const { return phases * (count + 2 * kMargin); }
  // Of samples that stand as `place` says, with margins.
  std::int64_t sample(std::int64_t column) const {
    return column % phases * (count + 2 * kMargin) + kMargin + column / phases - first;
  }
};

class SliceProjector final : public BlockProjector {
 public:
  explicit SliceProjector(const BlockTask& task) : t_(task), g_(*task.geometry) {
    const Box& b = t_.block;
    row_[0] = odd_lines(b.extent(2) + 2 * kMargin);
    row_[1] = odd_lines(b.extent(1) + 2 * kMargin);
    turned_ = b.extent(1) * row_[0];
    slice_ = turned_ + b.extent(2) * row_[1];
  }

  void load(const float* x) override;
  void clear() override {
    if (sum_.size() == 0) sum_ = FloatRoom(t_.block.pixels());
    sum_.zero();
  }
  void store(float* x, ProjectorInto into) const override {
    at::parallel_for(0, sum_.size(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      if (into == ProjectorInto::replace)
        std::copy(sum_.data() + begin, sum_.data() + end, x + begin);
      else
        for (std::int64_t i = begin; i < end; ++i) x[i] += sum_.data()[i];
    });
  }
  std::int64_t bytes() const override { return 4 * t_.block.extent(0) * slice_; }

  void project(const Box& samples, float* y, ProjectorInto into) const override {
    const std::int64_t views = samples.extent(0), threads = at::get_num_threads();
    const std::int64_t some = std::clamp((views + threads - 1) / threads, std::int64_t{1}, kViews);
    at::parallel_for(0, (views + some - 1) / some, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> sums;
      for (std::int64_t k = begin; k < end; ++k)
        project(samples, k * some, std::min(views, (k + 1) * some), sums, y, into);
    });
  }

  void gather(const Box& samples, const float* y) override {
    const std::int64_t some = std::min(kBatch, samples.extent(0));
    for (std::int64_t d = t_.block.lo()[0]; d < t_.block.hi()[0]; ++d)
      for (std::int64_t v = samples.lo()[0]; v < samples.hi()[0]; v += some)
        gather(samples, d, v, std::min(samples.hi()[0], v + some), y);
  }

 private:
  std::array<std::int64_t, 2> block_columns(std::int64_t view, const Box& samples) const {
    const Box& b = t_.block;
    return columns_of(seen_column(g_, view), b.lo()[1], b.hi()[1], b.lo()[2], b.hi()[2], samples.lo()[2],
                      samples.hi()[2]);
  }
  void project(const Box& samples, std::int64_t begin, std::int64_t end, std::vector<float>& sums, float* y,
               ProjectorInto into) const;
  void write_rows(const Box& samples, std::int64_t view, const ViewLines& lines, const float* sums,
                  std::int64_t per_slice, float* y, ProjectorInto into) const;
  void copy_samples(const Box& samples, std::int64_t slice, std::int64_t view, const ViewLines& lines,
                    const PhaseLines& phases, const float* y, float* to) const;
  void gather(const Box& samples, std::int64_t slice, std::int64_t begin, std::int64_t end, const float* y);
  void gather_parallel(const Box& tile, std::int64_t slice, const std::vector<SliceGatherView>& views,
                       std::int64_t first_column, std::int64_t columns, std::int64_t row);
  void gather_lines(const Box& tile, std::int64_t slice, std::int64_t begin,
                    const std::vector<ViewLines>& lines, const std::vector<PhaseLines>& phases,
                    const std::vector<SeenColumn>& seen, std::int64_t row, std::vector<float>& room);
  void add_tile(const Box& tile, std::int64_t slice, const float* sums, std::int64_t column,
                std::int64_t width);

  BlockTask t_;
  const ProjectionGeometry& g_;
  std::array<std::int64_t, 2> row_{};    // floats of a row of the slice, of the turned slice
  std::int64_t turned_ = 0, slice_ = 0;  // floats before the turned slice, of both
  FloatRoom image_, sum_, copy_;
};

void SliceProjector::load(const float* x) {
  const Box& b = t_.block;
  const std::int64_t high = b.extent(1), wide = b.extent(2);
  if (image_.size() == 0) image_ = FloatRoom(b.extent(0) * slice_);
  constexpr std::int64_t kSome = 16;
  const auto ends = [](float* row, std::int64_t n, std::int64_t stride) {
    std::fill_n(row, kMargin, 0.0F);
    std::fill(row + kMargin + n, row + stride, 0.0F);
  };
  at::parallel_for(
      0, b.extent(0) * ((wide + kSome - 1) / kSome), 4, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t parts = (wide + kSome - 1) / kSome;
        for (std::int64_t n = begin; n < end; ++n) {
          const std::int64_t d = n / parts, left = n % parts * kSome, some = std::min(kSome, wide - left);
          float* to = image_.data() + d * slice_;
          const float* from = x + d * high * wide + left;
          for (std::int64_t w = 0; w < some; ++w) ends(to + turned_ + (left + w) * row_[1], high, row_[1]);
          for (std::int64_t h = 0; h < high; ++h) {
            float* row = to + h * row_[0];
            if (left == 0) ends(row, wide, row_[0]);
            float* column = to + turned_ + left * row_[1] + kMargin + h;
            for (std::int64_t w = 0; w < some; ++w) {
              row[kMargin + left + w] = from[h * wide + w];
              column[w * row_[1]] = from[h * wide + w];
            }
          }
        }
      });
}

void SliceProjector::project(const Box& samples, std::int64_t begin, std::int64_t end,
                             std::vector<float>& sums, float* y, ProjectorInto into) const {
  const Box& b = t_.block;
  std::vector<ViewLines> lines;
  std::int64_t widest = 0;
  for (std::int64_t k = begin; k < end; ++k) {
    const std::array<std::int64_t, 2> c = block_columns(samples.lo()[0] + k, samples);
    lines.emplace_back(g_, samples.lo()[0] + k, c[0], c[1]);
    widest = std::max(widest, c[1] - c[0]);
  }
  const std::int64_t per_slice = (end - begin) * widest;
  sums.assign(static_cast<std::size_t>(b.extent(0) * per_slice), 0.0F);
  for (std::int64_t d = 0; d < b.extent(0); ++d) {
    for (const std::size_t main : {std::size_t{1}, std::size_t{2}}) {
      const std::int64_t stride = row_[main - 1], planes = b.extent(main);
      const float* image = image_.data() + d * slice_ + (main == 1 ? 0 : turned_) + kMargin;
      for (std::int64_t p = 0; p < planes; p += kMostPlanes) {
        const PlaneSpan span{b.lo()[main] + p,
                             std::min(kMostPlanes, planes - p),
                             b.lo()[3 - main],
                             b.extent(3 - main),
                             -1,
                             stride,
                             1};
        for (std::int64_t k = 0; k < end - begin; ++k) {
          const ViewLines& view = lines[static_cast<std::size_t>(k)];
          for (const ColumnRun& run : view.runs())
            if (run.main == main)
              t_.kernels->slice_project(
                  {image + p * stride, span, view.span(run),
                   sums.data() + d * per_slice + k * widest + (run.first - view.first())});
        }
      }
    }
  }
  for (std::int64_t k = begin; k < end; ++k)
    write_rows(samples, k, lines[static_cast<std::size_t>(k - begin)], sums.data() + (k - begin) * widest,
               per_slice, y, into);
}

void SliceProjector::write_rows(const Box& samples, std::int64_t view, const ViewLines& lines,
                                const float* sums, std::int64_t per_slice, float* y,
                                ProjectorInto into) const {
  const RowParts parts(row_slices(g_, samples.lo()[0] + view), samples.lo()[1], samples.hi()[1]);
  const std::int64_t columns = samples.extent(2), n = lines.last() - lines.first();
  std::vector<float> value(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < samples.extent(1); ++j) {
    std::fill(value.begin(), value.end(), 0.0F);
    const auto add = [&](std::int64_t slice, float part) {
      if (part == 0 || slice < t_.block.lo()[0] || slice >= t_.block.hi()[0]) return;
      const float* from = sums + (slice - t_.block.lo()[0]) * per_slice;
      for (std::int64_t i = 0; i < n; ++i)
        value[static_cast<std::size_t>(i)] += part * (lines.length(lines.first() + i) * from[i]);
    };
    const float above = parts.above[static_cast<std::size_t>(j)];
    add(parts.slice[static_cast<std::size_t>(j)], 1 - above);
    add(parts.slice[static_cast<std::size_t>(j)] + 1, above);
    float* row = y + (view * samples.extent(1) + j) * columns;
    float* to = row + (lines.first() - samples.lo()[2]);
    if (into == ProjectorInto::replace) {
      std::fill(row, to, 0.0F);
      std::copy(value.begin(), value.end(), to);
      std::fill(to + n, row + columns, 0.0F);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] += value[static_cast<std::size_t>(i)];
    }
  }
}

// One slice's part of a view, times the length of its lines, zeros around it.
void SliceProjector::copy_samples(const Box& samples, std::int64_t slice, std::int64_t view,
                                  const ViewLines& lines, const PhaseLines& phases, const float* y,
                                  float* to) const {
  const RowParts parts(row_slices(g_, view), samples.lo()[1], samples.hi()[1]);
  std::fill_n(to, phases.room(), 0.0F);
  for (std::int64_t j = 0; j < samples.extent(1); ++j) {
    const std::int64_t down = slice - parts.slice[static_cast<std::size_t>(j)];
    if (down != 0 && down != 1) continue;
    const float above = parts.above[static_cast<std::size_t>(j)], part = down == 0 ? 1 - above : above;
    if (part == 0) continue;
    const float* from = y + ((view - samples.lo()[0]) * samples.extent(1) + j) * samples.extent(2);
    for (std::int64_t i = lines.first(); i < lines.last(); ++i)
      to[phases.sample(i)] += part * (lines.length(i) * from[i - samples.lo()[2]]);
  }
}

void SliceProjector::gather(const Box& samples, std::int64_t slice, std::int64_t begin, std::int64_t end,
                            const float* y) {
  const Box& b = t_.block;
  std::vector<ViewLines> lines;
  std::vector<PhaseLines> phases;
  std::vector<SeenColumn> seen;
  std::vector<SliceGatherView> parallel;
  bool plain = g_.beam == Beam::parallel;
  std::int64_t row = 0, least = samples.hi()[2], most = samples.lo()[2];
  for (std::int64_t v = begin; v < end; ++v) {
    const std::array<std::int64_t, 2> c = block_columns(v, samples);
    least = std::min(least, c[0]);
    most = std::max(most, c[1]);
    const double closest = (*t_.traits)[static_cast<std::size_t>(v)].closest;
    seen.push_back(seen_column(g_, v));
    parallel.push_back(
        {seen.back().number[0], seen.back().number[2], seen.back().number[1], static_cast<float>(closest)});
    plain = plain && closest >= 1 - kLeastWeight && std::abs(seen.back().number[2]) <= 1.5;
  }
  if (least >= most) return;
  for (std::int64_t v = begin; v < end; ++v) {
    const std::array<std::int64_t, 2> c =
        plain ? std::array<std::int64_t, 2>{least, most} : block_columns(v, samples);
    lines.emplace_back(g_, v, c[0], c[1]);
    phases.emplace_back(lines.back(), plain ? 1 : (*t_.traits)[static_cast<std::size_t>(v)].closest);
    row = std::max(row, phases.back().room());
  }
  if (copy_.size() < (end - begin) * row) copy_ = FloatRoom((end - begin) * row);
  at::parallel_for(begin, end, 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t v = from; v < to; ++v) {
      const auto k = static_cast<std::size_t>(v - begin);
      copy_samples(samples, slice, v, lines[k], phases[k], y, copy_.data() + (v - begin) * row);
    }
  });
  const std::int64_t high = plain ? kTileRows : kTile, wide = plain ? kTileColumns : kTile;
  const std::int64_t top = down_to(b.lo()[1], kTile), left = down_to(b.lo()[2], kTile);
  const std::int64_t down = (b.hi()[1] - top + high - 1) / high, right = (b.hi()[2] - left + wide - 1) / wide;
  at::parallel_for(0, down * right, 1, [&](std::int64_t from, std::int64_t to) {
    std::vector<float> room;
    for (std::int64_t n = from; n < to; ++n) {
      const std::int64_t h = top + n / right * high, w = left + n % right * wide;
      const Box tile({0, h, w}, {1, h + high, w + wide});
      if (plain)
        gather_parallel(tile, slice, parallel, least, most - least, row);
      else
        gather_lines(tile, slice, begin, lines, phases, seen, row, room);
    }
  });
}

void SliceProjector::gather_parallel(const Box& tile, std::int64_t slice,
                                     const std::vector<SliceGatherView>& views, std::int64_t first_column,
                                     std::int64_t columns, std::int64_t row) {
  const Box inside =
      tile.intersect({{0, t_.block.lo()[1], t_.block.lo()[2]}, {1, t_.block.hi()[1], t_.block.hi()[2]}});
  if (inside.empty()) return;
  const std::int64_t column = down_to(inside.lo()[2], kAlign),
                     vectors = (inside.hi()[2] - column + kAlign - 1) / kAlign;
  alignas(64) float sums[kTileRows * kTileColumns];
  std::fill_n(sums, inside.extent(1) * vectors * kAlign, 0.0F);
  t_.kernels->slice_gather({views.data(), static_cast<std::int64_t>(views.size()), copy_.data() + kMargin,
                            row, first_column, columns, inside.lo()[1], inside.extent(1), column, vectors,
                            sums});
  add_tile(inside, slice, sums, column, vectors * kAlign);
}

void SliceProjector::gather_lines(const Box& tile, std::int64_t slice, std::int64_t begin,
                                  const std::vector<ViewLines>& lines, const std::vector<PhaseLines>& phases,
                                  const std::vector<SeenColumn>& seen, std::int64_t row,
                                  std::vector<float>& room) {
  alignas(64) float sums[2][kTile * kTile];
  std::fill_n(sums[0], kTile * kTile, 0.0F);
  std::fill_n(sums[1], kTile * kTile, 0.0F);
  for (std::size_t k = 0; k < lines.size(); ++k) {
    const ViewLines& view = lines[k];
    const PhaseLines& order = phases[k];
    const std::array<std::int64_t, 2> c = columns_of(seen[k], tile.lo()[1], tile.hi()[1], tile.lo()[2],
                                                     tile.hi()[2], view.first(), view.last());
    const int taps =
        order.phases > 1 ? 2 : std::max(2, taps_of((*t_.traits)[static_cast<std::size_t>(begin) + k]));
    for (const ColumnRun& whole : view.runs()) {
      const std::int64_t first = std::max(whole.first, c[0]), last = std::min(whole.last, c[1]);
      const std::size_t planes = whole.main, cells = 3 - whole.main;
      for (std::int64_t n = 0; n < order.phases; ++n) {  // the first column of this phase, and how many
        const std::int64_t column = first + ((n - first) % order.phases + order.phases) % order.phases;
        const std::int64_t count = (last - column + order.phases - 1) / order.phases;
        if (column >= last) continue;
        if (room.size() < static_cast<std::size_t>(count + 2 * kMargin))
          room.resize(static_cast<std::size_t>(count + 2 * kMargin));
        SliceGatherLines task{
            {count, order.at.data() + order.place(column), order.slope.data() + order.place(column)},
            copy_.data() + static_cast<std::int64_t>(k) * row + order.sample(column),
            {},
            {},
            taps,
            tile.lo()[planes],
            kTile,
            tile.lo()[cells],
            kTile / kAlign,
            sums[whole.main - 1],
            room.data()};
        const double scale = 1 / static_cast<double>(order.phases);
        for (std::size_t m = 0; m < 3; ++m) {  // constant, plane, cell
          const std::size_t from = m == 0 ? 0 : m == 1 ? planes : cells;
          task.depth[m] = seen[k].depth[from];
          task.number[m] = scale * (seen[k].number[from] - static_cast<double>(column) * seen[k].depth[from]);
        }
        t_.kernels->slice_gather_lines(task);
      }
    }
  }
  const Box inside =
      tile.intersect({{0, t_.block.lo()[1], t_.block.lo()[2]}, {1, t_.block.hi()[1], t_.block.hi()[2]}});
  if (inside.empty()) return;
  // Both into one first: the sum of a pixel grows by one number.
  for (std::int64_t h = 0; h < kTile; ++h)
    for (std::int64_t w = 0; w < kTile; ++w) sums[0][h * kTile + w] += sums[1][w * kTile + h];
  add_tile(inside, slice, sums[0] + (inside.lo()[1] - tile.lo()[1]) * kTile, tile.lo()[2], kTile);
}

void SliceProjector::add_tile(const Box& tile, std::int64_t slice, const float* sums, std::int64_t column,
                              std::int64_t width) {
  const Box& b = t_.block;
  for (std::int64_t h = tile.lo()[1]; h < tile.hi()[1]; ++h) {
    float* to = sum_.data() + ((slice - b.lo()[0]) * b.extent(1) + h - b.lo()[1]) * b.extent(2) - b.lo()[2];
    const float* from = sums + (h - tile.lo()[1]) * width - column;
    for (std::int64_t w = tile.lo()[2]; w < tile.hi()[2]; ++w) to[w] += from[w];
  }
}

}  // namespace

bool slices_suit(const BlockTask& task) {
  if (task.geometry->volume.size[0] >= 8) return false;
  for (const ViewTraits& view : *task.traits)
    if (view.fast && view.closest * kMostPhases < 1) return false;
  return true;
}

std::unique_ptr<BlockProjector> make_slice_projector(const BlockTask& task) {
  return std::make_unique<SliceProjector>(task);
}

}  // namespace tessera
