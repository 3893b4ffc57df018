// SPDX-License-Identifier: BSD-3-Clause
// Slices, rows or columns that take turns: channels in turn in one stack, two exposures in one picture, fields of a
// video, columns of two amplifiers.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sample_checks.hpp"

namespace tessera {
namespace {

// Means of the samples that count in each slice, row and column, over all else; NaN where few do.
std::array<std::vector<double>, 3> line_means(const Measurement& y, const Measurement& marks,
                                              const ProductSpace& layout, std::size_t part,
                                              const Communicator& comm) {
  const Box& all = layout.part(part).box();
  const Box block = layout.block(part, comm.rank());
  std::array<std::vector<double>, 3> sums, means;
  for (std::size_t d = 0; d < 3; ++d) sums[d].resize(2 * static_cast<std::size_t>(all.extent(d)));
  const auto *value = y[part].const_data_ptr<float>(), *mark = marks[part].const_data_ptr<float>();
  const auto columns = static_cast<std::size_t>(block.extent(2));
  const std::int64_t lines = block.empty() ? 0 : y[part].numel() / block.extent(2);
  std::vector<double> sum(columns), n(columns);
  for (std::int64_t k = 0; k < lines; ++k) {
    double of_line = 0, counted = 0;
    for (std::size_t c = 0; c < columns; ++c, ++value, ++mark) {
      if (*mark == 0) continue;
      const auto v = static_cast<double>(*value);
      of_line += v;
      counted += 1;
      sum[c] += v;
      n[c] += 1;
    }
    const std::array<std::int64_t, 2> at{block.lo()[0] + k / block.extent(1) % block.extent(0),
                                         block.lo()[1] + k % block.extent(1)};
    for (std::size_t d = 0; d < 2; ++d) {
      sums[d][static_cast<std::size_t>(at[d])] += of_line;
      sums[d][sums[d].size() / 2 + static_cast<std::size_t>(at[d])] += counted;
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t at = static_cast<std::size_t>(block.lo()[2]) + c;
    sums[2][at] = sum[c];
    sums[2][sums[2].size() / 2 + at] = n[c];
  }
  for (std::size_t d = 0; d < 3; ++d) {
    comm.all_reduce(sums[d], Reduce::sum);
    const std::size_t half = sums[d].size() / 2;
    const double most = *std::max_element(sums[d].begin() + static_cast<std::ptrdiff_t>(half), sums[d].end());
    means[d].assign(half, NAN);
    for (std::size_t k = 0; k < half; ++k)
      if (2 * sums[d][half + k] >= most && most > 0) means[d][k] = sums[d][k] / sums[d][half + k];
  }
  return means;
}

// What the lines of one kind have more than those of the other where kinds of lines, each `run` lines wide, take turns: nearly
// every line differs from those of the other kind to both sides of it in the same sense. Else 0.
double turns(const std::vector<double>& means, std::size_t run, std::size_t phase) {
  constexpr std::size_t kLeast = 6, kMany = 16;
  constexpr double kSame = 0.8, kAlike = 0.3;
  std::vector<double> apart;
  for (std::size_t k = run; k + run < means.size(); ++k) {
    const double d = means[k] - (means[k - run] + means[k + run]) / 2;
    if (!std::isfinite(d)) continue;
    apart.push_back((k + phase) / run % 2 == 0 ? d : -d);
  }
  if (apart.size() < kLeast) return 0;
  const auto n = static_cast<double>(apart.size());
  const auto above = static_cast<double>(std::ranges::count_if(apart, [](double d) { return d > 0; }));
  if (std::max(above, n - above) < kSame * n) return 0;
  const bool many = apart.size() >= kMany;
  if (!many && above > 0 && above < n) return 0;
  const auto middle = apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2);
  std::nth_element(apart.begin(), middle, apart.end());
  const double by = std::abs(*middle);
  const bool alike = std::ranges::all_of(apart, [&](double d) { return std::abs(d) > kAlike * by; });
  return many || alike ? by : 0;
}

// The same where every third line is of one kind and those between of another, as in a mosaic of 6 x 6 colors.
double every_third(const std::vector<double>& means) {
  constexpr std::size_t kLeast = 24;
  constexpr double kSame = 0.9;
  if (means.size() < kLeast) return 0;
  double largest = 0;
  for (std::size_t phase = 0; phase < 3; ++phase) {
    std::vector<double> apart;
    std::array<double, 2> above{}, n{};  // of these lines, and of those between
    for (std::size_t k = 1; k + 1 < means.size(); ++k) {
      const double d = means[k] - (means[k - 1] + means[k + 1]) / 2;
      if (!std::isfinite(d)) continue;
      const std::size_t kind = k % 3 == phase ? 0 : 1;
      above[kind] += d > 0;
      n[kind] += 1;
      if (kind == 0) apart.push_back(std::abs(d));
    }
    const bool high = above[0] > n[0] / 2;
    const double these = high ? above[0] : n[0] - above[0], others = high ? n[1] - above[1] : above[1];
    if (apart.empty() || these < kSame * n[0] || others < kSame * n[1]) continue;
    const auto middle = apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2);
    std::nth_element(apart.begin(), middle, apart.end());
    largest = std::max(largest, *middle);
  }
  return largest;
}

// The samples of one row or column, over slices and channels; NaN where one does not count.
std::vector<double> samples_of(const at::Tensor& y, const at::Tensor& marks, const Box& all, const Box& block,
                               std::size_t axis, std::size_t line, const Communicator& comm) {
  const std::size_t other = 3 - axis;
  const std::int64_t across = all.extent(other), at = static_cast<std::int64_t>(line) - block.lo()[axis];
  const auto n = static_cast<std::size_t>(all.extent(0) * y.size(0) * across);
  std::vector<double> out(2 * n);
  const auto *value = y.const_data_ptr<float>(), *mark = marks.const_data_ptr<float>();
  if (!block.empty() && at >= 0 && at < block.extent(axis))
    for (std::int64_t p = 0; p < y.size(0) * block.extent(0); ++p)
      for (std::int64_t k = 0; k < block.extent(other); ++k) {
        const std::int64_t row = axis == 1 ? at : k, column = axis == 1 ? k : at;
        const std::int64_t from = (p * block.extent(1) + row) * block.extent(2) + column;
        const std::int64_t plane = p / block.extent(0) * all.extent(0) + block.lo()[0] + p % block.extent(0);
        const auto to = static_cast<std::size_t>(plane * across + block.lo()[other] + k);
        if (mark[from] == 0) continue;
        out[to] = static_cast<double>(value[from]);
        out[n + to] = 1;
      }
  comm.all_reduce(out, Reduce::sum);
  for (std::size_t k = 0; k < n; ++k)
    if (out[n + k] == 0) out[k] = NAN;
  out.resize(n);
  return out;
}

// Whether nearly all samples of a line differ from those to both sides in one sense.
bool differs(const std::vector<double>& line, const std::vector<double>& before,
             const std::vector<double>& after) {
  constexpr double kSame = 0.9;
  double n = 0, above = 0;
  for (std::size_t k = 0; k < line.size(); ++k) {
    const double d = line[k] - (before[k] + after[k]) / 2;
    if (!std::isfinite(d)) continue;
    n += 1;
    above += d > 0;
  }
  return n > 0 && std::max(above, n - above) >= kSame * n;
}

// Which of every second row are the means of those beside them, as in a frame whose fields were brought apart: 0 or 1, of
// nearly all samples there and few of the others; -1: none.
int means_of_neighbors(const Survey& survey, const at::Tensor& y, const at::Tensor& marks, const Box& block,
                       const Communicator& comm) {
  constexpr double kAll = 0.95, kFew = 0.5, kTiny = 1e-5;
  const bool whole = survey.data.type.find("int") != std::string::npos;
  const double close = whole ? 0.51 / survey.factor : kTiny;  // of whole numbers what rounding makes
  std::array<std::int64_t, 4> n{};                            // by parity: all, and means
  if (!block.empty()) {
    const auto *v = y.const_data_ptr<float>(), *m = marks.const_data_ptr<float>();
    const std::int64_t columns = block.extent(2), rows = block.extent(1), lines = y.numel() / columns;
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t r = line % rows;
      if (r == 0 || r + 1 == rows) continue;
      const auto parity = static_cast<std::size_t>((block.lo()[1] + r) % 2);
      for (std::int64_t k = line * columns; k < (line + 1) * columns; ++k) {
        if (m[k] == 0 || m[k - columns] == 0 || m[k + columns] == 0) continue;
        const auto above = static_cast<double>(v[k - columns]), below = static_cast<double>(v[k + columns]);
        ++n[parity];
        n[2 + parity] += std::abs(static_cast<double>(v[k]) - (above + below) / 2) <= close;
      }
    }
  }
  comm.all_reduce(n, Reduce::sum);
  const auto share = [&](std::size_t parity) {
    return static_cast<double>(n[2 + parity]) / static_cast<double>(std::max<std::int64_t>(1, n[parity]));
  };
  for (const std::size_t parity : {std::size_t{0}, std::size_t{1}})
    if (share(parity) > kAll && share(1 - parity) < kFew) return static_cast<int>(parity);
  return -1;
}

