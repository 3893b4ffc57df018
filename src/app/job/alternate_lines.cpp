// SPDX-License-Identifier: BSD-3-Clause
// Slices, rows or columns that take turns: channels in turn in one stack, two exposures in one picture, fields of a
// video, columns of two amplifiers.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "job/sample_checks.hpp"

namespace tessera {
namespace {

// Means of the samples that count in each slice, row or column, over all else; NaN where few do.
std::vector<double> line_means(const Measurement& y, const Measurement& marks, const ProductSpace& layout,
                               std::size_t part, std::size_t axis, const Communicator& comm) {
  const Box& all = layout.part(part).box();
  const Box block = layout.block(part, comm.rank());
  const auto n = static_cast<std::size_t>(all.extent(axis));
  std::vector<double> sums(2 * n);
  const auto *value = y[part].const_data_ptr<float>(), *mark = marks[part].const_data_ptr<float>();
  const std::int64_t rows = block.extent(1), columns = block.extent(2);
  for (std::int64_t k = 0; k < y[part].numel(); ++k) {
    if (mark[k] == 0) continue;
    const std::int64_t at = axis == 0   ? k / columns / rows % block.extent(0)
                            : axis == 1 ? k / columns % rows
                                        : k % columns;
    const auto line = static_cast<std::size_t>(block.lo()[axis] + at);
    sums[line] += static_cast<double>(value[k]);
    sums[n + line] += 1;
  }
  comm.all_reduce(sums, Reduce::sum);
  const double most = *std::max_element(sums.begin() + static_cast<std::ptrdiff_t>(n), sums.end());
  std::vector<double> means(n, NAN);
  for (std::size_t k = 0; k < n; ++k)
    if (2 * sums[n + k] >= most && most > 0) means[k] = sums[k] / sums[n + k];
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

}  // namespace

void warn_of_alternate_lines(const RunPlan& plan, const Measurement& y, const Measurement& marks,
                             Problem& problem, const Communicator& comm) {
  constexpr double kShows = 0.5;  // of the noise
  if (!in_image_range(plan) || problem.mosaic) return;
  const ProductSpace& layout = problem.A->range();
  const std::array<const char*, 3> words{"slice", "row", "column"};
  const std::string units = plan.factor == 1 ? "" : " in file units";
  for (std::size_t part = 0; part < y.size(); ++part) {
    const std::string of = y.size() > 1 ? fmt::format(", part {},", part) : "";
    std::vector<std::string> found;
    if (layout.part(part).box().extent(0) > 1) {
      const double by = turns(line_means(y, marks, layout, part, 0, comm), 1, 0);
      if (by > kShows * problem.noise_sigma)
        problem.warnings.push_back(
            fmt::format("every second slice of the measurement{} lies {:.3g}{} above those beside it "
                        "(channels, exposures or views "
                        "in turn, which are taken for one volume): give each kind as a volume of its own",
                        of, by * plan.factor, units));
    }
    for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
      const std::vector<double> means = line_means(y, marks, layout, part, axis, comm);
      for (const auto& [run, phase] : {std::pair<std::size_t, std::size_t>{1, 0}, {2, 0}, {2, 1}}) {
        const double by = turns(means, run, phase);
        if (!(by > kShows * problem.noise_sigma)) continue;
        found.push_back(fmt::format(
            "every second {}{}{} of the measurement{} lies {:.3g}{} above those beside it",
            run == 1 ? "" : "pair of ", words[axis], run == 1 ? "" : "s", of, by * plan.factor, units));
        break;
      }
    }
    if (found.size() == 1)
      problem.warnings.push_back(found[0] +
                                 " (two exposures or gains, or the fields of a video, which the result "
                                 "keeps): bring both kinds to one "
                                 "level, give their gain by problem.flat, or restore each by itself");
    else if (found.size() == 2)
      problem.warnings.push_back(
          found[0] + ", and " + found[1] +
          " (as the colors of a sensor's mosaic do): demosaic it, or separate the kinds, first");
  }
}

}  // namespace tessera
