// SPDX-License-Identifier: BSD-3-Clause
#include "job/set_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/core/error.hpp"
#include "tessera/samples/full_scale.hpp"

namespace tessera {

namespace {

// Weights of the samples, or the mask that an operator of nothing else is.
CountedBy counted_by(const RunPlan& plan, const Communicator& comm) {
  const ProblemConfig& p = plan.job.problem;
  if (p.measurements.empty() || plan.scan) return {};
  if (!p.weights.empty()) return {.weights = p.weights};
  if (plan.files->headers().weighs(p.measurements, comm)) return {.weights = p.measurements};
  if (plan.parts.size() != 1) return {};
  const std::optional<Option>& marks = find_operator(plan.parts[0].type).marks;
  const std::string mask = marks ? plan.parts[0].options.get<std::string>(*marks) : "";
  if (mask.empty()) return {};
  return {.marks = [&files = *plan.files, mask, comm](const SourceInfo& info, const Layout& layout) {
    const MaskFile& file = files.mask(mask, comm);
    const bool fits = file.info.box == info.box && (file.gray || file.info.channels == info.channels);
    return fits ? files.marks(mask, layout, comm) : at::Tensor();  // another one is refused later
  }};
}

// An offset must change nothing but what is 0 inside: no word of the job counts from there.
BothSigns both_signs(const RunPlan& plan) {
  const ProblemConfig& p = plan.job.problem;
  const bool open = !plan.scan && p.likelihood.type == "gaussian" && p.noise.poisson == 0 && p.dark.empty() &&
                    p.flat.empty() && !plan.job.solver.bounds && plan.job.solver.sigma.automatic &&
                    (p.noise.gaussian == 0 || p.noise.unit == "file" || p.measurements.empty()) &&
                    std::ranges::none_of(plan.parts, [](const OperatorConfig& part) {
                      return find_operator(part.type).own_range || part.boundary == "zero";
                    });
  return !open ? BothSigns::as_others : p.measurements.empty() ? BothSigns::of_truth : BothSigns::of_samples;
}

}  // namespace

void set_scale(RunPlan& plan, const std::vector<std::string>& sources, const Communicator& comm) {
  const ProblemConfig& p = plan.job.problem;
  FileHeaders& headers = plan.files->headers();
  const CountedBy counted = counted_by(plan, comm);
  FullScale scale{p.scale.offset, p.scale.factor};
  if (plan.scan && p.scale.factor == 0) {
    scale.factor = plan.scan->level;
    scale.note = fmt::format(
        "full scale: the samples are line integrals, whose peaks and masses are those of an image that "
        "reaches about {:.4g}, "
        "which is taken for 1 (scale.factor)",
        scale.factor);
  } else if (p.scale.from_data) {
    const MeasurementOrigin& origin = headers.origin(p.measurements, comm);
    const double most = origin.internal
                            ? brightest_samples(sources, origin.factor, origin.offset, headers, comm, counted)
                            : brightest_samples(sources, 1, 0, headers, comm, counted);
    TESSERA_VALIDATE(most > p.scale.offset, "problem.scale.factor is data (no sample of ", p.measurements,
                     " lies above the offset ", p.scale.offset, ") write a number");
    scale.factor = most - p.scale.offset;
  } else if (p.scale.factor == 0) {
    scale = full_scale_of(plan.data, sources, p.scale.offset, headers, comm, counted, both_signs(plan));
  }
  if (!scale.note.empty()) plan.notices.push_back(scale.note);
  plan.offset = scale.offset;
  plan.factor = scale.factor;
  plan.truth_scale = {plan.offset, plan.factor};
  // A truth of another kind of number has a white of its own; measurement and truth need not share units.
  if (!p.measurements.empty() && !p.truth.empty() &&
      (plan.truth->says_scale || plan.truth->type != plan.data.type)) {
    const bool signs = scale.offset < 0 && p.scale.factor == 0 && !p.scale.from_data && p.scale.offset == 0;
    const FullScale own = full_scale_of(*plan.truth, {p.truth}, 0, headers, comm, {},
                                        signs ? BothSigns::of_truth : BothSigns::as_others);
    const bool real = !plan.truth->says_scale && plan.truth->type.starts_with("float");
    constexpr double kSame = 1.5;  // Hounsfield units are what they are, in any type
    const bool same =
        signs && own.offset < 0 && own.factor < kSame * plan.factor && plan.factor < kSame * own.factor;
    if (!same && (!real || (own.factor == 1 && plan.factor > 8))) plan.truth_scale = {own.offset, own.factor};
    if (plan.truth_scale != std::array{plan.offset, plan.factor})
      plan.notices.push_back(concat("the truth is in units of its own (", plan.truth->type,
                                    ", the measurement is ", plan.data.type, "): ", plan.truth_scale[0],
                                    " is 0 and ", plan.truth_scale[0] + plan.truth_scale[1], " is 1"));
  }
}

void set_curve(RunPlan& plan) {
  const ProblemConfig& p = plan.job.problem;
  std::optional<ToneCurve>& curve = plan.job.problem.scale.curve;
  if (curve) {
    plan.curve = *curve;
    if (curve->none()) return;
    TESSERA_VALIDATE(
        !plan.scan, "problem.scale.curve stands beside a scan (its samples are line integrals) leave it out");
    TESSERA_VALIDATE(p.dark.empty() && p.flat.empty(), "problem.scale.curve stands beside ",
                     p.dark.empty() ? "problem.flat" : "problem.dark",
                     " (frames of a camera are of light, not of a curve of it) leave one of them out");
    return;
  }
  // Photographs: blurred pictures of which the file says a curve, or whose format has one by convention.
  plan.curve_open = !p.measurements.empty() && !plan.scan && p.dark.empty() && p.flat.empty() &&
                    p.likelihood.type == "gaussian" && p.noise.poisson == 0 &&
                    plan.data.light.says != StoredLight::Says::nothing && !plan.data.light.curve.none() &&
                    !plan.parts.empty() &&
                    std::all_of(plan.parts.begin(), plan.parts.end(), [](const OperatorConfig& part) {
                      return find_operator(part.type).choice.kernel;
                    });
  if (!plan.curve_open) curve = ToneCurve();
}

}  // namespace tessera
