// SPDX-License-Identifier: BSD-3-Clause
#include "run/job_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "job/solver_input.hpp"
#include "job/survey.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

// A resumed run keeps the schedules that it began with: with more iterations than then, their last values
// hold on.
void keep_schedules(const Checkpoint& from, SolverOptions& o) {
  o.step = Schedule(from.lists.at("step"));
  o.sigma = Schedule(from.lists.at("sigma"));
  o.weight = from.numbers.at("weight");
  o.lambda = from.numbers.at("strength");
  if (const auto bounds = from.lists.find("bounds"); bounds != from.lists.end()) {
    o.least = bounds->second.at(0);
    o.most = bounds->second.at(1);
  }
}

CheckpointPlace checkpoint_place(const RunPlan& plan, int rank) {
  const Index3 lo = plan.image.box.lo(), back{-lo[0], -lo[1], -lo[2]};
  return {plan.image.box.shift(back), plan.decomposition.block(rank).shift(back)};
}

// The image region that the samples stand for, with boundary valid; the whole image with another one.
Box measured_region(const RunPlan& plan, const DistributedOperator& A) {
  for (const OperatorConfig& part : plan.parts)
    if (find_operator(part.type).choice.kernel && part.boundary != "valid") return plan.image.box;
  const ProductSpace& layout = A.range();
  const std::vector<OperatorTraits::Part>& convolutions = A.traits().parts;
  Box region;
  for (std::size_t i = 0; i < layout.parts(); ++i) {
    const auto& part = layout.part(i);
    if (!part.anchor) return plan.image.box;
    const Index3 before = convolutions[i].convolution ? before_bins(*convolutions[i].convolution) : Index3{};
    Index3 lo{}, hi{};
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t first = part.anchor->offset[d] - before[d];
      lo[d] = part.anchor->factor[d] * part.box().lo()[d] + first;
      hi[d] = part.anchor->factor[d] * part.box().hi()[d] + first;
    }
    region = region.hull(Box(lo, hi));
  }
  return region.intersect(plan.image.box);
}

// Where measured samples that are further apart stand in the picture, unless each is in the middle of its pixels.
std::string coarse_notice(const RunPlan& plan, const DistributedOperator& A, const Box& picture) {
  if (plan.truth) return {};
  for (std::size_t i = 0; i < A.range().parts(); ++i) {
    const std::optional<Convolution>& part = A.traits().parts[i].convolution;
    if (!part || !part->decimates()) continue;
    const Index3& f = part->factor;
    std::vector<std::string> centers, middles, bins;  // of the first sample, in pixels of the picture
    bool off = false;
    for (std::size_t d = plan.image.volume() ? 0 : 1; d < 3; ++d) {
      double sum = 0, moment = 0;
      const std::array<std::int64_t, 3> others{0, d == 0 ? 2 : 1, d == 2 ? 2 : 3};
      const at::Tensor taps = part->taps.sum(at::IntArrayRef(others)).contiguous();
      for (std::int64_t j = 0; j < taps.size(0); ++j) {
        const double tap = taps.const_data_ptr<double>()[j];
        sum += tap;
        moment += tap * static_cast<double>(part->origin[d] - j);
      }
      const auto own = static_cast<double>(A.range().part(i).anchor->offset[d] - picture.lo()[d]);
      const double center = std::round(100 * (own + moment / sum)) / 100 + 0.0,  // and no -0
          middle = static_cast<double>(f[d] - 1) / 2;
      const char* const axis = d == 0 ? "slice" : d == 1 ? "row" : "column";
      centers.push_back(fmt::format("{} {:.4g}", axis, center));
      middles.push_back(fmt::format("{} {:.4g}", axis, middle));
      bins.push_back(fmt::format("{}", f[d]));
      off = off || (f[d] > 1 && std::abs(center - middle) > 0.75);
    }
    if (off)
      return fmt::format(
          "the first sample is centered at {} of the {}, where binned {} would have theirs at {} (the middle "
          "of "
          "the first {}): problem.operator.phase and kernel.center say where",
          fmt::join(centers, ", "), plan.image.volume() ? "volume" : "picture",
          plan.image.volume() ? "voxels" : "pixels", fmt::join(middles, ", "), fmt::join(bins, " x "));
  }
  return {};
}

}  // namespace

std::vector<StateField> prefixed(const std::string& prefix, std::vector<StateField> fields) {
  for (StateField& f : fields) f.name = prefix + f.name;
  return fields;
}

StopRule stop_rule(const JobConfig& job) {
  const StopConfig& stop = job.solver.stop;
  return {static_cast<int>(job.solver.iterations), stop.residual, stop.chi2, stop.rounding};
}

