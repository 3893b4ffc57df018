// SPDX-License-Identifier: BSD-3-Clause
#include "sample_checks.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/samples/marks.hpp"
#include "tessera/samples/noise_estimate.hpp"
#include "tessera/samples/order_statistics.hpp"
#include "tessera/samples/repeats.hpp"
#include "tessera/samples/weigh_samples.hpp"

namespace tessera {
namespace {

constexpr double kDim = 0.125;             // of the range: what brighter data should fill
constexpr double kBeyond = 0.5;            // of the range, below 0 or above 1: more than noise and edges take
constexpr double kNear = 0.01;             // of the data's range, beside an end
constexpr std::int64_t kPile = 5;          // samples at an end that are no chance
constexpr std::int64_t kHighlights = 200;  // one in so many, of 8 bits
constexpr double kFaint = 1e-3;            // noise, of the range: networks saw hardly any of less

// Calls visit(value) for each sample that counts.
template <class Visit>
void each_counted(const Measurement& parts, const Measurement& marks, Visit visit) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto *v = parts[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
    for (std::int64_t k = 0, n = parts[i].numel(); k < n; ++k)
      if (m[k] != 0) visit(static_cast<double>(v[k]));
  }
}

}  // namespace

std::array<double, 2> range_of(const Measurement& parts, const Measurement& marks, const Communicator& comm) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::array<double, 2> ends{kNone, kNone};
  each_counted(parts, marks, [&](double v) {
    ends[0] = std::max(ends[0], -v);
    ends[1] = std::max(ends[1], v);
  });
  comm.all_reduce(ends, Reduce::max);
  return {-ends[0], ends[1]};
}

void mark_weights(Measurement& weights, Surveyed& seen, const Communicator& comm) {
  if (weights.empty()) return;
  const MarkValues values = survey_marks(
      [&](const auto& take) {
        for (const at::Tensor& w : weights) {
          const at::Tensor values = w.to(at::kDouble);
          take(values.const_data_ptr<double>(), values.numel());
        }
      },
      comm);
  const std::optional<MarkRule> mask = rule_of_weights(values);
  if (!mask) return;
  seen.notices.push_back(mask->note);
  for (at::Tensor& w : weights) {
    float* v = w.data_ptr<float>();
    std::transform(v, v + w.numel(), v, [&](float x) { return mask->marks(x) ? 1.0F : 0.0F; });
  }
}

void refuse_inverted(const Survey& survey, const Measurement& y, const Measurement& marks,
                     const Communicator& comm) {
  const auto [least, most] = range_of(y, marks, comm);
  if (least != most) return;
  Measurement others;
  for (std::size_t i = 0; i < y.size(); ++i)
    others.push_back(marks[i].eq(0).logical_and(y[i].isfinite()).to(at::kFloat).contiguous());
  const auto [low, high] = range_of(y, others, comm);
  const auto file = [&](double v) { return v * survey.factor + survey.offset; };
  TESSERA_VALIDATE(
      !(low < high), "all samples that count have the value ", file(least),
      " while those that do not go from ", file(low), " to ", file(high),
      " (the mask or the weights mark what is missing: 0 is not measured, not 0 is) exchange the two "
      "in the file");
}

namespace {

// Parts of one value beside others that have noise.
void warn_of_empty_areas(const Survey& survey, const Measurement& y, const Measurement& marks,
                         std::array<double, 2> said, Surveyed& seen, const Communicator& comm) {
  constexpr std::int64_t kOneIn = 200;  // samples: what is less changes little
  const Repeats repeats = find_repeats(y, marks, seen.A->range(), comm);
  if (!empty_areas(repeats, seen.noise_sigma)) return;
  std::int64_t all = 0;
  for (const at::Tensor& m : marks) all += m.count_nonzero().item().toLong();
  comm.all_reduce(std::span<std::int64_t>(&all, 1), Reduce::sum);
  for (const Repeats::Area& area : repeats.areas) {
    const double value = area.value;
    if (area.samples * kOneIn < all || value == said[0] || value == said[1]) continue;
    if (value <= 0 && survey.may_be_zero(seen.noise, value)) continue;
    seen.warnings.push_back(fmt::format(
        "the measurement has {} samples ({:.1f} %) of exactly {:.6g} side by side, without noise (they look "
        "empty, and count as data): give them weight 0 by problem.weights, or make them NaN",
        area.samples, 100 * static_cast<double>(area.samples) / static_cast<double>(all),
        value * survey.factor + survey.offset));
  }
}

}  // namespace

