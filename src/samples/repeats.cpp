// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/repeats.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include "near_samples.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kReach = 2;  // of the neighborhoods that a sample lies in
constexpr std::size_t kMostAreas = 3;
constexpr std::int64_t kThousandth = 1000;

// Some of a rank's samples and kReach beyond, planes (channels and slices) one behind the other.
struct Near {
  Box block, around;
  std::int64_t planes = 0, height = 0, width = 0;  // of `around`, on its last two axes
  std::vector<float> values;                       // NaN where a sample does not count

  float at(std::int64_t plane, std::int64_t r, std::int64_t c) const {  // from the block's first sample
    return values[static_cast<std::size_t>((plane * height + r + kReach) * width + c + kReach)];
  }
  bool flat(std::int64_t plane, std::int64_t r, std::int64_t c) const {  // the 3 x 3 from here on
    const float v = at(plane, r, c);
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 3; ++j)
        if (!(at(plane, r + i, c + j) == v)) return false;  // nor is NaN equal
    return true;
  }
};

// Calls take(near) for this rank's samples of a part, some at a time. Collective.
template <class Take>
void each_near(const at::Tensor& y, const at::Tensor& counted, const ProductSpace& layout, std::size_t part,
               const Communicator& comm, const Take& take) {
  const auto seen = [](const Box& block) { return block.grow(ImageSpace::in_plane(kReach)); };
  for (NearSamples near({y, counted}, layout, part, comm, seen, Border::zero); near.next();) {
    if (near.own().empty()) continue;
    Near n{.block = near.own(), .around = near.seen(), .values = {}};
    n.planes = near.channels() * n.around.extent(0);
    n.height = n.around.extent(1);
    n.width = n.around.extent(2);
    const float *v = near.at(0, 0), *m = near.at(1, 0);
    n.values.assign(v, v + n.planes * n.height * n.width);
    for (std::size_t i = 0; i < n.values.size(); ++i)
      if (m[i] == 0) n.values[i] = std::numeric_limits<float>::quiet_NaN();
    take(n);
  }
}

// Of the planes of a part: where a sample lies in a neighborhood of equal ones.
std::vector<bool> flat_samples(const Near& n) {
  const std::int64_t rows = n.block.extent(1), columns = n.block.extent(2);
  std::vector<bool> out(static_cast<std::size_t>(n.planes * rows * columns));
  for (std::int64_t p = 0; p < n.planes; ++p)
    for (std::int64_t r = -kReach; r < rows; ++r)
      for (std::int64_t c = -kReach; c < columns; ++c) {
        if (!n.flat(p, r, c)) continue;
        for (std::int64_t i = std::max<std::int64_t>(0, r); i < std::min(rows, r + 3); ++i)
          for (std::int64_t j = std::max<std::int64_t>(0, c); j < std::min(columns, c + 3); ++j)
            out[static_cast<std::size_t>((p * rows + i) * columns + j)] = true;
      }
  return out;
}

// Pairs of neighbors along an axis by the place of the first, modulo kPhases: all, and those that differ.
class Pairs {
 public:
  void take(std::int64_t place, bool differs) {
    const auto phase = static_cast<std::size_t>(place) % kPhases;
    ++counts_[phase];
    counts_[kPhases + phase] += differs;
  }
  // Whether two neighbors within the line at `place` differ.
  void take_line(std::int64_t place, bool differs) {
    counts_[2 * kPhases + static_cast<std::size_t>(place) % kPhases] += differs;
  }
  void sum(const Communicator& comm) { comm.all_reduce(counts_, Reduce::sum); }
  // Blocks of so many samples: all that differ stand at one place of them, and a tenth there does. Each other
  // place has pairs enough to say so: of masks, and of two rows, all pairs may stand at one.
  int block() const {
    for (const std::size_t f : {16U, 15U, 14U, 12U, 10U, 9U, 8U, 7U, 6U, 5U, 4U, 3U, 2U})
      if (std::ranges::any_of(std::views::iota(std::size_t{0}, f),
                              [&](auto first) { return repeat(f, first); }))
        return static_cast<int>(f);
    return 1;
  }
  // Share of the lines that vary and are the next one's equals; 0 where more than 16 in a row are, as in drawings.
  double repeated() const {
    std::int64_t lines = 0, equal = 0, run = 0;
    for (std::size_t k = 0; k < kPhases; ++k) {
      if (counts_[k] == 0) continue;
      ++lines;
      const bool same = counts_[kPhases + k] == 0 && counts_[2 * kPhases + k] > 0;
      run = same ? run + 1 : 0;
      if (run > 16) return 0;
      equal += same;
    }
    return equal < 8 ? 0.0 : static_cast<double>(equal) / static_cast<double>(lines);
  }

 private:
  static constexpr std::size_t kPhases = 5040;  // every factor above divides it