JobRun::JobRun(Measured measured_data, std::optional<Checkpoint> checkpoint, const Communicator& communicator,
               const std::function<void()>& pause)
    : plan(std::move(measured_data.plan)),
      said(std::move(measured_data.said)),
      from(std::move(checkpoint)),
      comm(communicator),
      started(std::move(measured_data.started)),
      denoiser(std::move(measured_data.denoiser)),
      problem(std::move(measured_data.problem)),
      reducer(comm),
      space(comm, &reducer) {
  pause();
  if (from) {
    const auto number = [&](const char* key, double otherwise) {
      const auto found = from->numbers.find(key);
      return found == from->numbers.end() ? otherwise : found->second;
    };
    raised = number("raised", 1);
    problem.noise_sigma = number("noise", problem.noise_sigma);
    level_said_ = raised > 1 && (problem.weights.empty() || problem.marked);
  }
  data = make_data_term(plan, problem, space);
  // Up to 50 passes of operator and adjoint, where no formula says it: not for solvers without a step and a denoiser.
  const SolverRow& row = find_solver(plan.job.solver.name);
  const double L = row.once || row.balances || row.bare ? 1 : data->lipschitz();
  TESSERA_VALIDATE(std::isfinite(L) && L > 0, "the operator's squared norm is ", L,
                   " (no sample that counts depends on the image, or a value is not finite) see ",
                   "problem.operator, its mask and kernel, and problem.weights");
  denoiser->set_noise(problem.noise_sigma / std::sqrt(L));
  fields = prefixed("data/", data->state());
  if (from) restore_numbers(*from, fields);
  start_ = from ? problem.A->make_image().zero_() : starting_image(plan, problem, *data, space);
  start_rms_ =
      space.norm(start_) / std::sqrt(static_cast<double>(plan.image.box.pixels() * plan.image.channels));
  TESSERA_VALIDATE(std::isfinite(start_rms_),
                   "the start of the iteration is not finite (a value of the measurement "
                   "or of solver.start is not) mask such samples by problem.weights, or correct the file");
  options = solver_options(plan, problem.noise_sigma, L, problem.marked);
  if (!from) raise_noise(L);
  measured = problem.y.front();
  problem.y.clear();  // the data term holds them
  if (plan.job.problem.bad.any() && !problem.weights.empty()) weights = problem.weights.front();
  problem.weights.clear();
  clipped = !problem.ends.empty();
  problem.ends.clear();
  if (from) keep_schedules(*from, options);
  early_ = make_early_denoiser(plan, *denoiser, options, comm, started.transport);
  continued_ = make_continued(early_ ? *early_ : *denoiser, options.level);
  solver_ = make_solver(plan.job.solver.name, {*data, *continued_, space, options, start_});
  for (const auto& more : {prefixed("solver/", solver_->state()), prefixed("denoiser/", denoiser->state())})
    fields.insert(fields.end(), more.begin(), more.end());
  best_ = start_.clone();  // the loop's, so that a resumed run keeps it
  fields.push_back({.name = "loop/best", .image = &best_});
  place = checkpoint_place(plan, comm.rank());
  if (from) {
    restore_numbers(*from, fields);
    restore_images(*from, fields, place, comm);
  }
  scored = measured_region(plan, data->op());
  if (const std::string notice =
          coarse_notice(plan, data->op(), plan.job.output.crop ? scored : plan.image.box);
      !notice.empty())
    problem.notices.push_back(notice);
  pause();
}

JobConfig JobRun::resolved() const {
  JobConfig job = plan.job;
  if (level_said_) job.problem.noise = {.gaussian = problem.noise_sigma};
  if (std::isfinite(options.least) || std::isfinite(options.most))
    job.solver.bounds = std::array{options.least, options.most};
  return job;
}

void JobRun::score() {
  if (!problem.truth.defined()) return;
  metrics = std::make_unique<Metrics>(problem.truth, plan.decomposition, comm, started.transport, scored,
                                      plan.curve);
  psnr_start = from ? from->numbers.at("psnr_start") : metrics->psnr(start_, space);
}

LoopResult JobRun::iterate(const std::vector<Observer*>& observers,
                           const std::function<bool()>& stop_requested) {
  LoopResult result = run_loop(
      {.solver = *solver_,
       .data = *data,
       .reducer = reducer,
       .space = space,
       .stop = stop_rule(plan.job),
       .metrics = metrics.get(),
       .observers = observers,
       .stop_requested = stop_requested,
       .pixels = static_cast<double>(plan.image.box.pixels() * plan.image.channels),
       .settled = static_cast<int>(std::max(options.step.values().size(), options.sigma.values().size()) - 1),
       .range = std::max(1.0, start_rms_),
       .begin = from ? from->loop : LoopState{},
       .best = &best_});
  // The checkpoints are written: what only the iteration needed makes room for metrics and output.
  solver_.reset();
  start_.reset();
  best_.reset();
  return result;
}

}  // namespace tessera
