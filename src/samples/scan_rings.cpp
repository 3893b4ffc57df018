// SPDX-License-Identifier: BSD-3-Clause
#include "scan_rings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace tessera {
namespace {

constexpr std::int64_t kHalfWindow = 4;  // of the window
constexpr std::int64_t kBlocks = 8;      // of views
constexpr int kTimes = 3;

// The weights of a parabola's value at the middle of 2 h + 1 numbers.
std::vector<double> parabola(std::int64_t h) {
  const auto n = static_cast<double>(h);
  std::vector<double> out;
  double sum = 0;
  for (std::int64_t k = -h; k <= h; ++k) {
    out.push_back(3 * n * n + 3 * n - 1 - 5 * static_cast<double>(k * k));
    sum += out.back();
  }
  for (double& w : out) w /= sum;
  return out;
}

// Between their neighbors what does not count; false: nothing counts.
bool bridge(std::span<double> row, std::span<const char> counts) {
  const std::int64_t n = std::ssize(row);
  std::int64_t last = -1;
  for (std::int64_t i = 0; i <= n; ++i) {
    if (i < n && !counts[static_cast<std::size_t>(i)]) continue;
    if (i == n && last < 0) return false;
    for (std::int64_t k = last + 1; k < i; ++k) {
      const double part = static_cast<double>(k - last) / static_cast<double>(i - last);
      const auto at = [&](std::int64_t j) { return row[static_cast<std::size_t>(j)]; };
      row[static_cast<std::size_t>(k)] = last < 0 ? at(i)
                                         : i == n ? at(last)
                                                  : (1 - part) * at(last) + part * at(i);
    }
    last = i;
  }
  return true;
}

// Calls work(view, row, column, y less the parabola) for samples of rows [begin, end) of the detector that count.
template <class Work>
void for_fine(const RingSamples& s, std::int64_t begin, std::int64_t end, Work work) {
  static const std::vector<double> weights = parabola(kHalfWindow);
  const auto columns = static_cast<std::size_t>(s.columns);
  std::vector<double> row(columns + 2 * kHalfWindow);
  std::vector<char> counts(columns);
  for (std::int64_t k = 0; k < s.views * s.rows; ++k) {
    const std::int64_t at = s.first_row + k % s.rows;
    if (at < begin || at >= end) continue;
    const std::size_t from = static_cast<std::size_t>(k) * columns;
    const std::span<double> inner = std::span(row).subspan(kHalfWindow, columns);
    for (std::size_t i = 0; i < columns; ++i) {
      inner[i] = s.y[from + i];
      counts[i] = (s.weights.empty() || s.weights[from + i] > 0) && std::isfinite(inner[i]);
    }
    if (!bridge(inner, counts)) continue;
    for (std::size_t j = 1; j <= kHalfWindow; ++j) {  // mirrored through the ends, so that a slope goes on
      const std::size_t near = std::min(j, columns - 1);
      row[kHalfWindow - j] = 2 * inner.front() - inner[near];
      row[kHalfWindow + columns - 1 + j] = 2 * inner.back() - inner[columns - 1 - near];
    }
    for (std::size_t i = 0; i < columns; ++i) {
      if (!counts[i]) continue;
      double smooth = 0;
      for (std::size_t j = 0; j < weights.size(); ++j) smooth += weights[j] * row[i + j];
      work(s.first_view + k / s.rows, at - begin, static_cast<std::int64_t>(i), inner[i] - smooth);
    }
  }
}

double usual_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The deviation of normal numbers that have the median size of these, to 5 %: by a histogram over all ranks.
double usual_size(const RingSamples& s, std::int64_t begin, std::int64_t end, const Communicator& comm) {
  constexpr int kPerOctave = 8, kOctaves = 100;
  std::vector<double> bins(kPerOctave * kOctaves);
  const auto bin_of = [&](double x) {
    const double place = kPerOctave * (std::log2(std::max(x, 1e-300)) + kOctaves / 2);
    return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(bins.size() - 1)));
  };
  for_fine(s, begin, end,
           [&](std::int64_t, std::int64_t, std::int64_t, double f) { bins[bin_of(std::abs(f))] += 1; });
  comm.all_reduce(bins, Reduce::sum);
  double all = 0, below = 0;
  for (const double count : bins) all += count;
  for (std::size_t k = 0; k < bins.size(); ++k)
    if ((below += bins[k]) >= all / 2)
      return k == 0 ? 0 : std::exp2((static_cast<double>(k) + 0.5) / kPerOctave - kOctaves / 2) / 0.6745;
  return 0;
}

