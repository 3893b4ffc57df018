// SPDX-License-Identifier: BSD-3-Clause
// A boundary that is said to be circular, held against the data.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "sample_checks.hpp"

namespace tessera {
namespace {

// The first, second, last but one and last line of samples along an axis, whole, and what of them counts.
struct EdgeLines {
  std::vector<double> values, counts;  // line after line
  std::size_t length = 0;

  // Mean difference of two of them where all four count; negative: nowhere.
  double apart(std::size_t a, std::size_t b) const {
    double sum = 0, n = 0;
    for (std::size_t k = 0; k < length; ++k) {
      if (counts[k] * counts[length + k] * counts[2 * length + k] * counts[3 * length + k] == 0) continue;
      sum += std::abs(values[a * length + k] - values[b * length + k]);
      n += 1;
    }
    return n > 0 ? sum / n : -1;
  }
};

EdgeLines edge_lines_of(const at::Tensor& y, const at::Tensor& marks, const Box& all, const Box& block,
                        std::size_t axis, const Communicator& comm) {
  const std::size_t other = 3 - axis;
  const std::int64_t planes = all.extent(0) * y.size(0), across = all.extent(other), n = all.extent(axis);
  EdgeLines ends;
  ends.length = static_cast<std::size_t>(planes * across);
  ends.values.resize(4 * ends.length);
  ends.counts.resize(4 * ends.length);
  const at::Tensor v = y.contiguous(), m = marks.contiguous();
  const auto *value = v.const_data_ptr<float>(), *mark = m.const_data_ptr<float>();
  const std::array<std::int64_t, 4> places{0, 1, n - 2, n - 1};
  for (std::size_t line = 0; line < 4 && !block.empty(); ++line) {
    const std::int64_t at = places[line] - block.lo()[axis];
    if (at < 0 || at >= block.extent(axis)) continue;
    for (std::int64_t p = 0; p < y.size(0) * block.extent(0); ++p)
      for (std::int64_t k = 0; k < block.extent(other); ++k) {
        const std::int64_t row = axis == 1 ? at : k, column = axis == 1 ? k : at;
        const std::int64_t from = (p * block.extent(1) + row) * block.extent(2) + column;
        const std::int64_t plane = p / block.extent(0) * all.extent(0) + block.lo()[0] + p % block.extent(0);
        const auto to = line * ends.length + static_cast<std::size_t>(plane * across + block.lo()[other] + k);
        if (mark[from] == 0) continue;
        ends.values[to] = static_cast<double>(value[from]);
        ends.counts[to] = 1;
      }
  }
  comm.all_reduce(ends.values, Reduce::sum);
  comm.all_reduce(ends.counts, Reduce::sum);
  return ends;
}

}  // namespace

// Under a circular boundary the last line goes on with the first: they differ little more than lines beside them.
void leave_out_seam(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                    const Communicator& comm) {
  constexpr double kApart = 6;
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t i = 0; i < stored.size() && i < survey.parts.size(); ++i) {
    if (survey.parts[i].boundary != "circular") continue;
    for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
      const Box& all = layout.part(i).box();
      const Box block = layout.block(i, comm.rank());
      const std::int64_t n = all.extent(axis);
      if (n < 8) continue;
      const EdgeLines ends = edge_lines_of(stored[i], marks[i], all, block, axis, comm);
      const double seam = ends.apart(3, 0), beside = (ends.apart(0, 1) + ends.apart(2, 3)) / 2;
      if (seam <= kApart * beside) continue;
      const char* lines = axis == 1 ? "rows" : "columns";
      const std::string apart = fmt::format(
          "the first and the last {} of the measurement do not meet: they differ by {:.3g} on average, those "
          "beside them by {:.3g} (boundary circular says that the image goes on from one to the other)",
          lines, seam * survey.factor, beside * survey.factor);
      const auto& kernel = traits.parts[i].convolution;
      if (!kernel || kernel->decimates()) {
        seen.warnings.push_back(apart + ": write 'boundary: valid', which assumes nothing");
        continue;
      }
      // Sample k sees pixels k + origin - tap.
      const std::int64_t taps = kernel->taps.size(static_cast<std::int64_t>(axis) + 1),
                         origin = kernel->origin[axis];
      const std::int64_t first = std::min(n, std::max<std::int64_t>(0, taps - 1 - origin)),
                         last = std::max<std::int64_t>(first, n - std::max<std::int64_t>(0, origin));
      if (last - first < n / 4) {  // hardly anything would be left
        seen.warnings.push_back(apart + ": write 'boundary: valid', which assumes nothing");
        continue;
      }
      if (!block.empty()) {
        const auto side = static_cast<std::int64_t>(axis) - 3;
        const std::int64_t lo = block.lo()[axis] - all.lo()[axis], length = block.extent(axis);
        if (first > lo) marks[i].narrow(side, 0, std::min(first - lo, length)).zero_();
        if (last < lo + length) {
          const std::int64_t from = std::max<std::int64_t>(0, last - lo);
          marks[i].narrow(side, from, length - from).zero_();
        }
      }
      seen.warnings.push_back(
          fmt::format("{}: the {} {} whose kernel reaches across count 0, which is as good as 'boundary: "
                      "valid'; write that",
                      apart, first + n - last, lines));
    }
  }
}

}  // namespace tessera
