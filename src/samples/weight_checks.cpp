// SPDX-License-Identifier: BSD-3-Clause
#include "weight_checks.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include "sample_checks.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/noise_estimate.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::size_t kFew = 17;  // values of flags

// How far samples lie from the median of their eight neighbors, and how many of these count.
struct Surroundings {
  std::vector<float> off, counted_off;           // of samples that do not count, and that do
  std::array<std::int64_t, 2> beside_counted{};  // neighbors that count, all neighbors, of samples that count
};

void look_around(const at::Tensor& y, const at::Tensor& marks, std::size_t i, const ProductSpace& layout,
                 const Communicator& comm, const std::shared_ptr<Transport>& transport, Surroundings& out) {
  const Layout own = layout.layout(i), need = own.grow({{0, 1, 1}, {0, 1, 1}});
  const std::int64_t channels = y.size(0);
  const Box block = own.box(comm.rank()), around = need.box(comm.rank());
  const at::Tensor known = y.isfinite();
  const at::Tensor all =
      at::cat({y.masked_fill(known.logical_not(), 0), marks, known.to(at::kFloat)}, 0).contiguous();
  const at::Tensor near = empty_block(3 * channels, around, at::kFloat, layout.part(i).space.axes);
  Exchange exchange(ExchangePlan(own, need, layout.part(i).box(), Border::zero, comm.rank()), transport,
                    3 * channels, ElementType::float32);
  exchange.begin(view(all, block), view(near, around)).wait();
  if (block.empty()) return;
  const std::int64_t slices = block.extent(0), rows = around.extent(1), columns = around.extent(2);
  const std::int64_t plane = rows * columns, kind = channels * slices * plane;
  const auto* const v = near.const_data_ptr<float>();
  std::vector<float> beside;
  for (std::int64_t p = 0; p < channels * slices; ++p)
    for (std::int64_t r = 1; r + 1 < rows; ++r)
      for (std::int64_t c = 1; c + 1 < columns; ++c) {
        const std::int64_t at = p * plane + r * columns + c;
        if (v[2 * kind + at] == 0) continue;
        const bool counts = v[kind + at] != 0;
        beside.clear();
        for (const std::int64_t step : {-columns - 1, -columns, -columns + 1, std::int64_t{-1},
                                        std::int64_t{1}, columns - 1, columns, columns + 1}) {
          if (v[2 * kind + at + step] == 0) continue;
          beside.push_back(v[at + step]);
          out.beside_counted[0] += counts && v[kind + at + step] != 0;
          out.beside_counted[1] += counts;
        }
        if (beside.size() < 3) continue;
        const auto middle = beside.begin() + static_cast<std::ptrdiff_t>(beside.size() / 2);
        std::nth_element(beside.begin(), middle, beside.end());
        (counts ? out.counted_off : out.off).push_back(std::abs(v[at] - *middle));
      }
}

// Ascending, without 0; more than kFew: they are no flags.
std::set<double> values_of(const Measurement& weights, double unit, const Communicator& comm) {
  std::set<double> mine;
  for (const at::Tensor& w : weights) {
    const auto* v = w.const_data_ptr<float>();
    for (std::int64_t k = 0; k < w.numel() && mine.size() <= kFew; ++k)
      if (v[k] != 0) mine.insert(static_cast<double>(v[k]) * unit);
  }
  std::set<double> all;
  for (double last = 0; all.size() <= kFew; all.insert(last)) {  // the next above the last, of all ranks
    const auto next = mine.upper_bound(last);
    double value = next == mine.end() ? INFINITY : *next;
    comm.all_reduce({&value, 1}, Reduce::min);
    if (value == INFINITY) break;
    last = value;
  }
  return all;
}

std::int64_t sum_of(std::int64_t n, const Communicator& comm) {
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return n;
}

std::int64_t above(const std::vector<float>& values, double limit, const Communicator& comm) {
  return sum_of(
      std::count_if(values.begin(), values.end(), [&](float v) { return static_cast<double>(v) > limit; }),
      comm);
}

}  // namespace

