// SPDX-License-Identifier: BSD-3-Clause
// Slices, rows and columns that are copies of others: a frame filled by mirroring or repeating, lines that were lost and
// filled by those before.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sample_checks.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kFewestLines = 24;  // along an axis that is looked at
constexpr std::int64_t kThinnest = 3;      // lines of a frame that are no chance

std::uint64_t mixed(std::uint64_t v) {  // splitmix64
  v += 0x9e3779b97f4a7c15U;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9U;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebU;
  return v ^ (v >> 31);
}

// Of each line of an axis a number that equal lines share; 0 where it has few values: drawings repeat by themselves.
using LineNumbers = std::vector<std::uint64_t>;

std::array<LineNumbers, 3> numbers_of_lines(const at::Tensor& y, const at::Tensor& marks, const Box& block,
                                            const Box& all, const Communicator& comm) {
  constexpr std::size_t kKinds = 16, kVaries = 12,
                        kSums = 2 + kKinds;  // of values; a number's halves and those
  std::array<LineNumbers, 3> own, place, out;
  std::array<std::vector<std::int64_t>, 3> sums;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto n = static_cast<std::size_t>(all.extent(d));
    own[d].assign(n, 0);
    sums[d].assign(kSums * n, 0);
    for (std::size_t k = 0; k < n; ++k) place[d].push_back(mixed(3 * k + d + 1) | 1);
  }
  const auto *v = y.const_data_ptr<float>(), *m = marks.const_data_ptr<float>();
  const std::int64_t width = block.empty() ? 1 : block.extent(2),
                     height = block.empty() ? 1 : block.extent(1),
                     channel = block.empty() ? 1 : block.pixels();
  for (std::int64_t k = 0; k < y.numel(); ++k) {
    if (m[k] == 0) continue;
    const std::array<std::int64_t, 3> within{k % channel / (width * height), k / width % height, k % width};
    std::array<std::size_t, 3> at{};
    for (std::size_t d = 0; d < 3; ++d)
      at[d] = static_cast<std::size_t>(block.lo()[d] - all.lo()[d] + within[d]);
    const std::uint64_t value =
        mixed(std::bit_cast<std::uint32_t>(v[k]) + (static_cast<std::uint64_t>(k / channel) << 32));
    for (std::size_t d = 0; d < 3; ++d) {
      own[d][at[d]] += value * place[(d + 1) % 3][at[(d + 1) % 3]] * place[(d + 2) % 3][at[(d + 2) % 3]];
      ++sums[d][kSums * at[d] + 2 + value % kKinds];
    }
  }
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::size_t k = 0; k < own[d].size(); ++k) {
      sums[d][kSums * k] = static_cast<std::int64_t>(own[d][k] >> 32);
      sums[d][kSums * k + 1] = static_cast<std::int64_t>(own[d][k] & 0xffffffffU);
    }
    comm.all_reduce(std::span<std::int64_t>(sums[d]), Reduce::sum);
    for (std::size_t k = 0; k < own[d].size(); ++k) {
      const auto of = [&](std::size_t what) { return sums[d][kSums * k + what]; };
      std::size_t kinds = 0;
      for (std::size_t kind = 0; kind < kKinds; ++kind) kinds += of(2 + kind) > 0;
      const std::uint64_t number =
          (static_cast<std::uint64_t>(of(0)) << 32) + static_cast<std::uint64_t>(of(1));
      out[d].push_back(kinds >= kVaries ? std::max<std::uint64_t>(1, number) : 0);
    }
  }
  return out;
}

// How many of the first lines are those after them, mirrored about their end or about its last line, or repeat one.
std::int64_t filled_frame(std::span<const std::uint64_t> lines) {
  const auto n = static_cast<std::int64_t>(lines.size());
  const auto line = [&](std::int64_t k) { return lines[static_cast<std::size_t>(k)]; };
  for (std::int64_t p = n / 3; p >= kThinnest; --p)
    for (const std::int64_t from : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}}) {
      bool all = true;
      for (std::int64_t k = 0; k < p && all; ++k)
        all = line(p - 1 - k) != 0 && line(p - 1 - k) == line(from < 0 ? p : p + from + k);
      if (all) return p;
    }
  return 0;
}

