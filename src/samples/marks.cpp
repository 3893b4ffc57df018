// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/marks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr double kPictured = 128;  // whole numbers from here on may be those of a picture, not labels
constexpr double kInf = std::numeric_limits<double>::infinity();

std::string share(std::int64_t part, std::int64_t all) { return fmt::format("{} of {} samples", part, all); }

std::string words(const MarkValues& v) {
  constexpr std::size_t kShown = 5;
  if (v.distinct.size() <= kShown + 1) return fmt::format("{:g}", fmt::join(v.distinct, ", "));
  const auto first = v.distinct.begin();
  return fmt::format("{:g}, ... {:g}", fmt::join(first, first + kShown, ", "), v.most);
}

MarkRule at_half(const MarkValues& v) {
  return {
      v.most / 2,
      fmt::format("has values between 0 and {:.6g} (a mask that was compressed or resampled): those from "
                  "{:.6g} on are taken for measured, and {} are neither near 0 nor near {:.6g}; a mask of "
                  "two values, as PNG or TIFF, is exact",
                  v.most, v.most / 2, share(v.between, v.samples), v.most)};
}

}  // namespace

MarkValues survey_marks(const VisitValues& visit, const Communicator& comm) {
  MarkValues out;
  std::array<double, 3> ends{-kInf, -kInf, 0};  // -least, most, 1 where a value is not whole
  std::array<std::int64_t, 2> counts{};
  std::set<double> distinct;  // the smallest ones
  visit([&](const double* first, std::int64_t n) {
    counts[0] += n;
    for (const double* v = first; v != first + n; ++v) {
      if (!std::isfinite(*v)) {
        ++counts[1];
        continue;
      }
      const double value = *v;
      ends[0] = std::max(ends[0], -value);
      ends[1] = std::max(ends[1], value);
      if (value != std::floor(value)) ends[2] = 1;
      if (distinct.size() == MarkValues::kMany && value >= *distinct.rbegin()) continue;
      distinct.insert(value);
      if (distinct.size() > MarkValues::kMany) distinct.erase(std::prev(distinct.end()));
    }
  });
  comm.all_reduce(counts, Reduce::sum);
  comm.all_reduce(ends, Reduce::max);
  out.samples = counts[0];
  out.not_numbers = counts[1];
  if (counts[0] == counts[1]) return out;
  out.least = -ends[0];
  out.most = ends[1];
  out.whole = ends[2] == 0;
  // Each rank has its smallest ones, so the smallest of all are among them.
  for (double last = -kInf; out.distinct.size() < MarkValues::kMany; out.distinct.push_back(last)) {
    const auto next = distinct.upper_bound(last);
    double value = next == distinct.end() ? kInf : *next;
    comm.all_reduce({&value, 1}, Reduce::min);
    if (value == kInf) break;
    last = value;
  }
  if (out.least < 0 || out.distinct.size() == 1 || (out.distinct.size() == 2 && out.least == 0)) return out;
  std::array<std::int64_t, 4> near{};
  visit([&](const double* first, std::int64_t n) {
    for (const double* v = first; v != first + n; ++v) {
      if (!std::isfinite(*v)) continue;
      ++near[*v <= out.most / 8 ? 0 : *v >= out.most * 7 / 8 ? 1 : 2];
      near[3] += *v == out.most;
    }
  });
  comm.all_reduce(near, Reduce::sum);
  out.at_most = near[3];
  out.low = near[0];
  out.high = near[1];
  out.between = near[2];
  return out;
}

bool MarkRule::marks(float value) const {
  return std::isfinite(value) && (threshold > 0 ? value >= threshold : value != 0);
}

MarkRule rule_of_mask(const std::string& name, const MarkValues& v) {
  MarkRule rule;
  const std::string mask = "mask " + name + " ";
  TESSERA_VALIDATE(v.not_numbers < v.samples, mask,
                   "holds no numbers (0 is not measured, not 0 is) correct it");
  const bool two =
      v.distinct.size() <= 2 && (v.distinct.size() < 2 || v.distinct[0] == 0 || v.distinct[1] == 0);
  TESSERA_VALIDATE(two || v.least >= 0, mask, "has values below 0 (", v.least, " to ", v.most,
                   "; 0 is not measured, not 0 is) write 0 and 1");
  const bool few = v.distinct.size() < MarkValues::kMany;
  // Few whole numbers are labels or flags, unless they end at a picture's white: 255, 1023, 65535.
  const bool white = std::has_single_bit(static_cast<std::uint64_t>(std::max(0.0, v.most)) + 1);
  // So are those beside one far number, as 255 for what has no class: compression leaves others near both ends, and
  // resampling in between.
  const bool aside = v.between == 0 && v.high == v.at_most && v.distinct.size() > 2;
  const bool labels = v.whole && (v.most < kPictured || (few && !white) || aside);
  if (!two && !labels && v.two_ended()) {
    rule = at_half(v);
  } else if (two || labels || (v.whole && few)) {
    if (!two)
      rule.note = "has the values " + words(v) + " (labels or flags): those that are not 0 are measured";
    if (v.least > 0) rule.note = "has no 0: all samples are measured";
  } else {
    throw InputError(
        concat(mask, "has many values from ", v.least, " to ", v.most, ", ", share(v.between, v.samples),
               " between both ends (a mask says which samples are measured: 0 is not, not 0 is) write 0 and "
               "1 as PNG, "
               "TIFF or .npy; a sensitivity is problem.flat, and the trust in a sample problem.weights"));
  }
  if (v.not_numbers > 0)
    rule.note += fmt::format("{}has {} that are not numbers: they count as not measured",
                             rule.note.empty() ? "" : "; ", share(v.not_numbers, v.samples));
  if (!rule.note.empty()) rule.note = mask + rule.note;
  return rule;
}

std::optional<MarkRule> rule_of_weights(const MarkValues& v) {
  const bool bits8 = v.most >= kPictured && v.most <= 255, bits16 = v.most >= 32768 && v.most <= 65535;
  // Shares of 1: many values, of which nearly all lie at both ends.
  const bool shares = !v.whole && v.most > 0.9 && v.most < 1.01 && v.distinct.size() == MarkValues::kMany &&
                      20 * v.between < v.samples;
  if (v.distinct.size() <= 2 || !((v.whole && (bits8 || bits16)) || shares) || !v.two_ended())
    return std::nullopt;
  MarkRule rule = at_half(v);
  rule.note = "problem.weights " + rule.note +
              (shares ? "; a noise.gaussian beside other weights says their level"
                      : "; inverse variances are written as floats");
  return rule;
}

}  // namespace tessera
