// SPDX-License-Identifier: BSD-3-Clause
#include "mark_sense.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "tessera/comm/exchange.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kAside = 4;                             // samples around one that are asked, 9 x 9
constexpr std::size_t kAskedLeast = 12, kOwnLeast = 5;         // of them
constexpr std::int64_t kLooked = 500'000, kFewestOfKind = 40;  // samples of a kind that are looked at
constexpr double kFarOff = 3, kNarrowRange = 0.5,
                 kWhiteRange = 4;      // of distances, ranges, ranges to distances
constexpr double kRangeOfPicture = 2;  // range of a picture to distances

// Samples of one kind beside those of another, the rest of the picture.
struct Beside {
  std::vector<float> off, rest_off, own_off;  // from the median of the rest around; of its own kind
  std::vector<float> values, rest_values;
  std::int64_t samples = 0;

  std::vector<float> compared;  // the values whose distances are in `off`

  // Whether they, or a part of them where marks are wider than what they mark, are no part of what the rest shows.
  bool foreign(const Communicator& comm);
  double times = 0;  // further off than the rest is from itself
};

double range_of_middle(const std::vector<float>& values, const Communicator& comm) {
  const std::int64_t n = count_values(values, comm);
  return n < kFewestOfKind ? 0
                           : static_cast<double>(order_statistic(values, n * 4 / 5, comm)) -
                                 static_cast<double>(order_statistic(values, n / 5, comm));
}

bool Beside::foreign(const Communicator& comm) {
  constexpr double kCore = 0.25, kUsually = 0.1;  // shares that are far off, and of the rest
  samples = count_values(values, comm);
  const std::int64_t n = count_values(off, comm), rests = count_values(rest_off, comm);
  if (n < kFewestOfKind || rests < kFewestOfKind) return false;
  const auto usual = static_cast<double>(median(rest_off, comm)),
             own = static_cast<double>(median(own_off, comm));
  const double rest = range_of_middle(rest_values, comm);
  if (!(usual > 0) || rest <= kRangeOfPicture * usual) return false;  // the rest was filled, or is noise
  times = static_cast<double>(median(off, comm)) / usual;
  const double range = range_of_middle(values, comm);
  if (times > kFarOff) return range < kNarrowRange * rest || range < kWhiteRange * own;
  const auto far =
      std::max(kFarOff * usual,
               static_cast<double>(order_statistic(
                   rest_off, static_cast<std::int64_t>((1 - kUsually) * static_cast<double>(rests)), comm)));
  std::vector<float> core, core_off;
  for (std::size_t k = 0; k < off.size(); ++k)
    if (static_cast<double>(off[k]) > far) core.push_back(compared[k]), core_off.push_back(off[k]);
  if (static_cast<double>(count_values(core, comm)) < kCore * static_cast<double>(n)) return false;
  times = static_cast<double>(median(core_off, comm)) / usual;
  return range_of_middle(core, comm) < kNarrowRange * rest;
}

// The median of the samples of a kind in a part of the 9 x 9 around a place, without its own; NaN: they are too few.
struct Window {
  std::int64_t top = -kAside, bottom = kAside, left = -kAside, right = kAside;
};
float middle_around(const float* y, const float* kind, std::int64_t at, std::int64_t columns,
                    const Window& window, std::size_t least, std::vector<float>& room) {
  room.clear();
  for (std::int64_t r = window.top; r <= window.bottom; ++r)
    for (std::int64_t c = window.left; c <= window.right; ++c)
      if (const std::int64_t k = at + r * columns + c; k != at && kind[k] != 0) room.push_back(y[k]);
  if (room.size() < least) return NAN;
  const auto middle = room.begin() + std::ssize(room) / 2;
  std::nth_element(room.begin(), middle, room.end());
  return *middle;
}

// How far a sample of the rest is from the rest at one side of it, on average over four: others are asked from one side
// too, and what rises or falls is farther from there.
float from_one_side(const float* y, const float* rest, std::int64_t at, std::int64_t columns,
                    std::vector<float>& room) {
  float sum = 0, n = 0;
  for (const Window& side : {Window{.bottom = -1}, Window{.top = 1}, Window{.right = -1}, Window{.left = 1}})
    if (const float m = middle_around(y, rest, at, columns, side, kAskedLeast, room); !std::isnan(m)) {
      sum += std::abs(y[at] - m);
      n += 1;
    }
  return n > 0 ? sum / n : NAN;
}