// Single lines that differ from both beside them, as columns of a camera do that are dead or have another gain: edges
// of a picture differ from one side.
std::vector<std::size_t> odd_lines(const std::vector<double>& means, double least) {
  constexpr std::size_t kLeast = 16, kOneIn = 20;
  constexpr double kFar = 15;
  if (means.size() < kLeast) return {};
  std::vector<double> apart(means.size(), NAN), sizes;
  for (std::size_t k = 1; k + 1 < means.size(); ++k) {
    apart[k] = means[k] - (means[k - 1] + means[k + 1]) / 2;
    if (std::isfinite(apart[k])) sizes.push_back(std::abs(apart[k]));
  }
  if (sizes.size() < kLeast) return {};
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  const auto beside = [&](std::size_t k, std::size_t at) {
    const double share = -apart[at] / apart[k];
    return share > 0.3 && share < 0.7;
  };
  std::vector<std::size_t> out;
  for (std::size_t k = 2; k + 2 < means.size(); ++k)
    if (std::abs(apart[k]) > std::max(least, kFar * *middle) && beside(k, k - 1) && beside(k, k + 1))
      out.push_back(k);
  return out.size() * kOneIn > means.size() ? std::vector<std::size_t>() : out;
}

}  // namespace

void warn_of_alternate_lines(const Survey& survey, const Measurement& y, const Measurement& marks,
                             Surveyed& seen, const Communicator& comm) {
  constexpr double kShows = 0.5;  // of the noise
  if (!survey.in_image_range() || seen.mosaic) return;
  const ProductSpace& layout = seen.A->range();
  const std::array<const char*, 3> words{"slice", "row", "column"};
  const std::string units = survey.factor == 1 ? "" : " in file units";
  for (std::size_t part = 0; part < y.size(); ++part) {
    const std::string of = y.size() > 1 ? fmt::format(", part {},", part) : "";
    if (const int parity =
            means_of_neighbors(survey, y[part], marks[part], layout.block(part, comm.rank()), comm);
        parity >= 0)
      seen.warnings.push_back(
          fmt::format("rows {}, {}, ... of the measurement{} are the means of those above and below (a video "
                      "frame whose fields were "
                      "brought apart, or a picture stretched in height), which is no noise of its own: give "
                      "them weight 0 by "
                      "problem.weights, or state the noise",
                      parity, parity + 2, of));
    std::vector<std::string> found;
    const std::array<std::vector<double>, 3> means = line_means(y, marks, layout, part, comm);
    if (layout.part(part).box().extent(0) > 1) {
      const double by = turns(means[0], 1, 0);
      if (by > kShows * seen.noise_sigma)
        seen.warnings.push_back(
            fmt::format("every second slice of the measurement{} lies {:.3g}{} above those beside it "
                        "(channels, exposures or views "
                        "in turn, which are taken for one volume): give each kind as a volume of its own",
                        of, by * survey.factor, units));
    }
    for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
      for (const auto& [run, phase] : {std::pair<std::size_t, std::size_t>{1, 0}, {2, 0}, {2, 1}}) {
        const double by = turns(means[axis], run, phase);
        if (!(by > kShows * seen.noise_sigma)) continue;
        found.push_back(fmt::format(
            "every second {}{}{} of the measurement{} lies {:.3g}{} above those beside it",
            run == 1 ? "" : "pair of ", words[axis], run == 1 ? "" : "s", of, by * survey.factor, units));
        break;
      }
    }
    const double third = std::min(every_third(means[1]), every_third(means[2]));
    if (found.empty() && third > kShows * seen.noise_sigma) {
      seen.warnings.push_back(fmt::format(
          "every third row and every third column of the measurement{} differ from those beside them, by "
          "{:.3g}{} (as in a sensor's mosaic of 6 x 6 colors, X-Trans): demosaic it first",
          of, third * survey.factor, units));
      seen.mosaic = true;
      continue;
    }
    for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
      if (!found.empty()) break;
      std::vector<std::size_t> odd = odd_lines(means[axis], seen.noise_sigma);
      const auto samples = [&](std::size_t line) {
        return samples_of(y[part], marks[part], layout.part(part).box(), layout.block(part, comm.rank()),
                          axis, line, comm);
      };
      std::erase_if(odd, [&](std::size_t k) { return !differs(samples(k), samples(k - 1), samples(k + 1)); });
      if (odd.empty()) continue;
      const auto shown = std::min<std::size_t>(odd.size(), 5);
      seen.warnings.push_back(
          fmt::format("{}{} {}{} of the measurement{} differ{} from those on both sides all along (dead, or "
                      "of another gain, as a "
                      "camera's are): the result keeps {}; give {} weight 0 by problem.weights, or {} gain "
                      "by problem.flat",
                      words[axis], odd.size() == 1 ? "" : "s",
                      fmt::join(odd.begin(), odd.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                      odd.size() > shown ? fmt::format(" and {} more", odd.size() - shown) : "", of,
                      odd.size() == 1 ? "s" : "", odd.size() == 1 ? "it" : "them",
                      odd.size() == 1 ? "it" : "them", odd.size() == 1 ? "its" : "their"));
    }
    if (found.size() == 1)
      seen.warnings.push_back(found[0] +
                              " (two exposures or gains, or the fields of a video, which the result "
                              "keeps): bring both kinds to one "
                              "level, give their gain by problem.flat, or restore each by itself");
    else if (found.size() == 2)
      seen.warnings.push_back(
          found[0] + ", and " + found[1] +
          " (as the colors of a sensor's mosaic do): demosaic it, or separate the kinds, first");
  }
}

}  // namespace tessera
