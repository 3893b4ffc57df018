// SPDX-License-Identifier: BSD-3-Clause
#include "job/sample_weights.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cfloat>
#include <cmath>

#include "job/sample_checks.hpp"
#include "job/simulation.hpp"
#include "job/weight_checks.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/noise_estimate.hpp"
#include "tessera/domain/order_statistics.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/jpeg_step.hpp"

namespace tessera {
namespace {

constexpr double kNoiseless = 1e-3;  // what data without noise are taken to have: a quarter of an 8-bit step
constexpr std::int64_t kReach = 2;   // of the mean that stands for a sample's own: 5 x 5

std::span<const float> values(const at::Tensor& host) {
  return {host.const_data_ptr<float>(), static_cast<std::size_t>(host.numel())};
}

double sum(const Measurement& parts, const Communicator& comm) {
  double all = 0;
  for (const at::Tensor& part : parts) all += ordered_sum(values(part), comm);
  return all;
}

std::int64_t count(const Measurement& marks, const Communicator& comm) {
  std::int64_t n = 0;
  for (const at::Tensor& m : marks) n += m.ne(0).sum().item().toLong();
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return n;
}

// 1 at samples that count, and a line for each reason why others do not.
// `raw` is what the detector gave, `y` without its dark frame.
Measurement counted_samples(const RunPlan& plan, const Samples& s, const Measurement& raw,
                            const Measurement& y, Problem& problem, const Communicator& comm) {
  Measurement marks;
  for (const at::Tensor& part : y) marks.push_back(at::ones_like(part));
  const std::int64_t all = problem.A->range().values();
  std::int64_t left = all;
  const auto drop = [&](const auto& where, const std::string& what) {
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (const at::Tensor out = where(i); out.defined()) marks[i].masked_fill_(out.expand_as(marks[i]), 0);
    const std::int64_t now = count(marks, comm);
    if (now < left)
      problem.notices.push_back(concat(left - now, " of ", all, " samples ", what, " and count 0"));
    left = now;
  };
  if (!s.weights.empty())
    drop([&](std::size_t i) { return s.weights[i].eq(0); }, !s.weightless.empty() ? s.weightless
                                                            : s.no_weight > 0
                                                                ? "have weight 0, or one that is no number,"
                                                                : "have weight 0");
  if (!s.mark.empty())
    drop([&](std::size_t i) { return raw[i].ge(s.masked); },
         "have " + s.mark + ", far above all others, which marks masked pixels,");
  drop([&](std::size_t i) { return y[i].isfinite().logical_not_(); }, "are not numbers");
  if (plan.job.problem.saturation > 0 && !(plan.scan && plan.scan->transmission))  // those are counts
    drop([&](std::size_t i) { return raw[i].ge(plan.job.problem.saturation); }, "are saturated");
  if (!s.flat.empty()) drop([&](std::size_t i) { return s.flat[i].le(0); }, "have no sensitivity");
  const Measurement observed = problem.A->observed();
  drop([&](std::size_t i) { return observed[i].defined() ? observed[i].to(at::kCPU).eq(0) : at::Tensor(); },
       "are masked");
  TESSERA_VALIDATE(left > 0, "all ", all, " samples count 0 (nothing is measured",
                   problem.notices.empty() ? "" : ": " + fmt::format("{}", fmt::join(problem.notices, "; ")),
                   ") check problem.weights, problem.saturation and the mask");
  return marks;
}

// Mean over 5 x 5 samples that count, at least one count of this gain in all of them: Poisson weights from a
// sample itself would prefer those that noise has made dark. Sums are in one order for all ranks.
at::Tensor local_mean(const at::Tensor& y, const at::Tensor& marks, double gain, std::size_t i,
                      const ProductSpace& layout, const Communicator& comm,
                      const std::shared_ptr<Transport>& transport) {
  const Layout own = layout.layout(i);
  const Layout need = own.grow({{0, kReach, kReach}, {0, kReach, kReach}});
  const std::int64_t channels = y.size(0);
  const Box block = own.box(comm.rank()), around = need.box(comm.rank());
  const at::Tensor both = at::cat({y.masked_fill(marks.eq(0), 0), marks}, 0).contiguous();
  const at::Tensor near = empty_block(2 * channels, around, at::kFloat, layout.part(i).space.axes);
  Exchange exchange(ExchangePlan(own, need, layout.part(i).box(), Border::zero, comm.rank()), transport,
                    2 * channels, ElementType::float32);
  exchange.begin(view(both, block), view(near, around)).wait();
  if (block.empty()) return y;
  at::Tensor sum = near.to(at::kDouble);
  for (const int axis : {-2, -1}) {
    const std::int64_t length = y.size(axis);
    at::Tensor line = sum.narrow(axis, 0, length).clone();
    for (std::int64_t k = 1; k <= 2 * kReach; ++k) line.add_(sum.narrow(axis, k, length));
    sum = line;
  }
  return sum.narrow(0, 0, channels).clamp_min(gain).div(sum.narrow(0, channels, channels).clamp_min(1));
}

std::string percent(double error, double value) {
  return value > 0 ? fmt::format("{:.2g} %", 100 * error / value) : "0 %";
}

std::string level_text(const RunPlan& plan, const NoiseModel& n) {
  std::string out;
  const auto add = [&](const char* name, double v) {
    if (v <= 0) return;
    out += fmt::format("{}{} {:.4g}", out.empty() ? "" : ", ", name, v);
    if (plan.factor != 1) out += fmt::format(" ({:.4g} in file units)", v * plan.factor);
  };
  add("gaussian", n.gaussian);
  add("poisson gain", n.poisson);
  return out;
}

// Inverse variances of the samples, up to a common factor which is returned: variance = factor / weight.
struct Weighing {
  Measurement weights;  // float32 on the host, above 0 where a sample counts; empty: 1
  double variance = 1;  // of a sample of weight 1
};

Weighing from_file(const RunPlan& plan, Samples& s, Problem& problem) {
  problem.noise_source = "from the weights, which are inverse variances";
  return {std::move(s.weights), 1 / plan.factor / s.weight_unit / plan.factor};
}

// Weights that are known up to a factor, as the data show: the factor is theirs.
void hold_weights_against_data(const RunPlan& plan, Weighing& w, const Measurement& y,
                               const Measurement& marks, std::int64_t counted, Problem& problem,
                               const Communicator& comm) {
  const std::shared_ptr<Transport> transport = make_transport(comm, {}, TransportKind::mpi);
  Measurement even, some = w.weights;
  for (std::size_t i = 0; i < y.size(); ++i) some[i] = some[i].masked_fill(marks[i].eq(0), 0);
  const double mean = sum(some, comm) / static_cast<double>(counted);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const at::Tensor smooth =
        local_mean(w.weights[i], marks[i], FLT_MIN, i, problem.A->range(), comm, transport);
    even.push_back(smooth.to(at::kDouble).div(mean).sqrt_().mul_(y[i]).to(at::kFloat).contiguous());
  }
  const double stated = std::sqrt(w.variance / mean);
  const std::optional<double> found = level_of_data(plan, even, marks, stated, problem, comm);
  if (!found) return;
  w.variance = *found * *found * mean;
  problem.noise_source = fmt::format(
      "its level shown by the data, since the weights as inverse variances say {:.3g} on average{}: they are "
      "taken to say "
      "how samples compare",
      stated * plan.factor, plan.factor == 1 ? "" : " in file units");
}

// Counts, whose inverse is the variance of their logarithm, but for a factor: that is found in samples which they
// make alike.
Weighing from_counts(const RunPlan& plan, const Samples& s, const Measurement& y, const Measurement& marks,
                     Problem& problem, const Communicator& comm) {
  TESSERA_VALIDATE(plan.job.problem.noise.poisson == 0,
                   "problem.noise.poisson stands beside a scan of counts (it is a gain of line integrals, "
                   "which have none) "
                   "leave it out, or write gaussian, the level of a line integral on average");
  const ProductSpace& layout = problem.A->range();
  const std::shared_ptr<Transport> transport = make_transport(comm, {}, TransportKind::mpi);
  Weighing out;
  for (std::size_t i = 0; i < y.size(); ++i)
    out.weights.push_back(
        local_mean(s.weights[i], marks[i], FLT_MIN, i, layout, comm, transport).to(at::kFloat).contiguous());
  const std::string compare = "; the counts say how samples compare";
  if (plan.job.problem.noise.gaussian > 0) return out;
  Measurement even, some = out.weights;
  for (std::size_t i = 0; i < y.size(); ++i) some[i] = some[i].masked_fill(marks[i].eq(0), 0);
  const double mean = sum(some, comm) / static_cast<double>(count(marks, comm));
  for (std::size_t i = 0; i < y.size(); ++i)
    even.push_back(out.weights[i].to(at::kDouble).div(mean).sqrt_().mul_(y[i]).to(at::kFloat).contiguous());
  const NoiseEstimate e = estimate_noise(even, marks, layout, comm);
  out.variance = e.sigma * e.sigma * mean;
  problem.noise_source = "estimated from the data, standard error " + percent(e.sigma_error, e.sigma) +
                         ", plus what texture adds" + compare;
  return out;
}

// Whether channels differ by more than rounding makes of a gray picture.
bool has_color(const Measurement& y, const Communicator& comm) {
  constexpr double kGray = 0.004;
  std::array<double, 2> sums{};  // of differences, samples
  for (const at::Tensor& part : y) {
    if (part.size(0) < 3 || part.numel() == 0) continue;
    const at::Tensor apart = part.narrow(0, 0, 2).sub(part.narrow(0, 1, 2)).abs_().nan_to_num_(0.0, 0.0, 0.0);
    sums[0] += apart.sum(at::kDouble).item().toDouble();
    sums[1] += static_cast<double>(apart.numel());
  }
  comm.all_reduce(sums, Reduce::sum);
  return sums[0] > kGray * sums[1];
}

// What a JPEG was rounded to, in internal range, known to all ranks.
JpegSteps jpeg_steps_of(const RunPlan& plan, const Communicator& comm) {
  const JpegSteps steps = comm.rank() == 0 ? jpeg_steps(plan.job.problem.measurements) : JpegSteps{};
  std::array<double, 3> all{steps.low / plan.factor, steps.high / plan.factor,
                            steps.coarse_color ? 1.0 : 0.0};
  comm.all_reduce(all, Reduce::max);
  return {.low = all[0], .high = all[1], .coarse_color = all[2] > 0};
}

Weighing from_model(const RunPlan& plan, const Samples& s, const Measurement& y, const Measurement& marks,
                    Problem& problem, const Communicator& comm) {
  const ProductSpace& layout = problem.A->range();
  const NoiseConfig& job = plan.job.problem.noise;
  NoiseModel& noise = problem.noise;
  noise = s.simulated ? simulated_noise(plan) : NoiseModel{.gaussian = job.gaussian, .poisson = job.poisson};
  const bool given = noise.gaussian > 0 || noise.poisson > 0;
  std::vector<std::vector<double>> each;
  if (given) {
    const bool rounded = !s.simulated && jpeg_steps_of(plan, comm).high > 0;
    if (!s.simulated && !rounded && noise.poisson == 0) hold_against_data(plan, y, marks, problem, comm);
    problem.noise_source = level_text(plan, noise) + (s.simulated              ? ", simulated"
                                                      : problem.noise_replaced ? ", shown by the data"
                                                                               : ", as the job says");
  } else if (s.simulated) {
    noise.gaussian = kNoiseless;
    problem.noise_source = fmt::format("none was simulated, a level of {} is assumed", kNoiseless);
  } else {
    const JpegSteps steps = jpeg_steps_of(plan, comm);
    const bool color = steps.coarse_color && has_color(y, comm);
    // Color of fewer samples has lost its finest details whatever the tables say.
    constexpr double kAll = 1e3;
    NoiseEstimate e = estimate_noise(y, marks, layout, comm, color ? kAll : steps.high);
    constexpr double kColor = 1.4;  // its noise lies at twice the size yet
    if (e.coarse)                   // half of the rounding shows where it looked
      e.sigma = std::hypot(e.sigma, steps.low / std::sqrt(12.0) / 2) * (color ? kColor : 1.0);
    noise = {.gaussian = e.sigma, .poisson = e.gain};
    const bool counts = e.gain > 0 && e.gain_error == 0;
    problem.noise_source =
        level_text(plan, noise) + ", estimated from the data" +
        (counts       ? ": they are whole counts that scatter as photons do"
         : e.gain > 0 ? ", standard error " + percent(e.gain_error, e.gain) + " of the gain"
                      : ", standard error " + percent(e.sigma_error, e.sigma) + ", plus what texture adds");
    if (e.hidden > 0)
      problem.warnings.push_back(fmt::format(
          "the finest details of the measurement hold nothing but its rounding, those of twice their size a "
          "deviation of {:.3g}: if it was enlarged, demosaicked or compressed before, its noise is larger "
          "than "
          "what was found: write 'noise: {{gaussian: {:.2g}}}' in problem",
          e.hidden, e.hidden));
    if (e.coarse)
      problem.noise_source +=
          "; JPEG has taken the finest details, so it was looked for at twice their size, where the picture "
          "itself may add to it";
    if (!e.each.empty()) problem.noise_source += ", weighed by channel (they differ by more than a fifth)";
    each = std::move(e.each);
  }
  problem.noise_estimated = !given && !s.simulated && each.empty();

  Weighing out;
  out.variance = noise.gaussian * noise.gaussian;
  if (noise.poisson > 0) {
    out.variance = 1;
    const std::shared_ptr<Transport> transport = make_transport(comm, {}, TransportKind::mpi);
    for (std::size_t i = 0; i < y.size(); ++i) {
      at::Tensor mean = local_mean(y[i], marks[i], noise.poisson, i, layout, comm, transport);
      mean = mean.to(at::kDouble).mul(noise.poisson).add(noise.gaussian * noise.gaussian);
      out.weights.push_back(mean.reciprocal_().to(at::kFloat).contiguous());
    }
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

void weigh_samples(const RunPlan& plan, Samples s, Problem& problem, const Communicator& comm) {
  Measurement raw, y;
  for (const at::Tensor& part : s.y) raw.push_back(part.to(at::kCPU, at::kFloat).contiguous());
  for (std::size_t i = 0; i < raw.size(); ++i) y.push_back(s.dark.empty() ? raw[i] : raw[i].sub(s.dark[i]));
  if (!s.weights_compare) mark_weights(s.weights, problem, comm);
  const Measurement marks = counted_samples(plan, s, raw, y, problem, comm);
  if (!s.simulated) refuse_inverted(plan, y, marks, comm);
  if (!s.simulated && !plan.scan)
    refuse_flags(plan, s.weight_unit == 1 ? s.weights : Measurement(), y, marks, problem.A->range(), comm);
  raw.clear();
  const std::int64_t counted = count(marks, comm);

  const bool by_counts = s.weights_compare;
  const bool by_file =
      by_counts || (!s.weights.empty() && (s.weight_unit != 1 ||  // no mask is that large
                                           !weights_are_mask(plan, s.weights, y, marks, problem, comm)));
  TESSERA_VALIDATE(!by_file || by_counts || plan.job.problem.noise.poisson == 0,
                   "problem.noise.poisson stands beside weights that are inverse variances (both say how the "
                   "samples' noise differs) remove one of them");
  const bool told = by_file && plan.job.problem.noise.gaussian > 0;
  Weighing w = by_counts ? from_counts(plan, s, y, marks, problem, comm)
               : by_file ? from_file(plan, s, problem)
                         : from_model(plan, s, y, marks, problem, comm);
  if (by_file && !by_counts && !told && !s.simulated && !plan.scan)
    hold_weights_against_data(plan, w, y, marks, counted, problem, comm);
  problem.y = s.simulated ? std::move(s.y) : y;  // simulated ones are on their device already
  // Divided by the flat field, a sample's noise is too.
  if (!s.flat.empty()) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      const at::Tensor square = s.flat[i].mul(s.flat[i]).expand_as(y[i]);
      if (w.weights.size() <= i)
        w.weights.push_back(square.contiguous());
      else
        w.weights[i] = w.weights[i].mul(square).contiguous();
      problem.y[i] = y[i].div(s.flat[i]);
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
      for (at::Tensor& part : w.weights) part = part.to(at::kDouble).div_(mean).to(at::kFloat);
  }
  if (plan.job.problem.likelihood.type == "poisson") w.weights.clear();  // it knows how counts scatter
  problem.marked = w.weights.empty() && counted < problem.A->range().values();
  if (problem.marked) w.weights = marks;
  problem.noise_sigma = even ? problem.noise.gaussian : std::sqrt(w.variance);
  if (told) {  // the weights then say only how samples compare
    problem.noise_sigma = plan.job.problem.noise.gaussian;
    problem.noise_source = level_text(plan, {.gaussian = problem.noise_sigma}) +
                           " on average, as the job says; the " + (by_counts ? "counts" : "weights") +
                           " say how samples compare";
  }
  if (!s.simulated) warn_of_values(plan, y, marks, problem, comm);
  const auto all = static_cast<double>(problem.A->range().values());
  ask_for_mask_rule(plan, 1 - static_cast<double>(counted) / all, problem);
  const bool on_average = by_file ? !told : problem.noise.poisson > 0;
  if (!s.simulated || problem.noise.gaussian == kNoiseless)
    problem.notices.push_back("noise: " + problem.noise_source +
                              (on_average ? fmt::format("; {:.4g} on average", problem.noise_sigma) : ""));
  for (at::Tensor& part : problem.y) part = part.to(plan.options());
  for (at::Tensor& part : w.weights) part = part.to(plan.options());
  problem.weights = std::move(w.weights);
}

}  // namespace tessera