void compare_kinds(const at::Tensor& y, const at::Tensor& kind, const at::Tensor& rest, std::size_t i,
                   const ProductSpace& layout, const Communicator& comm,
                   const std::shared_ptr<Transport>& transport, std::int64_t every, Beside& out) {
  const Layout own = layout.layout(i), need = own.grow({{0, kAside, kAside}, {0, kAside, kAside}});
  const std::int64_t channels = y.size(0);
  const Box block = own.box(comm.rank()), around = need.box(comm.rank());
  const at::Tensor all = at::cat({y.masked_fill(y.isfinite().logical_not(), 0), kind, rest}, 0).contiguous();
  const at::Tensor near = empty_block(3 * channels, around, at::kFloat, layout.part(i).space.axes);
  Exchange exchange(ExchangePlan(own, need, layout.part(i).box(), Border::zero, comm.rank()), transport,
                    3 * channels, ElementType::float32);
  exchange.begin(view(all, block), view(near, around)).wait();
  if (block.empty()) return;
  const std::int64_t rows = around.extent(1), columns = around.extent(2), plane = rows * columns,
                     planes = channels * block.extent(0);
  const auto *const v = near.const_data_ptr<float>(), *const some = v + planes * plane,
                    *const others = some + planes * plane;
  std::vector<float> room;
  for (std::int64_t p = 0; p < planes; ++p)
    for (std::int64_t r = kAside; r + kAside < rows; ++r)
      for (std::int64_t c = kAside; c + kAside < columns; ++c) {
        const std::int64_t at = p * plane + r * columns + c;
        const bool is = some[at] != 0;
        if (!is && others[at] == 0) continue;
        (is ? out.values : out.rest_values).push_back(v[at]);
        if ((around.lo()[1] + r + around.lo()[2] + c) % every != 0) continue;
        if (!is) {
          if (const float off = from_one_side(v, others, at, columns, room); !std::isnan(off))
            out.rest_off.push_back(off);
          continue;
        }
        if (const float m = middle_around(v, others, at, columns, {}, kAskedLeast, room); !std::isnan(m)) {
          out.off.push_back(std::abs(v[at] - m));
          out.compared.push_back(v[at]);
        }
        if (const float m = middle_around(v, some, at, columns, {}, kOwnLeast, room); !std::isnan(m))
          out.own_off.push_back(std::abs(v[at] - m));
      }
}

Beside beside(const Measurement& y, const Measurement& kind, const Measurement& rest,
              const ProductSpace& layout, const Communicator& comm) {
  const std::shared_ptr<Transport> transport = make_transport(comm, {}, TransportKind::mpi);
  const std::int64_t every = 1 + layout.values() / kLooked;
  Beside out;
  for (std::size_t i = 0; i < y.size(); ++i)
    compare_kinds(y[i], kind[i], rest[i], i, layout, comm, transport, every, out);
  return out;
}

// How many samples have each weight above 0, of all ranks; empty where these are no few whole numbers.
std::map<double, std::int64_t> whole_weights(const Measurement& weights, const Communicator& comm) {
  constexpr std::size_t kMost = 17;
  constexpr double kLargest = 4294967296;
  std::map<double, std::int64_t> mine;
  double bad = 0;
  for (const at::Tensor& w : weights) {
    const auto* v = w.const_data_ptr<float>();
    for (std::int64_t k = 0; k < w.numel() && bad == 0; ++k) {
      const auto value = static_cast<double>(v[k]);
      if (value == 0) continue;
      if (value != std::floor(value) || value > kLargest) bad = 1;
      ++mine[value];
      if (mine.size() > kMost) bad = 1;
    }
  }
  comm.all_reduce({&bad, 1}, Reduce::max);
  std::map<double, std::int64_t> all;
  for (double last = 0; bad == 0;) {
    const auto next = mine.upper_bound(last);
    double value = next == mine.end() ? INFINITY : next->first;
    comm.all_reduce({&value, 1}, Reduce::min);
    if (value == INFINITY) return all;
    std::int64_t n = mine.contains(value) ? mine[value] : 0;
    comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
    all[last = value] = n;
    if (all.size() > kMost) break;
  }
  return {};
}

