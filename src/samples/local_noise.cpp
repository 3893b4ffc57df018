// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/local_noise.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "near_samples.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPlace = NearSamples::kTile,
                       kBeyondFirst = 4;                // samples of a detail beyond its first, in both axes
constexpr double kMedian = 0.6745, kQuartile = 0.3186;  // of |x|, for white noise of variance 1
constexpr std::int64_t kFewPlaces = 40;

// The details of one tile whose first sample is `row`, `column`: of neighbors, of every second sample, and the weight in the
// middle of each.
struct Tile {
  std::int64_t row = 0, column = 0;
  std::vector<float> fine, twice, weight;
};

std::int64_t next_place(std::int64_t v) { return (v + kPlace - 1) / kPlace * kPlace; }

// The samples that this rank's tiles see: those whose first sample it owns.
Box seen_of(const Box& block, const Box& all) {
  const Index3 lo{block.lo()[0], next_place(block.lo()[1]), next_place(block.lo()[2])};
  Index3 hi = block.hi();
  for (const std::size_t d : {1U, 2U}) hi[d] = std::min(next_place(hi[d]) + kBeyondFirst, all.hi()[d]);
  for (std::size_t d = 0; d < 3; ++d)
    if (hi[d] <= lo[d] || block.hi()[d] <= lo[d]) return {};
  return Box(lo, hi);
}

double second_difference(const float* middle, std::int64_t row, std::int64_t column) {
  const auto line = [&](const float* v) {
    return static_cast<double>(v[-column]) - 2 * static_cast<double>(v[0]) + static_cast<double>(v[column]);
  };
  return std::abs(line(middle - row) - 2 * line(middle) + line(middle + row)) / 6;
}

// Each plane has the samples of `seen`, of one channel and slice.
Tile details_of(const float* y, const float* marks, const float* weights, const Box& seen, std::int64_t row,
                std::int64_t column) {
  Tile out{.row = row, .column = column, .fine = {}, .twice = {}, .weight = {}};
  const std::int64_t width = seen.extent(2);
  for (std::int64_t r = row; r < std::min(row + kPlace, seen.hi()[1] - kBeyondFirst); ++r)
    for (std::int64_t c = column; c < std::min(column + kPlace, seen.hi()[2] - kBeyondFirst); ++c) {
      const std::int64_t first = (r - seen.lo()[1]) * width + c - seen.lo()[2],
                         middle = first + 2 * width + 2;
      bool whole = true;
      for (std::int64_t i = 0; i <= kBeyondFirst && whole; ++i)
        whole = std::all_of(marks + first + i * width, marks + first + i * width + kBeyondFirst + 1,
                            [](float m) { return m != 0; });
      if (!whole) continue;
      out.fine.push_back(static_cast<float>(second_difference(y + middle, width, 1)));
      out.twice.push_back(static_cast<float>(second_difference(y + middle, 2 * width, 2)));
      out.weight.push_back(weights[middle]);
    }
  return out;
}

// Calls take(tile) for this rank's tiles of all channels, in threads; results in order.
template <class Result, class Take>
std::vector<Result> over_tiles(const Measurement& y, const Measurement& counted, const Measurement& weights,
                               const ProductSpace& layout, const Communicator& comm, const Take& take) {
  std::vector<Result> out;
  for (std::size_t part = 0; part < y.size(); ++part) {
    const Box& all = layout.part(part).box();
    const auto seen_by = [&](const Box& block) { return seen_of(block, all); };
    for (NearSamples near({y[part], counted[part], weights[part]}, layout, part, comm, seen_by, Border::none);
         near.next();) {
      const Box& seen = near.seen();
      if (seen.empty()) continue;
      const std::int64_t plane = seen.extent(1) * seen.extent(2),
                         bands = (next_place(near.own().hi()[1]) - seen.lo()[1]) / kPlace;
      std::vector<std::vector<Result>> found(
          static_cast<std::size_t>(near.channels() * seen.extent(0) * bands));
      at::parallel_for(0, std::ssize(found), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
          const std::int64_t from = k / bands * plane, row = seen.lo()[1] + k % bands * kPlace;
          for (std::int64_t c = seen.lo()[2]; c < near.own().hi()[2]; c += kPlace)
            if (const auto result = take(details_of(near.at(0, 0) + from, near.at(1, 0) + from,
                                                    near.at(2, 0) + from, seen, row, c)))
              found[static_cast<std::size_t>(k)].push_back(*result);
        }
      });
      for (std::vector<Result>& band : found) out.insert(out.end(), band.begin(), band.end());
    }
  }
  return out;
}

float middle_of(std::vector<float>& values) {
  const auto at = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct Middle {
  float fine = 0, twice = 0, row = 0, column = 0;
};

std::vector<Middle> middles(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                            const Communicator& comm) {
  return over_tiles<Middle>(y, counted, counted, layout, comm, [](Tile tile) -> std::optional<Middle> {
    if (std::ssize(tile.fine) < kPlace * kPlace / 4) return std::nullopt;
    return Middle{static_cast<float>(static_cast<double>(middle_of(tile.fine)) / kMedian),
                  static_cast<float>(static_cast<double>(middle_of(tile.twice)) / kMedian),
                  static_cast<float>(tile.row), static_cast<float>(tile.column)};
  });
}

template <class Get>
std::vector<float> listed(const std::vector<Middle>& tiles, const Get& get) {
  std::vector<float> out;
  out.reserve(tiles.size());
  std::transform(tiles.begin(), tiles.end(), std::back_inserter(out), get);
  return out;
}

// From where to where nine tenths of the tiles lie.
std::array<std::int64_t, 2> ends_of(const std::vector<float>& places, std::int64_t n,
                                    const Communicator& comm) {
  return {static_cast<std::int64_t>(order_statistic(places, n / 20, comm)),
          static_cast<std::int64_t>(order_statistic(places, n - 1 - n / 20, comm)) + kPlace - 1};
}

}  // namespace