  bool repeat(std::size_t f, std::size_t first) const {
    std::array<std::int64_t, 16> pairs{}, differ{};  // by the place in a block
    for (std::size_t k = 0; k < kPhases; ++k) {
      pairs[k % f] += counts_[k];
      differ[k % f] += counts_[kPhases + k];
    }
    for (std::size_t k = 0; k < f; ++k)
      if (k != first && (differ[k] > 0 || pairs[k] == 0 || 2 * pairs[k] < pairs[first])) return false;
    return differ[first] > 0 && 10 * differ[first] >= pairs[first];
  }

  std::vector<std::int64_t> counts_ = std::vector<std::int64_t>(3 * kPhases);
};

}  // namespace

Repeats find_repeats(const Measurement& y, const Measurement& counted, const ProductSpace& layout,
                     const Communicator& comm) {
  std::vector<float> flat;
  double step = std::numeric_limits<double>::infinity();
  std::array<Pairs, 2> pairs;
  std::int64_t all = 0;
  const auto take = [&](const Near& n) {
    const std::vector<bool> marks = flat_samples(n);
    std::size_t k = 0;
    for (std::int64_t p = 0; p < n.planes; ++p)
      for (std::int64_t r = 0; r < n.block.extent(1); ++r)
        for (std::int64_t c = 0; c < n.block.extent(2); ++c) {
          const float v = n.at(p, r, c), below = n.at(p, r + 1, c), right = n.at(p, r, c + 1);
          if (marks[k++]) flat.push_back(v);
          if (std::isnan(v)) continue;
          ++all;
          const std::array<float, 2> next{below, right};
          for (std::size_t d = 0; d < 2; ++d) {
            if (std::isnan(next[d])) continue;
            pairs[d].take(d == 0 ? n.block.lo()[1] + r : n.block.lo()[2] + c, v != next[d]);
            pairs[1 - d].take_line(d == 0 ? n.block.lo()[2] + c : n.block.lo()[1] + r, v != next[d]);
            if (v != next[d])
              step = std::min(step, std::abs(static_cast<double>(v) - static_cast<double>(next[d])));
          }
        }
  };
  for (std::size_t part = 0; part < y.size(); ++part)
    each_near(y[part], counted[part], layout, part, comm, take);
  comm.all_reduce({&all, 1}, Reduce::sum);
  comm.all_reduce({&step, 1}, Reduce::min);
  Repeats out;
  out.step = std::isfinite(step) ? step : 0;
  for (std::size_t d = 0; d < 2; ++d) {
    pairs[d].sum(comm);
    out.enlarged[d] = pairs[d].block();
    out.repeated[d] = pairs[d].repeated();
  }
  while (out.areas.size() < kMostAreas) {
    const std::int64_t n = count_values(flat, comm);
    if (n == 0) break;
    const float value = order_statistic(flat, n / 2, comm);  // what more than half of them are is the median
    const auto rest = std::partition(flat.begin(), flat.end(), [&](float v) { return v != value; });
    std::int64_t here = flat.end() - rest;
    flat.erase(rest, flat.end());
    comm.all_reduce({&here, 1}, Reduce::sum);
    if (2 * here <= n || here * kThousandth < all) break;
    out.areas.push_back({value, here});
  }
  return out;
}

Measurement without_areas(const Measurement& y, const Measurement& counted, const Repeats& repeats,
                          Where where, const ProductSpace& layout, const Communicator& comm) {
  const auto is_area = [&](float v) {
    return std::ranges::any_of(repeats.areas, [&](const Repeats::Area& area) { return v == area.value; });
  };
  Measurement out;
  for (std::size_t part = 0; part < y.size(); ++part) {
    at::Tensor left = counted[part].clone(at::MemoryFormat::Contiguous);
    if (where == Where::everywhere)
      for (const Repeats::Area& area : repeats.areas) left.masked_fill_(y[part].eq(area.value), 0);
    else
      each_near(y[part], counted[part], layout, part, comm, [&](const Near& n) {
        const std::vector<bool> flat = flat_samples(n);
        const Box block = layout.block(part, comm.rank());
        float* const first = left.data_ptr<float>();
        std::size_t k = 0;
        for (std::int64_t p = 0; p < n.planes; ++p) {
          const std::int64_t channel = p / n.block.extent(0),
                             slice = n.block.lo()[0] - block.lo()[0] + p % n.block.extent(0);
          for (std::int64_t r = 0; r < n.block.extent(1); ++r)
            for (std::int64_t c = 0; c < n.block.extent(2); ++c)
              if (flat[k++] && is_area(n.at(p, r, c)))
                first[((channel * block.extent(0) + slice) * block.extent(1) + n.block.lo()[1] -
                       block.lo()[1] + r) *
                          block.extent(2) +
                      n.block.lo()[2] - block.lo()[2] + c] = 0;
        }
      });
    out.push_back(left);
  }
  return out;
}

}  // namespace tessera
