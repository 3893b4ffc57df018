// SPDX-License-Identifier: BSD-3-Clause
#include "area_runs.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <tuple>

namespace tessera {
namespace {

constexpr std::int64_t kHole = 20;  // of the rest's largest area

void sort_runs(std::vector<Run>& runs) {
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return std::tie(a.row, a.begin) < std::tie(b.row, b.begin); });
  std::vector<Run> joined;
  for (const Run& run : runs)
    if (!joined.empty() && joined.back().row == run.row && joined.back().end >= run.begin)
      joined.back().end = std::max(joined.back().end, run.end);
    else
      joined.push_back(run);
  runs = std::move(joined);
}

std::vector<Run> rest_of(const std::vector<Run>& runs, const Box& frame) {
  std::vector<Run> out;
  std::size_t k = 0;
  for (std::int64_t row = frame.lo()[1]; row < frame.hi()[1]; ++row) {
    std::int64_t from = frame.lo()[2];
    for (; k < runs.size() && runs[k].row == row; ++k) {
      if (runs[k].begin > from) out.push_back({row, from, runs[k].begin});
      from = runs[k].end;
    }
    if (from < frame.hi()[2]) out.push_back({row, from, frame.hi()[2]});
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> Areas::sizes() const {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < runs.size(); ++k) out[static_cast<std::size_t>(area[k])] += runs[k].size();
  return out;
}

std::vector<Run> gather_runs(const std::vector<Run>& own, std::int64_t most, const Communicator& comm) {
  std::int64_t all = std::ssize(own);
  comm.all_reduce(std::span<std::int64_t>(&all, 1), Reduce::sum);
  if (all == 0 || all > most) return {};
  std::string bytes(own.size() * sizeof(Run), '\0');
  if (!own.empty()) std::memcpy(bytes.data(), own.data(), bytes.size());
  std::string joined;
  for (const std::string& part : comm.gather(bytes, 0)) joined += part;
  joined = comm.broadcast(joined, 0);
  std::vector<Run> out(joined.size() / sizeof(Run));
  std::memcpy(out.data(), joined.data(), joined.size());
  sort_runs(out);
  return out;
}

Areas connect(std::vector<Run> runs, Corners corners) {
  std::vector<std::int32_t> parent(runs.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](std::int32_t k) {
    while (parent[static_cast<std::size_t>(k)] != k)
      k = parent[static_cast<std::size_t>(k)] =
          parent[static_cast<std::size_t>(parent[static_cast<std::size_t>(k)])];
    return k;
  };
  const std::int64_t reach = corners == Corners::join ? 1 : 0;
  std::size_t above = 0;  // the first run of the row before that may meet this one
  for (std::size_t k = 0; k < runs.size(); ++k) {
    while (above < k && (runs[above].row < runs[k].row - 1 ||
                         (runs[above].row == runs[k].row - 1 && runs[above].end + reach <= runs[k].begin)))
      ++above;
    for (std::size_t j = above; j < k && runs[j].row < runs[k].row && runs[j].begin < runs[k].end + reach;
         ++j) {
      const std::int32_t a = root(static_cast<std::int32_t>(j)), b = root(static_cast<std::int32_t>(k));
      parent[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    }
  }
  Areas out{.runs = std::move(runs), .area = {}, .count = 0};
  std::vector<std::int32_t> number(parent.size(), -1);
  for (std::size_t k = 0; k < parent.size(); ++k) {
    std::int32_t& n = number[static_cast<std::size_t>(root(static_cast<std::int32_t>(k)))];
    if (n < 0) n = out.count++;
    out.area.push_back(n);
  }
  return out;
}

std::vector<Run> grown(const std::vector<Run>& runs, const Box& frame) {
  std::vector<Run> out;
  for (const Run& run : runs)
    for (std::int64_t row = std::max(frame.lo()[1], run.row - 1); row < std::min(frame.hi()[1], run.row + 2);
         ++row)
      out.push_back({row, std::max(frame.lo()[2], run.begin - 1), std::min(frame.hi()[2], run.end + 1)});
  sort_runs(out);
  return out;
}

std::vector<Run> both(std::vector<Run> a, const std::vector<Run>& b) {
  a.insert(a.end(), b.begin(), b.end());
  sort_runs(a);
  return a;
}

std::vector<Run> without_holes(const std::vector<Run>& runs, const Box& frame) {
  const Areas areas = connect(runs, Corners::join);
  std::vector<char> at_frame(static_cast<std::size_t>(areas.count), 0);
  for (std::size_t k = 0; k < areas.runs.size(); ++k) {
    const Run& run = areas.runs[k];
    if (run.row == frame.lo()[1] || run.row + 1 == frame.hi()[1] || run.begin == frame.lo()[2] ||
        run.end == frame.hi()[2])
      at_frame[static_cast<std::size_t>(areas.area[k])] = 1;
  }
  std::vector<Run> around;
  for (std::size_t k = 0; k < areas.runs.size(); ++k)
    if (at_frame[static_cast<std::size_t>(areas.area[k])] != 0) around.push_back(areas.runs[k]);
  const Areas rest = connect(rest_of(around, frame), Corners::part);
  const std::vector<std::int64_t> sizes = rest.sizes();
  const std::int64_t largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  std::vector<Run> out = runs;
  for (std::size_t k = 0; k < rest.runs.size(); ++k)
    if (sizes[static_cast<std::size_t>(rest.area[k])] * kHole < largest) out.push_back(rest.runs[k]);
  sort_runs(out);
  return out;
}

}  // namespace tessera
