// SPDX-License-Identifier: BSD-3-Clause
// Salt and pepper: samples that were replaced by the smallest or the largest number, each alone.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "near_samples.hpp"
#include "sample_checks.hpp"

namespace tessera {

void leave_out_impulses(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                        const Communicator& comm) {
  constexpr double kFar = 0.15, kAlone = 0.5;       // of the range; share of those at an end
  constexpr std::int64_t kSpike = 4;                // times those at the next value inside
  constexpr std::int64_t kFew = 20, kOneIn = 2000;  // at each end
  constexpr std::size_t kOthers = 4;                // around one that are at no end
  const auto [least, most] = range_of(stored, marks, comm);
  if (!survey.in_image_range() || !(least < most)) return;
  std::array<std::int64_t, 3> ends{};          // at the smallest, at the largest, all
  std::array<double, 2> inside{-most, least};  // the values next to them, the first one negated
  const auto each = [&](const auto& what) {
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const auto *v = stored[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
      for (std::int64_t k = 0; k < stored[i].numel(); ++k)
        if (m[k] != 0) what(static_cast<double>(v[k]));
    }
  };
  each([&, least = least, most = most](double v) {
    ends[0] += v == least;
    ends[1] += v == most;
    ++ends[2];
    if (v > least) inside[0] = std::max(inside[0], -v);
    if (v < most) inside[1] = std::max(inside[1], v);
  });
  comm.all_reduce(ends, Reduce::sum);
  if (std::min(ends[0], ends[1]) < std::max(kFew, ends[2] / kOneIn)) return;
  comm.all_reduce(inside, Reduce::max);
  std::array<std::int64_t, 2> next{};
  each([&](double v) {
    next[0] += v == -inside[0];
    next[1] += v == inside[1];
  });
  comm.all_reduce(next, Reduce::sum);
  if (ends[0] < kSpike * next[0] || ends[1] < kSpike * next[1]) return;  // few values, or all alike
  std::array<std::int64_t, 4> n{};  // at the smallest, of these alone; at the largest, of these alone
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto around = [](const Box& box) { return box.grow(ImageSpace::in_plane(1)); };
    for (NearSamples near({stored[i], marks[i]}, seen.A->range(), i, comm, around, Border::zero);
         near.next();) {
      if (near.own().empty()) continue;
      const std::int64_t width = near.seen().extent(2), height = near.seen().extent(1);
      for (std::int64_t c = 0; c < near.channels(); ++c)
        for (std::int64_t line = 0; line < near.seen().extent(0) * height; ++line) {
          if (line % height == 0 || line % height + 1 == height) continue;
          for (std::int64_t k = line * width + 1; k + 1 < (line + 1) * width; ++k) {
            const float *const v = near.at(0, c) + k, *const m = near.at(1, c) + k;
            if (*m == 0) continue;
            const auto here = static_cast<double>(*v);
            if (here != least && here != most) continue;
            std::array<double, 8> others{};
            std::size_t count = 0;
            for (std::int64_t r = -1; r <= 1; ++r)
              for (std::int64_t s = -1; s <= 1; ++s)
                if (const auto other = static_cast<double>(v[r * width + s]);
                    m[r * width + s] != 0 && other != least && other != most)
                  others[count++] = other;
            const std::size_t end = here == least ? 0 : 2;
            ++n[end];
            const auto same = [&](std::int64_t step) { return v[step] == *v && v[-step] == *v; };
            if (count < kOthers || same(1) || same(width) || same(width + 1) || same(width - 1)) continue;
            const auto middle = others.begin() + static_cast<std::ptrdiff_t>(count / 2);
            std::nth_element(others.begin(), middle, others.begin() + static_cast<std::ptrdiff_t>(count));
            n[end + 1] += std::abs(*middle - here) > kFar * (most - least);
          }
        }
    }
  }
  comm.all_reduce(n, Reduce::sum);
  for (const std::size_t end : {std::size_t{0}, std::size_t{2}})
    if (static_cast<double>(n[end + 1]) < kAlone * static_cast<double>(n[end])) return;
  for (std::size_t i = 0; i < stored.size(); ++i)
    marks[i].masked_fill_(stored[i].eq(least).logical_or_(stored[i].eq(most)), 0);
  seen.notices.push_back(
      fmt::format("impulses: {} samples have the smallest value and {} the largest, most of them alone among "
                  "others far from "
                  "it (salt and pepper, as lost bits and dead elements leave it): they count 0",
                  n[0], n[2]));
}

}  // namespace tessera
