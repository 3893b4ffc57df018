// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/top_pile.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

std::optional<TopPile> top_pile(const at::Tensor& y, const at::Tensor& counted, const Communicator& comm) {
  constexpr std::int64_t kBins = 512;
  constexpr double kShare = 0.005, kTop = 0.85, kNarrow = 0.05, kTimes = 2, kMost = 0.5;
  const at::Tensor v = y.to(at::kCPU, at::kFloat).contiguous(),
                   m = counted.defined() ? counted.to(at::kCPU, at::kFloat).expand_as(v).contiguous()
                                         : at::Tensor();
  const float *const values = v.const_data_ptr<float>(), *const marks = m.defined()
                                                                            ? m.const_data_ptr<float>()
                                                                            : nullptr;
  const auto visit = [&](const auto& take) {
    for (std::int64_t k = 0; k < v.numel(); ++k)
      if ((!marks || marks[k] != 0) && std::isfinite(values[k])) take(static_cast<double>(values[k]));
  };
  std::array<double, 2> ends{-INFINITY, -INFINITY};
  visit([&](double value) { ends = {std::max(ends[0], -value), std::max(ends[1], value)}; });
  comm.all_reduce(ends, Reduce::max);
  const double least = -ends[0], range = ends[1] + ends[0];
  if (!(range > 0) || !std::isfinite(range)) return std::nullopt;
  std::vector<std::int64_t> bins(kBins + 1);
  visit([&](double value) {
    const auto bin = static_cast<std::int64_t>(static_cast<double>(kBins) * (value - least) / range);
    ++bins[static_cast<std::size_t>(std::min(bin, kBins - 1))];
    ++bins.back();
  });
  comm.all_reduce(std::span<std::int64_t>(bins), Reduce::sum);
  const auto within = [&](std::int64_t from, std::int64_t to) {
    std::int64_t sum = 0;
    for (std::int64_t k = std::max<std::int64_t>(0, from); k < std::min(to, kBins); ++k)
      sum += bins[static_cast<std::size_t>(k)];
    return static_cast<double>(sum);
  };
  std::int64_t top = 0;
  for (auto k = static_cast<std::int64_t>(kTop * kBins); k < kBins; ++k)
    if (top == 0 || within(k - 1, k + 2) > within(top - 1, top + 2)) top = k;
  std::int64_t wide = 1;  // half of the peak's width at half its height
  while (wide < kBins / 8 && within(top - wide - 1, top - wide + 2) > within(top - 1, top + 2) / 2) ++wide;
  const double all = static_cast<double>(bins.back()), pile = within(top - 3 * wide, kBins);
  if (static_cast<double>(wide) > kNarrow / 2 * kBins || pile < kShare * all || pile > kMost * all ||
      within(top + 4 * wide, kBins) > 0.01 * pile ||
      within(top - wide, top + wide) < kTimes * within(top - 9 * wide, top - 4 * wide) * 2 / 5)
    return std::nullopt;
  const auto value = [&](std::int64_t bin) { return least + range * static_cast<double>(bin) / kBins; };
  return TopPile{value(top - 4 * wide), ends[1], pile / all};
}

}  // namespace tessera