Measurement equal_to(const Measurement& weights, double value, const Measurement& marks) {
  Measurement out;
  for (std::size_t i = 0; i < weights.size(); ++i)
    out.push_back(weights[i].eq(value).to(at::kFloat).mul(marks[i]).contiguous());
  return out;
}

}  // namespace

void refuse_marked_flaws(const Survey& survey, const Measurement& y, const Measurement& marks,
                         const ProductSpace& layout, const Communicator& comm) {
  if (!survey.in_image_range()) return;
  Measurement rest;
  std::array<std::int64_t, 2> n{};
  for (std::size_t i = 0; i < y.size(); ++i) {
    rest.push_back(marks[i].eq(0).logical_and(y[i].isfinite()).to(at::kFloat).contiguous());
    n[0] += marks[i].ne(0).sum().item().toLong();
    n[1] += rest[i].ne(0).sum().item().toLong();
  }
  comm.all_reduce(n, Reduce::sum);
  if (n[0] >= n[1]) return;
  Beside found = beside(y, marks, rest, layout, comm);
  if (!found.foreign(comm)) return;
  throw InputError(fmt::format(
      "{} of {} samples count, and are {:.0f} times as far from the others around them as these are from "
      "each "
      "other, with little range of their own (they look like scratches or writing on a picture, which does "
      "not "
      "count: the mask or the weights mark what is missing, where 0 is not measured and not 0 is) exchange "
      "the "
      "two in the file, as numpy.where(marks, 0, 1); where the others hold nothing, make them NaN",
      n[0], n[0] + n[1], found.times));
}

bool refuse_class_codes(const Survey& survey, const Measurement& weights, const Measurement& y,
                        const Measurement& marks, Surveyed& seen, const Communicator& comm) {
  constexpr double kMuchLess = 0.1, kAlike = 1.1, kCodes = 256;
  if (weights.empty() || !survey.in_image_range()) return false;
  const std::map<double, std::int64_t> values = whole_weights(weights, comm);
  if (values.size() < 2) return false;
  const auto most = std::max_element(values.begin(), values.end(), [](const auto& a, const auto& b) {
                      return a.second < b.second;
                    })->first;
  const double least = values.begin()->first, largest = values.rbegin()->first;
  std::vector<double> listed;
  for (const auto& [value, count] : values) listed.push_back(value);
  const std::string what = fmt::format("problem.weights {} has the values {:.10g}", survey.problem.weights,
                                       fmt::join(listed, ", ")),
                    cure = fmt::format(
                        "write 1 where the code is a good one and 0 elsewhere, for example "
                        "(codes == {:.10g}), or (codes & BITS) == 0",
                        most);
  bool doubtful = false;
  const Measurement usual = equal_to(weights, most, marks);
  for (const double value : listed) {
    if (value == most || value < kMuchLess * most) continue;
    Beside found = beside(y, equal_to(weights, value, marks), usual, seen.A->range(), comm);
    if (!found.foreign(comm)) continue;
    const std::string odd = fmt::format(
        "{}, and the {} samples of {:.10g} are {:.0f} times as far from those of {:.10g} around them as "
        "these are "
        "from each other (codes of classes or quality, it seems: weights are inverse variances, by which "
        "these count "
        "{:.3g} times as much)",
        what, found.samples, value, found.times, most, value / most);
    // What is another picture may well count less, as a few short exposures of something bright do.
    const bool meant = value < most || survey.problem.noise.gaussian > 0;
    TESSERA_VALIDATE(meant, odd, " ", cure,
                     "; where they are meant so, say their level as well, by problem.noise");
    seen.warnings.push_back(odd + " if they are codes, " + cure);
    doubtful = true;
  }
  if (doubtful) return true;
  if (least >= kCodes && largest < kAlike * least)
    seen.warnings.push_back(what + ", which as inverse variances are next to the same: if they are codes, " +
                            cure);
  else
    seen.notices.push_back(
        what + ": they are taken for weights, as numbers of exposures are; if they are codes, " + cure);
  return false;
}

}  // namespace tessera
