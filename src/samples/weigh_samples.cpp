// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/weigh_samples.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>

#include "bad_samples.hpp"
#include "kernel_sense.hpp"
#include "mark_sense.hpp"
#include "near_samples.hpp"
#include "noise_level.hpp"
#include "noise_places.hpp"
#include "photograph.hpp"
#include "sample_checks.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/bands.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/noise_estimate.hpp"
#include "tessera/samples/order_statistics.hpp"
#include "unblurred.hpp"
#include "weight_checks.hpp"

namespace tessera {
namespace {

constexpr double kNoiseless = 1e-3;  // what data without noise are taken to have: a quarter of an 8-bit step
constexpr std::int64_t kAround = 2;  // of the mean that stands for a sample's own: 5 x 5

std::span<const float> values(const at::Tensor& host) {
  return {host.const_data_ptr<float>(), static_cast<std::size_t>(host.numel())};
}

double sum(const Measurement& parts, const Communicator& comm) {
  double all = 0;
  for (const at::Tensor& part : parts) all += ordered_sum(values(part), comm);
  return all;
}

std::int64_t counting(const Measurement& marks, const Communicator& comm) {
  std::int64_t n = 0;
  for (const at::Tensor& m : marks) n += m.count_nonzero().item().toLong();
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return n;
}

// 1 at samples that count, and a line for each reason why others do not.
// `raw` is what the detector gave, `y` without its dark frame.
Measurement counted_samples(const Survey& survey, const Samples& s, const Measurement& raw,
                            const Measurement& y, Surveyed& seen, const Communicator& comm) {
  Measurement marks;
  for (const at::Tensor& part : y) marks.push_back(at::ones_like(part));
  const std::int64_t all = seen.A->range().values();
  std::int64_t left = all;
  // Samples where `out` holds of the numbers beside them.
  const auto drop = [&](const Measurement& beside, const auto& out, const std::string& what) {
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (beside[i].defined())
        by_bands([&](at::Tensor mark, const at::Tensor& v) { mark.masked_fill_(out(v), 0); }, marks[i],
                 beside[i].to(at::kCPU));
    const std::int64_t now = counting(marks, comm);
    const std::string line = concat(left - now, " of ", all, " samples ", what, " and count 0");
    if (survey.scan && 2 * (left - now) > all)
      seen.warnings.push_back(
          line + ", more than half of the scan: are its flats and darks the right ones, and not saturated?");
    else if (now < left)
      seen.notices.push_back(line);
    left = now;
  };
  const auto is_zero = [](const at::Tensor& v) { return v.eq(0); };
  if (!s.weights.empty())
    drop(s.weights, is_zero,
         !s.weightless.empty() ? s.weightless
         : s.no_weight > 0     ? "have weight 0, or one that is no number,"
                               : "have weight 0");
  if (!s.flagged.empty())
    drop(
        s.flagged, [](const at::Tensor& v) { return v.ne(0); }, "have " + s.flags);
  if (!s.mark.empty())
    drop(
        raw, [&](const at::Tensor& v) { return v.ge(s.masked); },
        "have " + s.mark + ", far above all others, which marks masked pixels or a full counter,");
  drop(
      y, [](const at::Tensor& v) { return v.isfinite().logical_not_(); }, "are not numbers");
  if (survey.problem.saturation > 0 && !(survey.scan && survey.counts))  // those are counts
    drop(
        raw, [&](const at::Tensor& v) { return v.ge(survey.problem.saturation); }, "are saturated");
  if (!s.flat.empty())
    drop(
        s.flat, [](const at::Tensor& v) { return v.le(0); }, "have no sensitivity");
  drop(seen.A->observed(), is_zero, "are masked");
  TESSERA_VALIDATE(left > 0, "all ", all, " samples count 0 (nothing is measured",
                   seen.notices.empty() ? "" : ": " + fmt::format("{}", fmt::join(seen.notices, "; ")),
                   ") check problem.weights, problem.saturation and the mask");
  return marks;
}

// finish(mean, box) of the mean over 5 x 5 samples that count, in float64, at least one count of this gain in all of them:
// Poisson weights from a sample itself would prefer those that noise has made dark. Sums are in one order for all ranks.
template <class Finish>
at::Tensor local_mean(const at::Tensor& y, const at::Tensor& marks, double gain, std::size_t i,
                      const ProductSpace& layout, const Communicator& comm, const Finish& finish) {
  const Box block = layout.block(i, comm.rank());
  const auto seen = [](const Box& box) { return box.grow(ImageSpace::in_plane(kAround)); };
  at::Tensor out = at::empty(y.sizes(), at::kFloat);
  for (NearSamples near({y, marks}, layout, i, comm, seen, Border::zero); near.next();) {
    if (near.own().empty()) continue;
    std::array<at::Tensor, 2> sums;  // of samples, of marks
    for (std::size_t kind = 0; kind < 2; ++kind) {
      at::Tensor& sum = sums[kind] = near.of(kind).to(at::kDouble);
      for (const std::size_t axis : {1U, 2U}) {
        const std::int64_t length = near.own().extent(axis), at = static_cast<std::int64_t>(axis) - 3;
        at::Tensor line = sum.narrow(at, 0, length).clone();
        for (std::int64_t k = 1; k <= 2 * kAround; ++k) line.add_(sum.narrow(at, k, length));
        sum = line;
      }
    }
    const at::Tensor mean = sums[0].clamp_min_(gain).div_(sums[1].clamp_min_(1));
    crop(out, block, near.own()).copy_(finish(mean, near.own()));
  }
  return out;
}

at::Tensor local_mean(const at::Tensor& y, const at::Tensor& marks, double gain, std::size_t i,
                      const ProductSpace& layout, const Communicator& comm) {
  return local_mean(y, marks, gain, i, layout, comm, [](const at::Tensor& mean, const Box&) { return mean; });
}

// Inverse variances of the samples, up to a common factor which is returned: variance = factor / weight.
struct Weighing {
  Measurement weights;  // float32 on the host, above 0 where a sample counts; empty: 1
  double variance = 1;  // of a sample of weight 1
};

Weighing from_file(const Survey& survey, Samples& s, Surveyed& seen) {
  seen.noise_source = "from the weights, which are inverse variances";
  return {std::move(s.weights), 1 / survey.factor / s.weight_unit / survey.factor};
}

// Weights that are known up to a factor, as the data show: the factor is theirs.
void hold_weights_against_data(const Survey& survey, Weighing& w, const Measurement& y,
                               const Measurement& marks, std::int64_t counted, Surveyed& seen,
                               const Communicator& comm) {
  Measurement even, some = w.weights;
  for (std::size_t i = 0; i < y.size(); ++i) some[i] = some[i].masked_fill(marks[i].eq(0), 0);
  const double mean = sum(some, comm) / static_cast<double>(counted);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Box block = seen.A->range().block(i, comm.rank());
    even.push_back(local_mean(w.weights[i], marks[i], FLT_MIN, i, seen.A->range(), comm,
                              [&](const at::Tensor& smooth, const Box& box) {
                                return smooth.div(mean).sqrt_().mul_(crop(y[i], block, box));
                              }));
  }
  const double stated = std::sqrt(w.variance / mean);
  const std::optional<double> found = level_of_data(survey, even, marks, stated, seen, comm);
  if (!found) return;
  w.variance = *found * *found * mean;
  seen.noise_source = fmt::format(
      "its level shown by the data, since the weights as inverse variances say {:.3g} on average{}: they are "
      "taken to say "
      "how samples compare",
      stated * survey.factor, survey.factor == 1 ? "" : " in file units");
}

// Counts, whose inverse is the variance of their logarithm, but for a factor: that is found in samples which they
// make alike.
Weighing from_counts(const Survey& survey, const Samples& s, const Measurement& y, const Measurement& marks,
                     Surveyed& seen, const Communicator& comm) {
  TESSERA_VALIDATE(survey.problem.noise.poisson == 0,
                   "problem.noise.poisson stands beside a scan of counts (it is a gain of line integrals, "
                   "which have none) "
                   "leave it out, or write gaussian, the level of a line integral on average");
  const ProductSpace& layout = seen.A->range();
  Weighing out;
  for (std::size_t i = 0; i < y.size(); ++i)
    out.weights.push_back(local_mean(s.weights[i], marks[i], FLT_MIN, i, layout, comm));
  const std::string compare = "; the counts say how samples compare";
  if (survey.problem.noise.gaussian > 0) return out;
  Measurement even, some = out.weights;
  for (std::size_t i = 0; i < y.size(); ++i) some[i] = some[i].masked_fill(marks[i].eq(0), 0);
  const double mean = sum(some, comm) / static_cast<double>(counting(marks, comm));
  for (std::size_t i = 0; i < y.size(); ++i) {
    even.push_back(at::empty_like(y[i]));
    by_bands([&](at::Tensor to, const at::Tensor& weight,
                 const at::Tensor& of) { to.copy_(weight.to(at::kDouble).div_(mean).sqrt_().mul_(of)); },
             even.back(), out.weights[i], y[i]);
  }
  const NoiseEstimate e = estimate_noise(even, marks, layout, comm);
  out.variance = e.sigma * e.sigma * mean;
  seen.noise_source = "estimated from the data, standard error " + percent_text(e.sigma_error, e.sigma) +
                      ", plus what texture adds" + compare;
  return out;
}

// A level of stored values: that of light follows the slope of their curve, at the mean of the samples around.
void weigh_by_slope(const Measurement& stored, const Measurement& marks, const Surveyed& seen, Weighing& out,
                    const Communicator& comm) {
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const at::Tensor mean = local_mean(stored[i], marks[i], FLT_MIN, i, seen.A->range(), comm);
    float* const w = mean.data_ptr<float>();
    std::transform(w, w + mean.numel(), w, [&](float v) {
      const double slope = seen.curve.slope(static_cast<double>(v));
      return static_cast<float>(1 / (slope * slope));
    });
    out.weights.push_back(mean);
  }
}

