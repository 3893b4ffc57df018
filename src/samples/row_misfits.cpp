// SPDX-License-Identifier: BSD-3-Clause
// Rows or columns that do not go on from those before them: lost lines, shifted parts, fields of a video, jitter.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "near_samples.hpp"
#include "sample_checks.hpp"

namespace tessera {
namespace {

constexpr std::size_t kPartsAlong = 8;                    // of a line, each of which shows whether it fits
constexpr std::int64_t kShortest = 64, kFewestRows = 48;  // samples along a line; lines
// Fourth over second differences of what a kernel makes of a line one sample thick; finer ones are told from nothing.
constexpr double kWidest = 1.5;

double finest(const at::Tensor& taps, std::size_t axis) {
  const at::Tensor line =
      taps.to(at::kCPU, at::kDouble).sum(0).sum(0).sum(axis == 1 ? 1 : 0).contiguous();  // across the lines
  std::vector<double> v(static_cast<std::size_t>(line.numel()) + 8);
  std::copy_n(line.const_data_ptr<double>(), line.numel(), v.begin() + 4);
  double second = 0, fourth = 0;
  for (std::size_t k = 2; k + 2 < v.size(); ++k) {
    const double two = v[k - 1] - 2 * v[k] + v[k + 1],
                 four = v[k - 2] - 4 * v[k - 1] + 6 * v[k] - 4 * v[k + 1] + v[k + 2];
    second += two * two;
    fourth += four * four;
  }
  return second > 0 ? fourth / second : INFINITY;
}

// Mean squares of differences across the lines of an axis, of every part of each line; NaN where few samples count.
struct Differences {
  std::vector<double> second, fourth, wide;  // wide: second ones of every second line
};

std::array<Differences, 2> differences(const at::Tensor& y, const at::Tensor& marks,
                                       const ProductSpace& layout, std::size_t part,
                                       const Communicator& comm) {
  constexpr std::size_t kSums = 4;  // the number of samples, and those
  const Box& all = layout.part(part).box();
  std::array<std::vector<double>, 2> sums;
  for (const std::size_t axis : {1U, 2U})
    sums[axis - 1].resize(kSums * kPartsAlong * static_cast<std::size_t>(all.extent(axis)));
  const auto around = [](const Box& box) { return box.grow(ImageSpace::in_plane(2)); };
  for (NearSamples near({y, marks}, layout, part, comm, around, Border::zero); near.next();) {
    if (near.own().empty()) continue;
    const Box &own = near.own(), &seen = near.seen();
    const std::int64_t width = seen.extent(2);
    for (std::int64_t c = 0; c < near.channels(); ++c)
      for (std::int64_t row = own.lo()[1]; row < own.hi()[1]; ++row)
        for (std::int64_t column = own.lo()[2]; column < own.hi()[2]; ++column) {
          const std::int64_t k = (row - seen.lo()[1]) * width + column - seen.lo()[2];
          const float *const v = near.at(0, c) + k, *const m = near.at(1, c) + k;
          for (const std::size_t axis : {1U, 2U}) {
            const std::int64_t line = (axis == 1 ? row : column) - all.lo()[axis],
                               along = (axis == 1 ? column : row) - all.lo()[3 - axis],
                               next = axis == 1 ? width : 1;
            if (line < 2 || line + 2 >= all.extent(axis)) continue;
            if (m[0] == 0 || m[-next] == 0 || m[next] == 0 || m[-2 * next] == 0 || m[2 * next] == 0) continue;
            const auto of = [&](std::int64_t step) { return static_cast<double>(v[step * next]); };
            const double two = of(-1) - 2 * of(0) + of(1), wide = of(-2) - 2 * of(0) + of(2),
                         four = wide - 4 * two;
            double* const to =
                sums[axis - 1].data() +
                kSums * (static_cast<std::size_t>(line) * kPartsAlong +
                         static_cast<std::size_t>(along * static_cast<std::int64_t>(kPartsAlong) /
                                                  all.extent(3 - axis)));
            to[0] += 1;
            to[1] += two * two;
            to[2] += four * four;
            to[3] += wide * wide;
          }
        }
  }
  std::array<Differences, 2> out;
  for (const std::size_t axis : {1U, 2U}) {
    comm.all_reduce(sums[axis - 1], Reduce::sum);
    const double most = static_cast<double>(all.extent(3 - axis)) / kPartsAlong;
    Differences& to = out[axis - 1];
    for (std::size_t k = 0; k < sums[axis - 1].size(); k += kSums) {
      const double* const s = sums[axis - 1].data() + k;
      const bool some = 2 * s[0] >= most;
      to.second.push_back(some ? s[1] / s[0] : NAN);
      to.fourth.push_back(some ? s[2] / s[0] : NAN);
      to.wide.push_back(some ? s[3] / s[0] : NAN);
    }
  }
  return out;
}

double middle_value(std::vector<double> v) {
  std::erase_if(v, [](double x) { return !std::isfinite(x); });
  if (v.size() < 16) return NAN;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

// Means of three lines, those before and after one.
std::vector<double> of_three(const std::vector<double>& v) {
  std::vector<double> out(v.size(), NAN);
  for (std::size_t k = kPartsAlong; k + kPartsAlong < v.size(); ++k)
    out[k] = (v[k - kPartsAlong] + v[k] + v[k + kPartsAlong]) / 3;
  return out;
}

// Lines around which most parts differ by far more, and more suddenly, than elsewhere and than the kernel makes anything:
// four samples of 1, -3, 3, -1 for a step between two lines.
std::vector<std::size_t> misfits(const Differences& d, double thinnest, double noise) {
  constexpr double kMuch = 6, kSudden = 2, kNoise = 4;  // times the usual, what the kernel makes, the noise
  constexpr double kFourth = 70, kSecond = 6;           // squares of the differences' factors
  constexpr double kStrong = 20;                        // times the usual, of all parts
  constexpr std::size_t kMost = 4, kSome = 3, kOneInLines = 8;  // parts of a line; lines
  const std::vector<double> fourth = of_three(d.fourth), second = of_three(d.second);
  const double usual = middle_value(fourth);
  const std::size_t lines = fourth.size() / kPartsAlong;
  std::array<double, kPartsAlong> base{};
  for (std::size_t p = 0; p < kPartsAlong; ++p) {
    std::vector<double> of;
    for (std::size_t k = 0; k < lines; ++k) of.push_back(fourth[k * kPartsAlong + p]);
    base[p] = std::max(usual, middle_value(of));
  }
  std::vector<std::size_t> out;
  std::size_t count = 0, first = 0, in_row = 0;
  for (std::size_t k = 0; k <= lines; ++k) {
    std::size_t far = 0;
    double strength = 0, all = 0;
    for (std::size_t p = 0; p < kPartsAlong && k < lines; ++p) {
      const double four = fourth[k * kPartsAlong + p], two = second[k * kPartsAlong + p];
      far += four > kMuch * base[p] && four > kNoise * kFourth * noise * noise &&
             four - base[p] > kSudden * thinnest * std::max(0.0, two - kSecond / kFourth * base[p]);
      if (std::isfinite(four)) strength += four, all += base[p];
    }
    if (far >= kMost || (far >= kSome && strength > kStrong * all)) {
      if (in_row == 0) first = k;
      ++in_row, ++count;
    } else if (in_row > 0) {
      if (in_row > 1) out.push_back(first + in_row / 2);
      in_row = 0;
    }
  }
  return kOneInLines * count > lines ? std::vector<std::size_t>() : out;
}

// Of the lines' means over their parts.
double middle_line(const std::vector<double>& v) {
  std::vector<double> lines;
  for (std::size_t k = 0; k < v.size(); k += kPartsAlong) {
    double sum = 0, n = 0;
    for (std::size_t p = 0; p < kPartsAlong; ++p)
      if (std::isfinite(v[k + p])) sum += v[k + p], n += 1;
    if (2 * n >= kPartsAlong) lines.push_back(sum / n);
  }
  return middle_value(lines);
}

// Whether lines differ from each other far more than samples along them do, and more suddenly than the kernel makes
// anything. `fields`: those of every second line go on.
struct Apart {
  bool lines = false, fields = false;
  double times = 0;
};
Apart all_apart(const Differences& across, const Differences& along, double thinnest, double noise) {
  constexpr double kTimes = 3.5, kSudden = 2, kNoise = 4, kFourth = 70, kSecond = 6, kFields = 20;
  const double fourth = middle_line(across.fourth), second = middle_line(across.second),
               usual = middle_line(along.fourth), wide = middle_line(across.wide);
  Apart out{.times = std::sqrt(fourth / usual)};
  out.lines = fourth > kTimes * usual && fourth > kNoise * kFourth * noise * noise &&
              fourth - usual > kSudden * thinnest * std::max(0.0, second - kSecond / kFourth * usual);
  out.fields = out.lines && fourth > kFields * wide;
  return out;
}

}  // namespace

void warn_of_misfits(const Survey& survey, const Measurement& y, const Measurement& marks, bool told,
                     Surveyed& seen, const Communicator& comm) {
  constexpr std::size_t kNamed = 6;
  if (!survey.in_image_range() || seen.mosaic || survey.scan) return;
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t part = 0; part < y.size(); ++part) {
    const Box& all = layout.part(part).box();
    const Convolution* const kernel = picture_kernel(traits, layout, part);
    if (!kernel) continue;
    if (std::min(all.extent(1), all.extent(2)) < kShortest) continue;
    const std::array<double, 2> thinnest{finest(kernel->taps, 1), finest(kernel->taps, 2)};
    if (std::min(thinnest[0], thinnest[1]) > kWidest) continue;
    at::Tensor counted = marks[part];
    if (!seen.ends.empty()) counted = counted.masked_fill(seen.ends[part].ne(0), 0);
    const std::array<Differences, 2> d = differences(y[part], counted, layout, part, comm);
    const double rounding =
        survey.data.type.find("int") == std::string::npos ? 0 : 1 / survey.factor / std::sqrt(12.0);
    const double noise = std::max(seen.noise_sigma, rounding);
    const std::string of = y.size() > 1 ? fmt::format(", part {},", part) : "";
    for (const std::size_t axis : {1U, 2U}) {
      if (thinnest[axis - 1] > kWidest) continue;
      const std::string line = axis == 1 ? "row" : "column";
      if (const Apart apart = all_apart(d[axis - 1], d[2 - axis], thinnest[axis - 1], noise);
          apart.lines && !told && thinnest[2 - axis] <= kWidest) {
        seen.warnings.push_back(
            apart.fields
                ? fmt::format(
                      "every second {0} of the measurement{1} shows another picture than those between, "
                      "while "
                      "each kind goes on by itself (the fields of a video, taken one after the other): "
                      "restore "
                      "each by itself, the {0}s 0, 2, ... and 1, 3, ... with every second {0} of the kernel",
                      line, of)
                : fmt::format(
                      "{0}s of the measurement{1} differ from those beside them {2:.2g} times as much as "
                      "samples along them do, which no blur made ({0}s that were shifted each by itself, as "
                      "a "
                      "shaking scan leaves them; or noise that is one for each {0}): put them in line first",
                      line, of, apart.times));
        continue;
      }
      const std::vector<std::size_t> found = misfits(d[axis - 1], thinnest[axis - 1], noise);
      if (found.empty()) continue;
      const auto shown = static_cast<std::ptrdiff_t>(std::min(found.size(), kNamed));
      seen.warnings.push_back(fmt::format(
          "the measurement{0} does not go on from one {1} to the next around {1}{2} {3}{4}, which no blur "
          "made (lost or "
          "wrong {1}s, a part that was shifted or stitched, a picture that was rolled around): cut it there, "
          "or give "
          "wrong {1}s weight 0 by problem.weights",
          of, line, found.size() == 1 ? "" : "s", fmt::join(found.begin(), found.begin() + shown, ", "),
          found.size() > kNamed ? fmt::format(" and {} more", found.size() - kNamed) : ""));
    }
  }
}

}  // namespace tessera
