// SPDX-License-Identifier: BSD-3-Clause
// Numbers that are not the ones that were meant, since they wrapped around.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "sample_checks.hpp"

namespace tessera {
namespace {

// "uint16": the numbers up to 2^16; 0 for other types.
double numbers_of(const std::string& type) {
  return type.starts_with("uint") ? std::exp2(std::stoi(type.substr(4))) : 0;
}

// Numbers above the largest of a type begin again at its smallest: bright samples stand beside dark ones, while few steps of
// half the range are there, as edges would make. Clipped pictures and drawings pile up at their ends, these do not.
void warn_of_overflow(const Survey& survey, const Measurement& stored, const Measurement& marks,
                      Surveyed& seen, const Communicator& comm) {
  constexpr double kJump = 0.75, kEdge = 0.4;   // of the type's range, between neighbors
  constexpr double kRim = 0.01, kPiled = 0.05;  // of the range; share of the rim's samples at its very end
  constexpr std::int64_t kFew = 20,
                         kTimes = 4;  // jumps; a share of the edges, of which photographs have a 36th at most
  const std::string& type = survey.data.type;
  const double all = type == "int16" ? std::exp2(16) : numbers_of(type),
               least = type == "int16" ? -all / 2 : 0;
  if (!(all > 0) || all > std::exp2(16)) return;
  const ProductSpace& layout = seen.A->range();
  std::array<std::int64_t, 6> n{};  // jumps, edges; low rim, its end; high rim, its end
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const Box block = layout.block(i, comm.rank());
    const auto *v = stored[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
    const std::int64_t columns = block.empty() ? 1 : block.extent(2),
                       rows = block.empty() ? 1 : block.extent(1);
    const auto value = [&](std::int64_t k) {
      return std::round(static_cast<double>(v[k]) * survey.factor + survey.offset - least);
    };
    for (std::int64_t k = 0; k < stored[i].numel(); ++k) {
      if (m[k] == 0) continue;
      const double here = value(k);
      if (here < kRim * all) ++n[2], n[3] += here == 0;
      if (here > (1 - kRim) * all - 1) ++n[4], n[5] += here == all - 1;
      for (const auto& [next, there] : {std::pair(k + 1, (k + 1) % columns != 0),
                                        std::pair(k + columns, k / columns % rows + 1 < rows)}) {
        if (!there || m[next] == 0) continue;
        const double step = std::abs(here - value(next));
        n[0] += step > kJump * all;
        n[1] += step > kEdge * all && step <= kJump * all;
      }
    }
  }
  comm.all_reduce(n, Reduce::sum);
  const auto piled = [&](std::size_t rim) {
    const double width = std::max(3.0, kRim * all);
    return static_cast<double>(n[rim + 1]) > std::max(kPiled, 2 / width) * static_cast<double>(n[rim]);
  };
  if (n[0] < kFew || kTimes * n[0] < n[1] || n[2] == 0 || n[4] == 0 || piled(2) || piled(4)) return;
  seen.warnings.push_back(fmt::format(
      "{} neighbors in the measurement stand at opposite ends of {}, and few are half of it apart "
      "(numbers beyond its largest begin again at its smallest, as when a picture was scaled and "
      "stored without a limit): store it again, limited to its range (numpy.clip), or as float32",
      n[0], type));
}

// A bit that all samples have, or none, while higher and lower ones change.
void warn_of_stuck_bit(const Survey& survey, const Measurement& stored, const Measurement& marks,
                       Surveyed& seen, const Communicator& comm) {
  constexpr std::size_t kBits = 16, kKinds = 64;  // values are told apart in so many kinds
  constexpr std::int64_t kFewest = 1000, kHigher = 100,
                         kLower = 5;  // samples; one in so many has the rarer state
  constexpr std::int64_t kManyKinds = 40;
  const std::string& type = survey.data.type;
  if (type != "uint8" && type != "uint16" && type != "int16") return;
  std::array<std::int64_t, kBits + 2> set{};  // samples that have a bit; all; below 0
  std::array<std::int64_t, kKinds> kinds{};
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto *v = stored[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
    for (std::int64_t k = 0; k < stored[i].numel(); ++k) {
      if (m[k] == 0) continue;
      const double number = static_cast<double>(v[k]) * survey.factor + survey.offset;
      const auto value = static_cast<std::uint32_t>(std::max(0.0, number + 0.5));
      for (std::size_t bit = 0; bit < kBits; ++bit) set[bit] += value >> bit & 1;
      ++set[kBits];
      set[kBits + 1] += number < -0.5;
      ++kinds[static_cast<std::uint64_t>(value) * 0x9e3779b97f4a7c15U >> 58];
    }
  }
  comm.all_reduce(set, Reduce::sum);
  comm.all_reduce(kinds, Reduce::sum);
  const std::int64_t all = set[kBits];
  if (all < kFewest || set[kBits + 1] > 0 ||
      std::ranges::count_if(kinds, [](auto n) { return n > 0; }) < kManyKinds)
    return;
  const auto changes = [&](std::size_t bit, std::int64_t one_in) {
    return std::min(set[bit], all - set[bit]) * one_in > all;
  };
  bool lower = false;
  for (std::size_t bit = 0; bit + 1 < kBits; ++bit) {
    lower = lower || changes(bit, kLower);
    if (!lower || (set[bit] != 0 && set[bit] != all)) continue;
    bool higher = false;
    for (std::size_t above = bit + 1; above < kBits; ++above) higher = higher || changes(above, kHigher);
    if (!higher) return;
    seen.warnings.push_back(
        fmt::format("bit {} of the measurement is {} in all samples, while those above and below it change "
                    "(a line of the converter "
                    "or of a cable that is stuck: values are wrong by {} wherever it should be {}): measure "
                    "again; until then such "
                    "a wrong value counts as noise",
                    bit, set[bit] == 0 ? 0 : 1, 1 << bit, set[bit] == 0 ? 1 : 0));
    return;
  }
}

}  // namespace

void warn_of_wrapped(const Survey& survey, const Measurement& stored, const Measurement& marks,
                     Surveyed& seen, const Communicator& comm) {
  constexpr double kLow = 0.25, kHigh = 0.75;
  constexpr std::int64_t kOneIn = 1000;
  if (survey.in_image_range()) warn_of_overflow(survey, stored, marks, seen, comm);
  warn_of_stuck_bit(survey, stored, marks, seen, comm);
  const double all = numbers_of(survey.data.type);
  if (!(all > 256) || !survey.in_image_range()) return;
  std::array<std::int64_t, 3> n{};  // below a quarter of the type, above three, between
  std::array<double, 3> ends{-INFINITY, -INFINITY, -INFINITY};  // the largest below; -least and largest above
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto *v = stored[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
    for (std::int64_t k = 0; k < stored[i].numel(); ++k) {
      if (m[k] == 0) continue;
      const double value = static_cast<double>(v[k]) * survey.factor + survey.offset;
      const bool high = value > kHigh * all, low = value < kLow * all;
      ++n[high ? 1 : low ? 0 : 2];
      if (low) ends[0] = std::max(ends[0], value);
      if (high) ends[1] = std::max(ends[1], -value), ends[2] = std::max(ends[2], value);
    }
  }
  comm.all_reduce(n, Reduce::sum);
  comm.all_reduce(ends, Reduce::max);
  // Negative numbers lie about as far below 0 as others above it; hot samples lie anywhere, saturated ones at one value.
  constexpr double kFar = 4;
  const double below = all + ends[1];
  if (n[2] > 0 || n[0] == 0 || n[1] * kOneIn < n[0] || below > kFar * ends[0] || -ends[1] == ends[2]) return;
  seen.warnings.push_back(
      fmt::format("{} samples of the measurement lie from {:.0f} to {:.0f}, the others below {:.0f}, and "
                  "none between (numbers below 0 "
                  "that were written without a sign, as a background subtracted in {} leaves them): write "
                  "them as what they are, "
                  "a.view('{}')",
                  n[1], -ends[1], ends[2], ends[0] + 1, survey.data.type, survey.data.type.substr(1)));
}

}  // namespace tessera