// Noise in proportion to the signal: to the mean of the samples around.
void weigh_by_level(const Measurement& y, const Measurement& marks, const Surveyed& seen, Weighing& out,
                    const Communicator& comm) {
  constexpr double kDarkest = 0.02;  // of the mean of all
  const double share = seen.noise_proportional, least = kDarkest * seen.noise.gaussian / share;
  out.variance = share * share;
  for (std::size_t i = 0; i < y.size(); ++i)
    out.weights.push_back(
        local_mean(y[i], marks[i], least, i, seen.A->range(), comm,
                   [](const at::Tensor& mean, const Box&) { return mean.square().reciprocal_(); }));
}

// `y`: as inside, `stored`: as in the file, the same but for a curve of light.
Weighing from_model(const Survey& survey, const Samples& s, const Measurement& y, const Measurement& stored,
                    const Measurement& marks, Surveyed& seen, const Communicator& comm) {
  const ProductSpace& layout = seen.A->range();
  const NoiseConfig& job = survey.problem.noise;
  NoiseModel& noise = seen.noise;
  noise = s.simulated ? s.noise : NoiseModel{.gaussian = job.gaussian, .poisson = job.poisson};
  const bool given = noise.gaussian > 0 || noise.poisson > 0;
  std::vector<std::vector<double>> each;
  if (given && job.unit == "file") {
    noise.gaussian /= survey.factor;
    noise.poisson /= survey.factor;
    seen.noise_stored = !seen.curve.none();
  }
  if (given && seen.noise_stored) {
    seen.noise_source = level_text(survey, noise) + " of stored values, as the job says";
  } else if (given) {
    seen.compressed = !s.simulated && is_jpeg(survey, comm);
    if (!s.simulated && !seen.compressed && noise.poisson == 0)
      hold_against_data(survey, y, marks, seen, comm);
    seen.noise_source = level_text(survey, noise) + (s.simulated           ? ", simulated"
                                                     : seen.noise_replaced ? ", shown by the data"
                                                                           : ", as the job says");
  } else if (s.simulated) {
    noise.gaussian = kNoiseless;
    seen.noise_source = fmt::format("none was simulated, a level of {} is assumed", kNoiseless);
  } else {
    each = estimate_level(survey, y, stored, marks, seen, comm);
    if (each.empty() && !seen.noise_stored && seen.noise_proportional == 0 && !is_jpeg(survey, comm))
      hold_noise_against_places(survey, y, marks, seen, comm);
  }
  seen.noise_estimated = !given && !s.simulated && each.empty() && seen.noise_proportional == 0;

  Weighing out;
  out.variance = noise.gaussian * noise.gaussian;
  if (seen.noise_stored) {
    weigh_by_slope(stored, marks, seen, out, comm);
  } else if (seen.noise_proportional > 0) {
    weigh_by_level(y, marks, seen, out, comm);
  } else if (noise.poisson > 0) {
    out.variance = 1;
    for (std::size_t i = 0; i < y.size(); ++i)
      out.weights.push_back(
          local_mean(y[i], marks[i], noise.poisson, i, layout, comm, [&](const at::Tensor& mean, const Box&) {
            return mean.mul(noise.poisson).add_(noise.gaussian * noise.gaussian).reciprocal_();
          }));
  } else if (!each.empty()) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      out.weights.push_back(at::ones_like(y[i]));
      for (std::int64_t c = 0; c < y[i].size(0); ++c) {
        const double ratio = noise.gaussian / each[i][static_cast<std::size_t>(c)];
        out.weights.back()[c].fill_(ratio * ratio);
      }
    }
  }
  return out;
}

}  // namespace