void refuse_flags(const Survey& survey, const Measurement& weights, const Measurement& y,
                  const Measurement& marks, const ProductSpace& layout, const Communicator& comm) {
  std::int64_t counted = 0, other = 0;  // samples that are numbers
  for (std::size_t i = 0; i < y.size(); ++i) {
    counted += marks[i].ne(0).sum().item().toLong();
    other += marks[i].eq(0).logical_and(y[i].isfinite()).sum().item().toLong();
  }
  counted = sum_of(counted, comm);
  other = sum_of(other, comm);
  if (counted >= other) return;
  const std::shared_ptr<Transport> transport = make_transport(comm, {}, TransportKind::mpi);
  Surroundings found;
  for (std::size_t i = 0; i < y.size(); ++i) look_around(y[i], marks[i], i, layout, comm, transport, found);
  constexpr double kOff = 10;  // times the middle one: 7 standard deviations
  const double usual = static_cast<double>(median(found.off, comm));
  const std::int64_t beside = sum_of(found.beside_counted[0], comm),
                     pairs = sum_of(found.beside_counted[1], comm);
  if (!(usual > 0) || 10 * beside > 6 * pairs)
    return;  // what does not count was filled, or what counts is a region
  const auto share = [&](const std::vector<float>& off) {
    const std::int64_t all = sum_of(std::ssize(off), comm), far = above(off, kOff * usual, comm);
    return all > 0 ? static_cast<double>(far) / static_cast<double>(all) : 0.0;
  };
  const double far = share(found.counted_off), usually = share(found.off);
  const std::set<double> values = weights.empty() ? std::set<double>() : values_of(weights, 1, comm);
  const bool flags = values.size() > 1 && values.size() <= kFew &&
                     std::all_of(values.begin(), values.end(), [](double v) { return v == std::floor(v); });
  const bool outliers = far >= 0.1 && far >= 10 * usually;
  if (!flags && !outliers) return;
  const std::string& file = survey.problem.weights;
  throw InputError(
      fmt::format("{} of {} samples count{}, and lie scattered among others that hold a picture; {:.0f} % of "
                  "them are outliers of "
                  "their neighbors, of the others {:.2g} % ({}{} say which samples are bad, as quality flags "
                  "do, of which 0 is good, "
                  "and masks of astropy; here 0 is not measured, not 0 is) write numpy.where(flags, 0, 1), "
                  "or (flags & BITS) == 0 "
                  "where some of the bits alone are of bad samples",
                  counted, counted + other,
                  flags ? fmt::format(" with weights of {:g}", fmt::join(values, ", ")) : std::string(),
                  100 * far, 100 * usually, weights.empty() ? "the marks of the mask" : "the weights",
                  file.empty() || weights.empty() ? "" : " " + file));
}

void refuse_few_heavy(const Survey& survey, const Measurement& weights, const Measurement& marks,
                      const Communicator& comm) {
  constexpr double kHeavy = 1e4;  // times the middle weight: a hundredth of the noise
  constexpr std::int64_t kOneIn = 10;
  std::vector<float> used;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto *w = weights[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
    for (std::int64_t k = 0; k < weights[i].numel(); ++k)
      if (m[k] != 0) used.push_back(w[k]);
  }
  const std::int64_t all = sum_of(std::ssize(used), comm);
  const double middle = static_cast<double>(median(used, comm));
  const std::int64_t heavy = above(used, kHeavy * middle, comm);
  double most = used.empty() ? 0 : static_cast<double>(*std::max_element(used.begin(), used.end()));
  comm.all_reduce({&most, 1}, Reduce::max);
  TESSERA_VALIDATE(
      heavy == 0 || heavy * kOneIn > all, heavy, " of ", all, " samples have a weight of up to ",
      fmt::format("{:.3g} times the middle one", most / middle), " (",
      survey.problem.weights.empty() ? survey.problem.measurements : survey.problem.weights,
      ": weights are inverse variances, and these would count alone; maps of standard deviations or "
      "variances mark bad "
      "samples so) write 0 there, and 1 / map^2 or 1 / map elsewhere; where they are meant so, say their "
      "level as well, "
      "by seen.noise");
}