namespace {

// How much of an image's finest details, those that estimate_noise() looks at, a kernel lets through: the ratio of
// deviations for an image of white noise; details are those within slices. The largest of the channels.
double passes_details(const at::Tensor& taps) {
  constexpr std::array<double, 5> kFourth{1, -4, 6, -4, 1};
  constexpr double kSquares = 70;
  const at::Tensor t = taps.to(at::kCPU, at::kDouble).contiguous();
  const std::int64_t slices = t.size(1), rows = t.size(2), columns = t.size(3);
  double largest = 0;
  for (std::int64_t c = 0; c < t.size(0); ++c) {
    double squares = 0;
    for (std::int64_t n = 0; n < slices * (rows + 4); ++n)
      for (std::int64_t x = 0; x < columns + 4; ++x) {
        const double* const v = t.const_data_ptr<double>() + (c * slices + n / (rows + 4)) * rows * columns;
        const std::int64_t y = n % (rows + 4);
        double sum = 0;
        for (std::int64_t i = std::max<std::int64_t>(0, y - rows + 1); i <= std::min<std::int64_t>(4, y); ++i)
          for (std::int64_t j = std::max<std::int64_t>(0, x - columns + 1); j <= std::min<std::int64_t>(4, x);
               ++j)
            sum += kFourth[static_cast<std::size_t>(i)] * kFourth[static_cast<std::size_t>(j)] *
                   v[(y - i) * columns + x - j];
        squares += sum * sum;
      }
    largest = std::max(largest, std::sqrt(squares) / kSquares);
  }
  return largest;
}

// Values of all samples that count, on all ranks.
struct Counted {
  double least = 0, most = 0, near = 0;  // near: what is next to an end of the range
  std::int64_t all = 0, bright = 0, brightest = 0, beyond = 0;
  std::int64_t at_least = 0, near_least = 0, at_most = 0, near_most = 0;
};

Counted count_values(const Survey& survey, const Measurement& y, const Measurement& marks,
                     const Communicator& comm) {
  Counted n;
  const auto [least, most] = range_of(y, marks, comm);
  n.least = least;
  n.most = most;
  std::array<double, 1> fraction{};  // largest distance from a whole number, file units
  each_counted(y, marks, [&](double v) {
    const double file = v * survey.factor + survey.offset;
    fraction[0] = std::max(fraction[0], std::abs(file - std::round(file)) / std::max(1.0, std::abs(file)));
  });
  comm.all_reduce(fraction, Reduce::max);
  const bool whole = fraction[0] < 1e-6;
  n.near = std::max(kNear * (n.most - n.least), whole ? 2.5 / survey.factor : 0);
  each_counted(y, marks, [&n](double v) {
    ++n.all;
    n.bright += v > kDim;
    n.brightest += v > kDim * n.most;
    n.beyond += v < -kBeyond || v > 1 + kBeyond;
    n.at_least += v == n.least;
    n.near_least += v != n.least && v < n.least + n.near;
    n.at_most += v == n.most;
    n.near_most += v != n.most && v > n.most - n.near;
  });
  std::array<std::int64_t, 8> counts{n.all,      n.bright,     n.brightest, n.beyond,
                                     n.at_least, n.near_least, n.at_most,   n.near_most};
  comm.all_reduce(counts, Reduce::sum);
  std::tie(n.all, n.bright, n.brightest, n.beyond, n.at_least, n.near_least, n.at_most, n.near_most) =
      std::tuple_cat(counts);
  return n;
}

std::string in_file_units(const Survey& survey, double v) {
  const double apart = std::abs(survey.offset) / std::abs(survey.factor);  // digits that the offset takes
  const int digits = 6 + (apart > 1 ? std::min(9, static_cast<int>(std::log10(apart))) : 0);
  return fmt::format("{:.{}g}", v * survey.factor + survey.offset, digits);
}

double percent(std::int64_t part, std::int64_t all) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

// That the samples lie so far from what is 0 inside that float32 has few steps in their range.
void warn_of_steps(const Survey& survey, const Counted& n, Surveyed& seen) {
  const double size = std::max(std::abs(n.least), std::abs(n.most)), range = n.most - n.least;
  if (!(range > 0) || size <= 2 || range >= size * 0x1p-14) return;
  seen.warnings.push_back(fmt::format(
      "the measurement lies far from what is 0, between {:.15g} and {:.15g} in file units "
      "(float32 has steps of {:.3g} "
      "there, to which differences are rounded): write 'offset: {:.15g}' in problem.scale, and "
      "its range as factor",
      n.least * survey.factor + survey.offset, n.most * survey.factor + survey.offset,
      std::ldexp(1.0, std::ilogb(size) - 23) * survey.factor, n.least * survey.factor + survey.offset));
}

// By measurement (docs/defaults.md): above such a noise, of the brightest sample, richardson_lucy is worse than a network
// where the kernel is narrow; below it 3 to 30 dB better on star fields.
constexpr double kStarry = 2e-3;

// Whether richardson_lucy can be run, or could where the gain is known: counts none of which lies below what it takes
// for 0, and a kernel that is not negative.
bool may_be_counts(const Survey& survey, const Counted& n, const Surveyed& seen) {
  const NoiseModel& noise = seen.noise;
  const double zero = noise.poisson > 0 ? noise.gaussian * noise.gaussian / noise.poisson : 0;
  return survey.data.type != "uint8" && survey.problem.likelihood.type == "gaussian" && n.least + zero >= 0 &&
         seen.A->traits().not_negative && seen.ends.empty();
}

// Few samples far above all others. A few hot pixels are none.
void look_for_stars(const Survey& survey, const Counted& n, Surveyed& seen) {
  // Drawn star fields have up to 5 %, fluorescence from 22 % on.
  const bool few = n.brightest >= kPile && n.brightest * 10'000 >= n.all && n.brightest * 20 < n.all;
  if (!survey.in_image_range() || !survey.network || !survey.chosen.prior || !few) return;
  const bool blurred =
      std::ranges::all_of(survey.parts, [](const Survey::Part& part) { return part.kernel; });
  FewBright found{.seen = fmt::format(
                      "{:.2g} % of the samples lie above an eighth of the brightest, {}, and the noise is "
                      "{:.2g} of it, {:.3g} in file units",
                      percent(n.brightest, n.all), in_file_units(survey, n.most), seen.noise_sigma / n.most,
                      seen.noise_sigma * survey.factor),
                  .faint = seen.noise_sigma < kFaint * n.most && n.brightest * 100 < n.all,
                  .least = kFaint,
                  .starry = !survey.parts.empty() && blurred && seen.noise_sigma < kStarry * n.most &&
                            may_be_counts(survey, n, seen),
                  .gain_known = seen.noise.poisson > 0};
  if (found.faint || found.starry) seen.few_bright = std::move(found);
}

constexpr std::int64_t kOneInEnds = 10'000;  // samples lies beyond an end

// Between what nearly all samples lie.
std::array<double, 2> usual_ends(const Counted& n, const Measurement& y, const Measurement& marks,
                                 const Communicator& comm) {
  std::vector<float> values;
  each_counted(y, marks, [&](double v) { values.push_back(static_cast<float>(v)); });
  const std::int64_t beyond = n.all / kOneInEnds;
  const float low = order_statistic(values, beyond, comm),
              high = order_statistic(values, n.all - 1 - beyond, comm);
  return {static_cast<double>(low), static_cast<double>(high)};
}

// The same, where that is little of the range and far above 0.
std::optional<std::array<double, 2>> narrow_ends(const Survey& survey, const Counted& n, const Measurement& y,
                                                 const Measurement& marks, const Communicator& comm) {
  if (!survey.in_image_range() || n.bright * kOneInEnds < n.all) return std::nullopt;
  const auto [low, high] = usual_ends(n, y, marks, comm);
  if (low < kDim || high - low >= kDim || !(low < high)) return std::nullopt;
  return std::array{low, high};
}

// That the samples fill little of the range that networks know, or leave it.
void warn_of_range(const Survey& survey, const Counted& n, const Measurement& y, const Measurement& marks,
                   Surveyed& seen, const Communicator& comm) {
  const auto file = [&](double v) { return in_file_units(survey, v); };
  const auto warn = [&](const std::string& text) { seen.warnings.push_back("the measurement " + text); };
  const bool in_range = survey.in_image_range();  // 0 is what a ray beside the object has
  look_for_stars(survey, n, seen);
  if (seen.few_bright) return;
  if (in_range && n.bright * 10'000 < n.all)
    warn(
        fmt::format("fills little of the range: all but one sample in 10,000 stay below {}, an eighth of it "
                    "(largest {}); networks are trained on all of it: write 'factor: data' in problem.scale",
                    file(kDim), file(n.most)));
  else if (in_range && survey.network && n.bright * 100 < n.all && seen.noise_sigma < kFaint)
    warn(fmt::format(
        "has few bright samples far above its noise: {:.2g} % lie above {}, an eighth of the range, and the "
        "noise is "
        "{:.2g} of it, {:.3g} in file units (networks are trained on pictures that fill the range, with "
        "noise "
        "above {}, and may leave marks beside the bright samples): of stars in counts 'name: "
        "richardson_lucy, "
        "iterations: 100' in solver makes 3 dB more, of others 'network: tv' in denoiser may",
        percent(n.bright, n.all), file(kDim), seen.noise_sigma, seen.noise_sigma * survey.factor, kFaint));
  else if (const auto ends = narrow_ends(survey, n, y, marks, comm))
    warn(fmt::format(
        "fills little of the range: all but one sample in 10,000 lie between {} and {}, less than an eighth "
        "of it; "
        "networks are trained on all of it: write 'offset: {}, factor: {:.6g}' in problem.scale",
        file((*ends)[0]), file((*ends)[1]), file((*ends)[0]), ((*ends)[1] - (*ends)[0]) * survey.factor));
  // Whole numbers of 16 bits that are read with a sign: those from 32768 on come out below 0.
  const bool wrapped = survey.data.type == "int16" && n.least * survey.factor + survey.offset < -16384 &&
                       n.most * survey.factor + survey.offset > 16384;
  if (!in_range || n.beyond * 1000 <= n.all) return;
  std::string cure = "say problem.scale";
  if (wrapped) {
    cure =
        "they are probably uint16 in a file of int16, as BigDataViewer keeps them: write them as what they "
        "are, a.view('uint16')";
  } else if (n.beyond * 20 > n.all) {  // not a few wild ones
    const auto [low, high] = usual_ends(n, y, marks, comm);
    cure = fmt::format("write 'offset: {}, factor: {:.6g}' in problem.scale", file(low),
                       (high - low) * survey.factor);
  }
  warn(
      fmt::format("leaves the range: {:.3g} % of the samples are far outside of {} to {}, which are 0 and 1 "
                  "inside (they reach {} to {}): {}",
                  percent(n.beyond, n.all), file(0), file(1), file(n.least), file(n.most), cure));
}

// Samples that pile up at an end of the range; which ends were spoken of, NaN where none was.
std::array<double, 2> warn_of_piles(const Survey& survey, const Counted& n, Surveyed& seen,
                                    const Communicator& comm) {
  const auto warn = [&](const std::string& text) { seen.warnings.push_back("the measurement " + text); };
  std::array<double, 2> said{NAN, NAN};
  // A finished photograph clips its highlights and shadows; of a detector a few samples are worth a line.
  const std::int64_t pile = survey.data.type == "uint8" ? std::max(kPile, n.all / kHighlights) : kPile;
  const auto clipped = [&](int end) {
    return std::any_of(seen.ends.begin(), seen.ends.end(),
                       [&](const at::Tensor& t) { return t.eq(end).any().item().toBool(); });
  };
  if (!seen.ends.empty()) {  // said already
    std::array<std::int64_t, 2> ends{clipped(-1), clipped(1)};
    comm.all_reduce(ends, Reduce::max);
    if (ends[0]) said[0] = n.least;
    if (ends[1]) said[1] = n.most;
  }
  if (std::isnan(said[1]) && n.at_most >= pile && n.at_most > n.near_most) {
    said[1] = n.most;
    warn(
        fmt::format("has {} samples at its largest value, {}, and {} near it (they look saturated, and count "
                    "as data): write 'saturation: {:.5g}' in problem, or give them weight 0",
                    n.at_most, in_file_units(survey, n.most), n.near_most, n.most - n.near / 2));
  }
  const bool beside = !survey.in_image_range() && n.least == 0;
  if (std::isnan(said[0]) && n.at_least >= pile && n.at_least > n.near_least && !beside &&
      !survey.may_be_zero(seen.noise, n.least)) {
    said[0] = n.least;
    warn(fmt::format(
        "has {} samples at its smallest value, {}, and {} near it (they look dead or clipped, and "
        "count as data): give dead ones weight 0 by problem.weights",
        n.at_least, in_file_units(survey, n.least), n.near_least));
  }
  return said;
}

}  // namespace

const Convolution* picture_kernel(const OperatorTraits& traits, const ProductSpace& layout,
                                  std::size_t part) {
  if (part >= traits.parts.size() || layout.part(part).box().extent(0) != 1) return nullptr;
  const std::optional<Convolution>& kernel = traits.parts[part].convolution;
  return kernel && !kernel->decimates() && kernel->taps.size(1) == 1 ? &*kernel : nullptr;
}

void mark_ends(const Survey& survey, const Measurement& stored, const Measurement& marks, Surveyed& seen,
               const Communicator& comm) {
  constexpr std::int64_t kOneIn = 1000;  // of floats, which have no ends of their own
  const ProblemConfig& p = survey.problem;
  if (p.clipping == "data" || p.likelihood.type != "gaussian" || !survey.in_image_range() ||
      !p.dark.empty() || !p.flat.empty())
    return;
  const Counted n = count_values(survey, stored, marks, comm);
  if (!(n.least < n.most)) return;
  const bool whole = survey.data.type.find("int") != std::string::npos;
  const std::int64_t pile = whole ? kPile : std::max(kPile, n.all / kOneIn);
  const double low = n.least * survey.factor + survey.offset;
  // Floats of which no other reaches an eighth are hot, or marks.
  const bool hot = !whole && n.at_most == n.brightest && n.at_most * 20 < n.all;
  // Else they look dead; and no photon is a count.
  const bool at_low = n.at_least >= pile && low == 0 && n.near_least > 0 &&
                      !(p.noise.poisson > 0 && p.noise.gaussian == 0) &&
                      gain_of_counts(stored, marks, seen.A->range(), comm) == 0;
  const bool at_high = n.at_most >= pile && n.at_most > n.near_most && std::abs(n.most - 1) < 1e-6 && !hot;
  if (!at_low && !at_high) return;
  for (const at::Tensor& part : stored) {
    at::Tensor ends = at::zeros_like(part);
    if (at_low) ends.masked_fill_(part.eq(n.least), -1);
    if (at_high) ends.masked_fill_(part.eq(n.most), 1);
    seen.ends.push_back(ends);
  }
  const auto said = [&](std::int64_t samples, double value, const char* way) {
    return fmt::format("{} samples have the {} value, {}", samples, way, in_file_units(survey, value));
  };
  seen.notices.push_back(
      fmt::format("clipped: {}{}{}: what lies beyond was cut off, so they are bounds from one side; "
                  "'clipping: data' in problem "
                  "takes them as values",
                  at_high ? said(n.at_most, n.most, "largest") : "", at_low && at_high ? ", " : "",
                  at_low ? said(n.at_least, n.least, "smallest") : ""));
}

void hold_against_data(const Survey& survey, const Measurement& y, const Measurement& marks, Surveyed& seen,
                       const Communicator& comm) {
  constexpr double kFar = 1.6;      // of what is stated: less changes little
  constexpr double kDetail = 0.05;  // of the data's range: what is in the finest details of a rough picture
  double passes = 0;
  for (const OperatorTraits::Part& part : seen.A->traits().parts) {
    if (!part.convolution || part.convolution->decimates()) return;
    passes = std::max(passes, passes_details(part.convolution->taps));
  }
  NoiseEstimate shown;
  try {
    shown = estimate_noise(y, marks, seen.A->range(), comm);
  } catch (const InputError&) {
    return;  // too few samples, or none that differ
  }
  const auto [least, most] = range_of(y, marks, comm);
  const double stated = seen.noise.gaussian;
  if (shown.gain > 0 || shown.hidden > 0 || !shown.each.empty() || shown.sigma < kFar * stated) return;
  const bool sharp = 2 * passes * kDetail * (most - least) > shown.sigma;
  if (sharp) {  // details of a picture come in, but not in its flattest tiles, where those of twice the size tell
    constexpr double kQuiet = 0.75, kAlike = 1.35;
    const std::array<FlatLevel, 3> flat = flat_levels(y, marks, seen.A->range(), comm);
    if (flat[0].quiet < kFar * kQuiet * stated || flat[1].quiet > kAlike * flat[0].quiet) return;
  }
  const bool take = survey.chosen.solver;
  seen.warnings.push_back(fmt::format(
      "problem.noise says {:.3g}{}, the finest details of the measurement scatter by {:.3g} ({}; "
      "what the job says would leave most of it in the image){} leave problem.noise out, or correct it",
      stated * survey.factor, survey.factor == 1 ? "" : " in file units", shown.sigma * survey.factor,
      sharp ? "so do tiles where the picture has none, so that this is noise"
            : "the kernel lets next to nothing of a picture through there, so that this is noise",
      take ? " the solver that was chosen takes what the data show:" : ""));
  if (!take) return;
  seen.noise.gaussian = shown.sigma;
  seen.noise_replaced = true;
}

void warn_of_values(const Survey& survey, const Measurement& y, const Measurement& marks, Surveyed& seen,
                    const Communicator& comm) {
  const Counted n = count_values(survey, y, marks, comm);
  warn_of_steps(survey, n, seen);
  warn_of_range(survey, n, y, marks, seen, comm);
  if (!(n.least < n.most)) return;
  const std::array<double, 2> said = warn_of_piles(survey, n, seen, comm);
  if (survey.in_image_range()) warn_of_empty_areas(survey, y, marks, said, seen, comm);
}

bool weights_are_mask(const Survey& survey, const Measurement& weights, const Measurement& y,
                      const Measurement& marks, Surveyed& seen, const Communicator& comm) {
  const auto [least, most] = range_of(weights, marks, comm);  // of those above 0
  const bool one = least == most, mask = one && (most == 1 || most == 255 || most == 65535);
  if (mask && most != 1)
    seen.notices.push_back(
        fmt::format("the weights are 0 and {} only: they are taken for a mask that says which samples count, "
                    "not for inverse variances",
                    most));
  std::array<std::int64_t, 3> n{};  // above 0, of these the largest, 0
  for (std::size_t i = 0; i < weights.size(); ++i) {
    n[0] += marks[i].count_nonzero().item().toLong();
    n[1] += weights[i].eq(most).logical_and(marks[i].ne(0)).sum().item().toLong();
    n[2] += weights[i].eq(0).sum().item().toLong();
  }
  comm.all_reduce(n, Reduce::sum);
  const bool marked = one ? n[2] > 0 : 2 * n[1] > n[0];
  if (mask || !marked || survey.problem.noise.gaussian > 0) return mask;
  try {
    constexpr double kApart = 3;
    const NoiseEstimate shown = estimate_noise(y, marks, seen.A->range(), comm);
    const double said = 1 / std::sqrt(most), found = shown.sigma * survey.factor;
    if (shown.gain == 0 && (said > kApart * found || found > kApart * said))
      seen.warnings.push_back(
          fmt::format("the weights are {} {:.6g}{}, which as inverse variances say a noise of {:.3g} in file "
                      "units; the data "
                      "show about {:.3g}: if they are a mask, write 0 and 1",
                      one ? "0 and" : "mostly", most, one ? " only" : "", said, found));
  } catch (const InputError&) {
    // Too few samples for an estimate.
  }
  return false;
}

}  // namespace tessera