void weigh_samples(const Survey& survey, Samples s, Surveyed& seen, const Communicator& comm) {
  Measurement raw, stored;
  for (const at::Tensor& part : s.y) raw.push_back(part.to(at::kCPU, at::kFloat).contiguous());
  for (std::size_t i = 0; i < raw.size(); ++i)
    stored.push_back(s.dark.empty() ? raw[i] : raw[i].sub(s.dark[i]));
  if (!s.weights_compare) mark_weights(s.weights, seen, comm);
  Measurement marks = counted_samples(survey, s, raw, stored, seen, comm);
  bool codes = false;
  if (!s.simulated) {
    leave_out_seam(survey, stored, marks, seen, comm);
    refuse_inverted(survey, stored, marks, comm);
    if (!s.weights.empty() && !s.weights_compare && survey.problem.noise.gaussian == 0)
      refuse_few_heavy(survey, s.weights, marks, comm);
    if (!survey.scan) {
      const Measurement said = s.weight_unit == 1 ? s.weights : Measurement();
      refuse_flags(survey, said, stored, marks, seen.A->range(), comm);
      refuse_marked_flaws(survey, stored, marks, seen.A->range(), comm);
      codes = refuse_class_codes(survey, said, stored, marks, seen, comm);
    }
  }
  raw.clear();
  if (!s.simulated) leave_out_copies(survey, stored, marks, seen, comm);
  leave_out_bad(survey, stored, marks, seen, comm);
  if (!s.simulated && s.weights.empty()) leave_out_blended(survey, stored, marks, seen, comm);
  if (!s.simulated && s.weights.empty()) leave_out_unblurred(survey, stored, marks, seen, comm);
  if (!s.simulated) leave_out_empty_part(survey, stored, marks, seen, comm);
  if (!s.simulated) leave_out_impulses(survey, stored, marks, seen, comm);
  if (!s.simulated) mark_ends(survey, stored, marks, seen, comm);
  const bool is_light = s.simulated || s.light;
  seen.curve = is_light ? survey.curve : choose_curve(survey, stored, marks, seen, comm);
  Measurement y;  // as inside
  for (const at::Tensor& part : stored) y.push_back(is_light ? part : light_of(part, seen.curve));
  const std::int64_t counted = counting(marks, comm);

  const bool by_counts = s.weights_compare;
  const bool by_file =
      by_counts || (!s.weights.empty() && (s.weight_unit != 1 ||  // no mask is that large
                                           !weights_are_mask(survey, s.weights, y, marks, seen, comm)));
  TESSERA_VALIDATE(!by_file || by_counts || survey.problem.noise.poisson == 0,
                   "problem.noise.poisson stands beside weights that are inverse variances (both say how the "
                   "samples' noise differs) remove one of them");
  const bool told = by_file && survey.problem.noise.gaussian > 0;
  if (by_file && !by_counts && !s.simulated && !survey.scan && s.weight_unit == 1 && !codes)
    hold_weights_against_scatter(survey, s.weights, y, marks, told, seen, comm);
  if (by_file && !by_counts && !s.simulated && !survey.scan && survey.in_image_range())
    warn_of_own_weights(s.weights, stored, marks, seen, comm);
  Weighing w = by_counts ? from_counts(survey, s, y, marks, seen, comm)
               : by_file ? from_file(survey, s, seen)
                         : from_model(survey, s, y, stored, marks, seen, comm);
  // Variances that a file says are of what it stores.
  if (by_file && !by_counts && !is_light && !seen.curve.none()) {
    Weighing slope;
    weigh_by_slope(stored, marks, seen, slope, comm);
    for (std::size_t i = 0; i < w.weights.size(); ++i)
      w.weights[i] = w.weights[i].mul(slope.weights[i]).contiguous();
  }
  if (by_file && !by_counts && !told && !s.simulated && !survey.scan)
    hold_weights_against_data(survey, w, y, marks, counted, seen, comm);
  seen.y = s.simulated ? std::move(s.y) : y;  // simulated ones are on their device already
  // Divided by the flat field, a sample's noise is too.
  if (!s.flat.empty()) {
    if (!s.simulated) warn_of_inverse_flat(y, s.flat, marks, seen, comm);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const at::Tensor square = s.flat[i].mul(s.flat[i]).expand_as(y[i]);
      if (w.weights.size() <= i)
        w.weights.push_back(square.contiguous());
      else
        w.weights[i] = w.weights[i].mul(square).contiguous();
      seen.y[i] = y[i].div(s.flat[i]);
    }
  }
  for (std::size_t i = 0; i < w.weights.size(); ++i) w.weights[i].masked_fill_(marks[i].eq(0), 0);

  const bool even = w.weights.empty() && !by_file;
  if (!w.weights.empty()) {
    // 1 on average: the noise level is then that of a sample of weight 1.
    const double mean = sum(w.weights, comm) / static_cast<double>(counted);
    w.variance /= mean;
    const auto [least, most] = range_of(w.weights, marks, comm);
    if (least == most)
      w.weights.clear();
    else
      for (const at::Tensor& part : w.weights)
        by_bands([&](at::Tensor to, const at::Tensor& of) { to.copy_(of.to(at::kDouble).div_(mean)); }, part,
                 part);
  }
  if (survey.problem.likelihood.type == "poisson") w.weights.clear();  // it knows how counts scatter
  seen.marked = w.weights.empty() && counted < seen.A->range().values();
  if (seen.marked) w.weights = marks;
  seen.noise_sigma = even ? seen.noise.gaussian : std::sqrt(w.variance);
  if (told) {  // the weights then say only how samples compare
    seen.noise_sigma = survey.problem.noise.gaussian;
    seen.noise_source = level_text(survey, {.gaussian = seen.noise_sigma}) +
                        " on average, as the job says; the " + (by_counts ? "counts" : "weights") +
                        " say how samples compare";
  }
  if (!s.simulated) {
    warn_of_values(survey, stored, marks, seen, comm);
    warn_of_wrapped(survey, stored, marks, seen, comm);
    const std::size_t before = seen.warnings.size();
    warn_of_alternate_lines(survey, seen.y, marks, seen, comm);
    warn_of_line_offsets(survey, seen.y, marks, seen, comm);
    warn_of_misfits(survey, seen.y, marks, seen.warnings.size() > before, seen, comm);
    warn_of_turned_kernel(seen.y, marks, seen, comm);
    warn_of_exchanged_kernels(seen.y, marks, seen, comm);
  }
  seen.missing = 1 - static_cast<double>(counted) / static_cast<double>(seen.A->range().values());
  const bool on_average =
      by_file ? !told : seen.noise.poisson > 0 || seen.noise_stored || seen.noise_proportional > 0;
  if (!s.simulated || seen.noise.gaussian == kNoiseless)
    seen.notices.push_back("noise: " + seen.noise_source +
                           (on_average ? fmt::format("; {:.4g} on average", seen.noise_sigma) : ""));
  for (at::Tensor& part : seen.y) part = part.to(survey.options);
  for (at::Tensor& part : seen.ends) part = part.to(survey.options);
  for (at::Tensor& part : w.weights) part = part.to(survey.options);
  seen.weights = std::move(w.weights);
}

}  // namespace tessera
