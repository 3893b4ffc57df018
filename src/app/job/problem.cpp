// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/problem.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "job/gray.hpp"
#include "job/simulation.hpp"
#include "job/survey.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/measurement_file.hpp"
#include "tessera/samples/flag_bits.hpp"
#include "tessera/samples/masked_pixels.hpp"
#include "tessera/samples/missing.hpp"
#include "tessera/samples/order_statistics.hpp"
#include "tessera/samples/scan_samples.hpp"

namespace tessera {
namespace {

// A file in the measurement's layout, this rank's samples on the host, as they are stored: in float64, since
// fluxes of 1e-18 have inverse variances of 1e39, which float32 does not hold before they are rescaled.
Measurement read_parts(const RunPlan& plan, const std::string& path, const std::string& kind,
                       const ProductSpace& layout, const Communicator& comm) {
  Measurement out;
  std::vector<MeasurementPart> parts;
  std::vector<MeasurementPartInfo> stored;
  if (plan.gray && kind == "measurements") stored = plan.files->headers().parts(path, comm);
  for (std::size_t i = 0; i < layout.parts(); ++i) {
    const std::int64_t channels = stored_channels(
        plan, i < stored.size() ? stored[i].source.channels : kColors, layout.part(i).space.channels);
    out.push_back(
        empty_block(channels, layout.block(i, comm.rank()), at::kDouble, layout.part(i).space.axes));
    parts.push_back({layout.part(i).box(), layout.layout(i), view(out.back(), layout.block(i, comm.rank()))});
  }
  read_measurements(path, kind, parts, comm);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = with_channels(out[i], layout.part(i).space.channels);
  return out;
}

// Dark frames or flat fields in the measurement's layout; one frame counts for all slices of a stack.
Measurement read_frames(const RunPlan& plan, const std::string& path, const ProductSpace& layout,
                        const Communicator& comm) {
  const Box all = layout.part(0).box(), mine = layout.block(0, comm.rank());
  const ImageFormat* const format = find_format(path);
  if (layout.parts() != 1 || all.extent(0) == 1 || !format ||
      (format->measurements && path.rfind(":/") == std::string::npos))
    return read_parts(plan, path, "frames", layout, comm);
  const SourceInfo& info = plan.files->headers().image(path, comm);
  const Box frame = info.box;
  if (frame.extent(0) != 1 || frame.extent(1) != all.extent(1) || frame.extent(2) != all.extent(2) ||
      info.channels != 1)
    return read_parts(plan, path, "frames", layout, comm);
  const at::Tensor whole = empty_block(1, frame, at::kDouble, Axes::volume);
  comm.together([&] {
    if (comm.rank() == 0) read_image(path, Layout({frame}), view(whole, frame), Communicator());
  });
  comm.broadcast(whole.data_ptr(), whole.numel() * 8, 0);
  const ImageSpace& space = layout.part(0).space;
  at::Tensor block = empty_block(space.channels, mine, at::kDouble, space.axes);
  if (!mine.empty())
    block.copy_(whole.narrow(2, mine.lo()[1], mine.extent(1))
                    .narrow(3, mine.lo()[2], mine.extent(2))
                    .expand_as(block));
  return {block};
}

// Samples that flags say are bad, as the job asks.
void read_flags(const RunPlan& plan, const ProductSpace& layout, Samples& s, const Communicator& comm) {
  const BadConfig& bad = plan.job.problem.bad;
  if (bad.flags.empty()) return;
  std::uint64_t bits = ~std::uint64_t{0};
  if (!bad.bits.empty()) bits = flag_bits(bad.bits, record_from(bad.flags, comm).metadata.text);
  std::int64_t broken = 0;
  for (const at::Tensor& flags : read_parts(plan, bad.flags, "frames", layout, comm)) {
    const at::Tensor marks = at::zeros_like(flags, at::kFloat);
    const double* const f = flags.const_data_ptr<double>();
    float* const m = marks.data_ptr<float>();
    for (std::int64_t k = 0, n = flags.numel(); k < n; ++k) {
      const bool number = std::isfinite(f[k]);  // missing flags say nothing
      if (number && (f[k] != std::floor(f[k]) || std::abs(f[k]) >= 0x1p52)) ++broken;
      if (number &&
          (static_cast<std::uint64_t>(static_cast<std::int64_t>(std::clamp(f[k], -0x1p52, 0x1p52))) & bits) !=
              0)
        m[k] = 1;
    }
    s.flagged.push_back(marks);
  }
  comm.all_reduce({&broken, 1}, Reduce::sum);
  TESSERA_VALIDATE(broken == 0, bad.flags, " has ", broken,
                   " values that are no whole numbers (flags are bits) name the picture of the flags in "
                   "problem.bad.flags");
  s.flags = bad.bits.empty() ? "flags (problem.bad.flags)"
                             : fmt::format("the flags {} (problem.bad)", fmt::join(bad.bits, ", "));
}

// Divided by its mean over all parts; 0 where it is no number above 0.
Measurement read_flat(const RunPlan& plan, const ProductSpace& layout, const Communicator& comm) {
  Measurement flat = read_frames(plan, plan.job.problem.flat, layout, comm);
  for (at::Tensor& part : flat) part.masked_fill_(part.gt(0).logical_and_(part.isfinite()).logical_not_(), 0);
  fit_float(flat, comm);
  double sum = 0, n = 0;
  for (const at::Tensor& part : flat) {
    sum += ordered_sum({part.const_data_ptr<float>(), static_cast<std::size_t>(part.numel())}, comm);
    n += static_cast<double>(part.ne(0).sum().item().toLong());
  }
  comm.all_reduce({&n, 1}, Reduce::sum);
  TESSERA_VALIDATE(n > 0, plan.job.problem.flat,
                   " has no value above 0 (a flat field is a sensitivity) correct it");
  for (at::Tensor& part : flat) part = part.to(at::kDouble).div_(sum / n).to(at::kFloat);
  return flat;
}

// Data and image that do not belong together, with the boundary that would join them where there is one.
void check_sizes(const RunPlan& plan, const std::vector<MeasurementPartInfo>& parts,
                 const ProductSpace& layout, const Communicator& comm) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Box &got = parts[i].source.box, &wanted = layout.part(i).box();
    if (got == wanted) continue;
    std::string advice = "give files that belong together, or another operator";
    // Which operator of the job makes this part is plain where each makes one.
    OperatorConfig other = plan.parts.size() == parts.size() ? plan.parts[i] : OperatorConfig();
    const std::string assumed = other.boundary;
    for (const char* boundary : {"valid", "reflect"}) {
      if (!find_operator(other.type).choice.kernel) break;
      other.boundary = boundary;
      const auto op = describe(plan, {other}, i, plan.device, comm);
      if (op->range(plan.domain()).part(0).box() == got)
        advice = concat("write 'boundary: ", boundary, "', which does");
    }
    // Under valid the image is larger than what is measured; a truth that was cut to that lacks its border.
    if (assumed == "valid")
      if (const std::optional<Box> image =
              describe(plan, {plan.parts[i]}, i, plan.device, comm)->image_of(got))
        advice = concat("give ", plan.truth ? "a truth" : "the size", " of ", sides(*image),
                        ", which valid needs around what is measured",
                        advice.starts_with("write") ? "; where nothing is known there, " + advice : "");
    const std::string of = plan.truth ? "the truth" : "problem.image.size";
    throw InputError(concat(parts[i].path, " is ", sides(got), " and ", of, " ", sides(plan.image.box),
                            " (an image of ", sides(plan.image.box), " has a measurement of ", sides(wanted),
                            " under this operator", assumed.empty() ? "" : concat(", boundary ", assumed),
                            ") ", advice));
  }
}

