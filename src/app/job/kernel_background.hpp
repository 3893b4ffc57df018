// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera {

inline double median_of(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

// One channel's taps; of a picture one slice.
struct Taps {
  Index3 size{};  // slices, rows, columns
  std::vector<double> values;

  // The first axis that it has.
  std::size_t first() const { return size[0] > 1 ? 0 : 1; }
  double at(const Index3& p) const {
    for (std::size_t d = 0; d < 3; ++d)
      if (p[d] < 0 || p[d] >= size[d]) return 0;
    return values[static_cast<std::size_t>((p[0] * size[1] + p[1]) * size[2] + p[2])];
  }
  void set(const Index3& p, double v) {
    values[static_cast<std::size_t>((p[0] * size[1] + p[1]) * size[2] + p[2])] = v;
  }
  template <class Visit>
  void each(Visit visit) const {
    each_of(Box({0, 0, 0}, size), visit);
  }
  template <class Visit>
  void each_of(const Box& box, Visit visit) const {
    for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z)
      for (std::int64_t r = box.lo()[1]; r < box.hi()[1]; ++r)
        for (std::int64_t c = box.lo()[2]; c < box.hi()[2]; ++c) visit(Index3{z, r, c}, at({z, r, c}));
  }
  // visit(tap) for those that touch p by a face, an edge or a corner, and p's own.
  template <class Visit>
  void around(const Index3& p, Visit visit) const {
    const std::int64_t k = size[0] > 1 ? 1 : 0;
    for (std::int64_t z = -k; z <= k; ++z)
      for (std::int64_t r = -1; r <= 1; ++r)
        for (std::int64_t c = -1; c <= 1; ++c) visit(at({p[0] + z, p[1] + r, p[2] + c}));
  }
  std::int64_t shortest() const {
    std::int64_t n = size[2];
    for (std::size_t d = first(); d < 2; ++d) n = std::min(n, size[d]);
    return n;
  }
  double sum() const {
    double s = 0;
    for (const double v : values) s += v;
    return s;
  }
  double peak() const { return *std::max_element(values.begin(), values.end()); }
  double median_of(const Box& box) const {
    std::vector<double> v;
    each_of(box, [&](const Index3&, double value) { v.push_back(value); });
    return tessera::median_of(std::move(v));
  }
  double median_of_ring(std::int64_t k) const {
    std::vector<double> v;
    each([&](const Index3& p, double value) {
      std::int64_t depth = size[2];
      for (std::size_t d = first(); d < 3; ++d) depth = std::min({depth, p[d], size[d] - 1 - p[d]});
      if (depth == k) v.push_back(value);
    });
    return tessera::median_of(std::move(v));
  }
};

using Warn = std::function<void(const std::string&)>;

/// What a kernel stands on: a level or a slope, which the taps are then looked at without, what is left of noise that
/// was cut at 0, or a bright ground on which it is dark. A line each. True: there is no more to be looked at.
bool look_at_background(Taps& k, const Warn& warn);

}  // namespace tessera