std::optional<StrongerPlaces> stronger_places(const Measurement& y, const Measurement& counted, double sigma,
                                              const ProductSpace& layout, const Communicator& comm) {
  constexpr double kMore = 2, kLeast = 0.8, kMost = 1.25;  // of fifteen photographs and three levels of noise
  std::vector<Middle> tiles = middles(y, counted, layout, comm);
  const auto size = [](const Middle& t) { return t.fine; };
  const std::int64_t all = count_values(listed(tiles, size), comm);
  if (all < kFewPlaces) return std::nullopt;
  std::erase_if(tiles, [&](const Middle& t) { return static_cast<double>(t.fine) <= kMore * sigma; });
  const std::int64_t more = count_values(listed(tiles, size), comm);
  std::erase_if(tiles, [&](const Middle& t) {
    const double ratio = static_cast<double>(t.twice) / static_cast<double>(t.fine);
    return ratio < kLeast || ratio > kMost;
  });
  const std::vector<float> sizes = listed(tiles, size);
  const std::int64_t white = count_values(sizes, comm);
  if (white == 0) return std::nullopt;
  return StrongerPlaces{
      .share = static_cast<double>(white) / static_cast<double>(all),
      .white = static_cast<double>(white) / static_cast<double>(more),
      .level = static_cast<double>(median(sizes, comm)),
      .rows = ends_of(listed(tiles, [](const Middle& t) { return t.row; }), white, comm),
      .columns = ends_of(listed(tiles, [](const Middle& t) { return t.column; }), white, comm)};
}

Alternation alternation(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                        const Communicator& comm) {
  const std::vector<Middle> tiles = middles(y, counted, layout, comm);
  const std::vector<float> fine = listed(tiles, [](const Middle& t) { return t.fine; });
  if (count_values(fine, comm) < kFewPlaces / 10) return {};
  return {static_cast<double>(median(fine, comm)),
          static_cast<double>(median(listed(tiles, [](const Middle& t) { return t.twice; }), comm))};
}

std::optional<WeightSense> weight_sense(const Measurement& y, const Measurement& counted,
                                        const Measurement& weights, const ProductSpace& layout,
                                        const Communicator& comm) {
  constexpr std::size_t kBins = 6;
  constexpr std::int64_t kFew = 200, kMany = 4'000'000;  // details in a bin; in all
  const std::int64_t every = 1 + layout.values() / kMany;
  std::vector<float> fine, twice, weight;
  const auto tiles =
      over_tiles<Tile>(y, counted, weights, layout, comm, [&](Tile tile) -> std::optional<Tile> {
        if ((tile.row + tile.column) / kPlace % every != 0) return std::nullopt;
        return tile;
      });
  for (const Tile& tile : tiles) {
    fine.insert(fine.end(), tile.fine.begin(), tile.fine.end());
    twice.insert(twice.end(), tile.twice.begin(), tile.twice.end());
    weight.insert(weight.end(), tile.weight.begin(), tile.weight.end());
  }
  const std::int64_t all = count_values(weight, comm);
  if (all < 2 * kFew) return std::nullopt;
  std::array<float, kBins - 1> edges{};
  for (std::size_t b = 0; b < edges.size(); ++b)
    edges[b] = order_statistic(
        weight, static_cast<std::int64_t>(b + 1) * all / static_cast<std::int64_t>(kBins), comm);
  std::vector<std::array<double, 2>> points;  // logarithms of weight and variance
  WeightSense out;
  for (std::size_t b = 0; b < kBins; ++b) {
    std::array<std::vector<float>, 3> in;
    for (std::size_t k = 0; k < weight.size(); ++k) {
      if (std::upper_bound(edges.begin(), edges.end(), weight[k]) - edges.begin() !=
          static_cast<std::ptrdiff_t>(b))
        continue;
      in[0].push_back(fine[k]);
      in[1].push_back(twice[k]);
      in[2].push_back(weight[k]);
    }
    const std::int64_t n = count_values(in[0], comm);
    if (n < kFew) continue;
    const auto level =
        [&](const std::vector<float>& of) {  // of the flattest: textures and bad samples are above
          return static_cast<double>(order_statistic(of, n / 4, comm)) / kQuartile;
        };
    const double scatter = level(in[0]), w = static_cast<double>(median(in[2], comm));
    if (!(scatter > 0) || !(w > 0)) continue;
    points.push_back({std::log(w), 2 * std::log(scatter)});
    out.texture = level(in[1]) / scatter;
  }
  if (points.size() < 2) return std::nullopt;
  double x = 0, v = 0, xx = 0, xv = 0;
  for (const auto& [a, b] : points) x += a, v += b, xx += a * a, xv += a * b;
  const auto n = static_cast<double>(points.size());
  if (!(n * xx - x * x > 0)) return std::nullopt;
  out.slope = (n * xv - x * v) / (n * xx - x * x);
  out.range = std::exp(points.back()[0] - points.front()[0]);
  return out;
}

}  // namespace tessera