// What the masked pixels of a detector have, in the units of the file.
MaskedPixels masked_pixels(const Measurement& stored, const std::string& type, const Communicator& comm) {
  MaskedPixels masked(type);
  for (const at::Tensor& t : stored) {
    const auto* v = t.const_data_ptr<double>();
    for (std::int64_t k = 0, n = t.numel(); k < n; ++k) masked.count(v[k]);
  }
  masked.sum(comm);
  return masked;
}

Samples read_samples(const RunPlan& plan, const ProductSpace& layout, const Communicator& comm) {
  const ProblemConfig& p = plan.job.problem;
  FileHeaders& headers = plan.files->headers();
  const std::vector<MeasurementPartInfo>& parts = headers.parts(p.measurements, comm);
  check_sizes(plan, parts, layout, comm);
  Samples s;
  const MeasurementOrigin& origin = headers.origin(p.measurements, comm);
  s.light = origin.internal;
  s.y = read_parts(plan, p.measurements, "measurements", layout, comm);
  if (!p.flat.empty()) s.flat = read_flat(plan, layout, comm);
  if (!p.dark.empty()) {
    s.dark = read_frames(plan, p.dark, layout, comm);
    for (at::Tensor& t : s.dark) t = t.div_(plan.factor).to(at::kFloat);
  }
  if (const MaskedPixels masked = masked_pixels(s.y, parts[0].source.type, comm); masked.found()) {
    s.masked = (masked.mark() / 2 - plan.offset) / plan.factor;
    s.mark = masked.mark_text();
  }
  for (at::Tensor& t : s.y) {
    // Bit for bit, where the job's units are those of a file in internal ones.
    if (!origin.internal || origin.factor != plan.factor || origin.offset != plan.offset) {
      if (origin.internal) t.mul_(origin.factor).add_(origin.offset);
      t.sub_(plan.offset).div_(plan.factor);
    }
    t = t.to(at::kFloat);
  }
  if (p.weights.empty() && headers.weighs(p.measurements, comm))
    s.weights = read_parts(plan, p.measurements, "weights", layout, comm);
  if (!p.weights.empty()) s.weights = read_parts(plan, p.weights, "weights", layout, comm);
  take_weights(s, comm);
  read_flags(plan, layout, s, comm);
  return s;
}

}  // namespace