// By how much columns of rows [begin, end) are off, as of blocks of views that agree on it.
std::vector<double> offsets_of(const RingSamples& s, std::int64_t begin, std::int64_t end,
                               const Communicator& comm) {
  constexpr std::array<double, 5> kLimits{INFINITY, 3.0, 1.5, 0.75, 0.75};  // of the usual size
  const auto n = static_cast<std::size_t>((end - begin) * s.columns);
  const double usual = usual_size(s, begin, end, comm);
  std::vector<double> means(kBlocks * n), sums(2 * kBlocks * n);
  for (const double times : kLimits) {
    const double limit = times * usual;
    std::ranges::fill(sums, 0.0);
    for_fine(s, begin, end, [&](std::int64_t view, std::int64_t row, std::int64_t column, double f) {
      const auto at = static_cast<std::size_t>(view * kBlocks / s.all_views) * n +
                      static_cast<std::size_t>(row * s.columns + column);
      sums[at] += std::isfinite(limit) ? std::clamp(f - means[at], -limit, limit) : f - means[at];
      sums[kBlocks * n + at] += 1;
    });
    comm.all_reduce(sums, Reduce::sum);
    for (std::size_t i = 0; i < means.size(); ++i)
      if (sums[kBlocks * n + i] > 0) means[i] += sums[i] / sums[kBlocks * n + i];
  }
  std::vector<double> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> all, off;
    for (std::size_t b = 0; b < kBlocks; ++b)
      if (sums[(kBlocks + b) * n + i] > 0) all.push_back(means[b * n + i]);
    if (all.size() < kBlocks / 2) continue;
    const double middle = usual_of(all);
    for (const double x : all) off.push_back(std::abs(x - middle));
    const double error = 2 * usual_of(off) / 0.6745 / std::sqrt(static_cast<double>(all.size()));
    if (error < std::abs(middle)) out[i] = middle * (1 - error * error / (middle * middle));
  }
  return out;
}

// Leaves what is far more than usual in a row, where its neighbors are not.
void leave_edges(std::span<double> row) {
  constexpr double kEdge = 4;
  std::vector<double> sizes;
  for (const double o : row)
    if (o != 0) sizes.push_back(std::abs(o));
  const double most = kEdge * usual_of(std::move(sizes)) / 0.6745;
  for (double& o : row)
    if (std::abs(o) > most) o = 0;
}

}  // namespace

double take_rings(const RingSamples& s, bool round, const Communicator& comm) {
  constexpr std::int64_t kHeld = 1 << 17;  // columns of rows at a time
  const std::int64_t some = std::max<std::int64_t>(1, kHeld / s.columns);
  double square = 0;
  for (std::int64_t begin = 0; begin < s.all_rows; begin += some) {
    const std::int64_t end = std::min(s.all_rows, begin + some);
    std::vector<double> taken(static_cast<std::size_t>((end - begin) * s.columns));
    for (int time = 0; time < kTimes; ++time) {
      std::vector<double> offsets = offsets_of(s, begin, end, comm);
      for (std::int64_t r = 0; round && r < end - begin; ++r)
        leave_edges(std::span(offsets).subspan(static_cast<std::size_t>(r * s.columns),
                                               static_cast<std::size_t>(s.columns)));
      for (std::size_t i = 0; i < taken.size(); ++i) taken[i] += offsets[i];
      for (std::int64_t k = 0; k < s.views * s.rows; ++k) {
        const std::int64_t row = s.first_row + k % s.rows;
        if (row < begin || row >= end) continue;
        for (std::int64_t i = 0; i < s.columns; ++i)
          if (const auto at = static_cast<std::size_t>(k * s.columns + i);
              s.weights.empty() || s.weights[at] > 0)
            s.y[at] -= static_cast<float>(offsets[static_cast<std::size_t>((row - begin) * s.columns + i)]);
      }
    }
    for (const double o : taken) square += o * o;
  }
  return std::sqrt(square / static_cast<double>(s.all_rows * s.columns));
}

}  // namespace tessera