// Lines of one axis that are copies: [first, end) at either end, and single ones that are the line before. Nothing where
// others are alike as well, as in drawings and in pictures enlarged by repeating.
struct Copies {
  std::int64_t low = 0, high = 0;
  std::vector<std::int64_t> single;
  bool any() const { return low > 0 || high > 0 || !single.empty(); }
};
Copies copies_of(LineNumbers lines) {
  constexpr std::int64_t kOneIn = 10;  // single ones at most
  Copies out;
  const auto n = static_cast<std::int64_t>(lines.size());
  if (n < kFewestLines) return out;
  out.low = filled_frame(lines);
  std::reverse(lines.begin(), lines.end());
  out.high = filled_frame(lines);
  std::reverse(lines.begin(), lines.end());
  std::unordered_map<std::uint64_t, std::int64_t> seen;
  for (std::int64_t k = out.low; k < n - out.high; ++k) {
    const std::uint64_t line = lines[static_cast<std::size_t>(k)];
    if (line == 0) continue;
    const auto [at, first] = seen.emplace(line, k);
    if (first) continue;
    if (at->second != k - 1) return {};
    at->second = k;
    out.single.push_back(k);
  }
  if (kOneIn * static_cast<std::int64_t>(out.single.size()) > n ||
      2 * static_cast<std::int64_t>(seen.size()) < n - out.low - out.high)
    return {};
  return out;
}

std::string named(const Copies& copies, const char* lines, std::int64_t n) {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> out;
  if (copies.low > 0) out.push_back(fmt::format("0 to {}", copies.low - 1));
  if (copies.high > 0) out.push_back(fmt::format("{} to {}", n - copies.high, n - 1));
  for (std::size_t k = 0; k < std::min(kMostNamed, copies.single.size()); ++k)
    out.push_back(fmt::format("{}", copies.single[k]));
  if (copies.single.size() > kMostNamed)
    out.push_back(fmt::format("{} more", copies.single.size() - kMostNamed));
  return fmt::format("{} {}", lines, fmt::join(out, ", "));
}

}  // namespace

void leave_out_copies(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                      const Communicator& comm) {
  if (survey.scan || !survey.in_image_range() || !survey.problem.weights.empty()) return;
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  constexpr std::array<const char*, 3> kLines{"slices", "rows", "columns"};
  for (std::size_t i = 0; i < layout.parts() && i < traits.parts.size(); ++i) {
    if (!traits.parts[i].convolution) continue;
    const Box block = layout.block(i, comm.rank()), all = layout.part(i).box();
    const std::array<LineNumbers, 3> lines = numbers_of_lines(stored[i], marks[i], block, all, comm);
    std::vector<std::string> told;
    bool frame = false, single = false;
    for (std::size_t d = 0; d < 3; ++d) {
      const Copies copies = copies_of(lines[d]);
      if (!copies.any()) continue;
      const std::int64_t n = all.extent(d), axis = static_cast<std::int64_t>(d) - 3;
      told.push_back(named(copies, kLines[d], n));
      frame = frame || copies.low > 0 || copies.high > 0;
      single = single || !copies.single.empty();
      std::vector<std::int64_t> out = copies.single;
      for (std::int64_t k = 0; k < n; ++k)
        if (k < copies.low || k >= n - copies.high) out.push_back(k);
      for (const std::int64_t k : out)
        if (const std::int64_t at = k + all.lo()[d] - block.lo()[d];
            !block.empty() && at >= 0 && at < block.extent(d) && marks[i].dim() + axis >= 1)
          marks[i].select(axis, at).zero_();
    }
    if (told.empty()) continue;
    seen.notices.push_back(
        fmt::format("{} of the measurement are exact copies of those beside them ({}), which no detector "
                    "makes: they count 0; weights "
                    "of 1 by problem.weights would count them",
                    fmt::join(told, ", "),
                    !single  ? "a frame that was filled by mirroring or repeating"
                    : !frame ? "lost ones that were filled, or a picture enlarged by repeating"
                             : "a frame that was filled, lost lines that were"));
  }
}

}  // namespace tessera