RunPlan with_estimate(RunPlan plan, const Problem& problem) {
  plan.curve = problem.curve;
  plan.job.problem.scale.curve = problem.curve;
  plan.curve_open = false;
  if (!problem.noise_estimated && !problem.noise_replaced) return plan;
  NoiseConfig& noise = plan.job.problem.noise;
  noise.gaussian = problem.noise.gaussian * (problem.noise_stored ? plan.factor : 1);
  noise.poisson = problem.noise.poisson;
  noise.unit = problem.noise_stored ? "file" : "internal";
  return plan;
}

at::Tensor read_block(const std::string& path, const RunPlan& plan, const Communicator& comm,
                      std::string* marks) {
  const PhaseScope phase(Phase::load);
  const SourceInfo& info = plan.files->headers().image(path, comm);
  const std::int64_t stored = stored_channels(plan, info.channels, plan.image.channels);
  TESSERA_VALIDATE(info.box == plan.image.box && info.channels == stored, path, " is ", info.channels, " x ",
                   sides(info.box), " (the image is ", plan.image.channels, " x ", sides(plan.image.box),
                   ") give a file of that size");
  const Box block = plan.decomposition.block(comm.rank());
  at::Tensor t = empty_block(plan.image.with_channels(stored), block, at::kDouble);
  read_image(path, plan.decomposition.layout(), view(t, block), comm);
  t = with_channels(t, plan.image.planes());
  const auto inside = [&] {
    return light_of(t.sub_(plan.offset).div_(plan.factor), plan.curve).to(plan.options());
  };
  if (!marks) return inside();
  if (const MaskedPixels masked = masked_pixels({t}, info.type, comm); masked.found()) {
    t.masked_fill_(t.ge(masked.mark() / 2), NAN);
    *marks = masked.text();
  }
  return inside();
}

Problem make_problem(const RunPlan& plan, const Communicator& comm,
                     const std::shared_ptr<Transport>& transport) {
  Problem problem;
  problem.A = plan.op->place({plan.domain(), plan.options(), transport, comm});
  const PhaseScope phase(Phase::load);
  const ProductSpace& layout = problem.A->range();
  Samples samples;
  if (plan.job.problem.measurements.empty()) {
    Simulation made = simulate_samples(plan, layout, comm);
    problem.truth = std::move(made.truth);
    samples = std::move(made.samples);
  } else {
    samples = plan.scan ? scan_samples(survey_of(plan), *plan.scan,
                                       plan.files->headers().origin(plan.job.problem.measurements, comm),
                                       layout, problem.notices, comm)
                        : read_samples(plan, layout, comm);
  }
  {
    const ReuseScope pool;  // looks make an array of the samples' size in every line
    weigh_samples(survey_of(plan), std::move(samples), problem, comm);
  }
  release_kept_tensors();
  if (!plan.job.problem.measurements.empty()) {
    if (plan.truth) {
      RunPlan own = plan;
      own.offset = plan.truth_scale[0];
      own.factor = plan.truth_scale[1];
      // In the curve of the data, unless its file says another one.
      own.curve = plan.truth->light.says == StoredLight::Says::curve && !problem.curve.none()
                      ? plan.truth->light.curve
                      : problem.curve;
      problem.truth = plan.job.problem.truth.empty() ? scene_block(plan, comm)
                                                     : read_block(plan.job.problem.truth, own, comm);
      refuse_missing(plan.job.problem.truth, problem.truth, "no score would be one",
                     "fill them, cut them off, or leave problem.truth out", comm);
    }
  }
  return problem;
}

}  // namespace tessera