std::optional<double> level_of_data(const Survey& survey, const Measurement& even, const Measurement& marks,
                                    double stated, Surveyed& seen, const Communicator& comm) {
  // What the finest details show is the noise and what texture adds: it may well be larger, hardly smaller.
  constexpr double kLess = 3, kMore = 10, kLine = 1.5, kLineMore = 3;
  NoiseEstimate e;
  try {
    e = estimate_noise(even, marks, seen.A->range(), comm);
  } catch (const InputError&) {
    return std::nullopt;  // too few samples, or none that differ
  }
  double found = e.sigma;
  if (e.gain > 0) {
    double sum = 0, n = 0;
    for (std::size_t i = 0; i < even.size(); ++i) {
      const at::Tensor used = even[i].masked_select(marks[i].ne(0));
      sum += used.numel() > 0 ? used.sum(at::kDouble).item().toDouble() : 0;
      n += static_cast<double>(used.numel());
    }
    std::array<double, 2> all{sum, n};
    comm.all_reduce(all, Reduce::sum);
    found = std::sqrt(found * found + e.gain * std::max(0.0, all[0] / all[1]));
  }
  if (!(found > 0) || !std::isfinite(found) || e.hidden > 0) return std::nullopt;
  const double ratio = stated / found;
  if (ratio > kLess || ratio * kMore < 1) return found;
  if (ratio > kLine || ratio * kLineMore < 1)
    seen.warnings.push_back(
        fmt::format("the weights say, as inverse variances, a noise of {:.3g} on average{}, the data show "
                    "{:.3g}{}: where the "
                    "weights are known up to a factor, as exposure times are, write 'noise: {{gaussian: "
                    "{:.3g}}}' in problem, the "
                    "level on average",
                    stated * survey.factor, survey.factor == 1 ? "" : " in file units", found * survey.factor,
                    ratio < 1 ? ", texture included" : "", found));
  return std::nullopt;
}

void warn_of_own_weights(const Measurement& weights, const Measurement& y, const Measurement& marks,
                         Surveyed& seen, const Communicator& comm) {
  constexpr std::int64_t kFewest = 200;
  constexpr double kSame = 0.99, kDifferent = 0.3,
                   kTurns = 0.45;  // of white noise two thirds of the steps turn
  std::array<std::int64_t, 5>
      n{};  // steps of samples, of these the weights' too, other way, the same way, turns
  for (std::size_t i = 0; i < y.size(); ++i) {
    const at::Tensor value = y[i].contiguous(), weight = weights[i].expand_as(y[i]).contiguous(),
                     mark = marks[i].contiguous();
    const float *v = value.const_data_ptr<float>(), *w = weight.const_data_ptr<float>(),
                *m = mark.const_data_ptr<float>();
    const std::int64_t columns = value.size(-1);
    for (std::int64_t k = 0; k + 2 < value.numel(); ++k) {
      if (k % columns + 2 >= columns || m[k] == 0 || m[k + 1] == 0 || m[k + 2] == 0 || v[k] == v[k + 1])
        continue;
      ++n[0];
      n[4] += (v[k + 1] - v[k]) * (v[k + 2] - v[k + 1]) < 0;
      if (w[k] == w[k + 1]) continue;
      ++n[1];
      ++n[(v[k] < v[k + 1]) == (w[k] > w[k + 1]) ? 2 : 3];
    }
  }
  comm.all_reduce(std::span<std::int64_t>(n), Reduce::sum);
  const auto of = [&](std::size_t k) { return static_cast<double>(n[k]); };
  if (n[1] < kFewest || of(1) < kDifferent * of(0) || of(4) < kTurns * of(0) ||
      std::max(of(2), of(3)) < kSame * of(1))
    return;
  seen.warnings.push_back(fmt::format(
      "the weights are a function of each sample itself (of {:.4g} % of neighbors the brighter one weighs "
      "{}, noise and "
      "all: {}) of counts leave problem.weights out, or write 'noise: {{poisson: 1, unit: file}}', else "
      "take the weights from a smoothed measurement",
      100 * std::max(of(2), of(3)) / of(1), n[2] > n[3] ? "less" : "more",
      n[2] > n[3] ? "1 / max(counts, 1) prefers what noise has made dark, and the result is too dark"
                  : "what noise has made bright is preferred, and the result is too bright"));
}

}  // namespace tessera
