// SPDX-License-Identifier: BSD-3-Clause
#include "job/simulation.hpp"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/missing.hpp"

namespace tessera {
namespace {

// The job on the truth's own grid, cut so that a rank has there what it has of the unknown.
RunPlan on_truth_grid(const RunPlan& plan) {
  RunPlan fine = plan;
  const std::int64_t n = plan.job.problem.simulate.finer;
  fine.image = plan.image.on(plan.truth->box);
  Index3 alignment = plan.decomposition.alignment();
  for (std::size_t d : {std::size_t{1}, std::size_t{2}}) alignment[d] *= n;
  fine.decomposition = Decomposition(fine.image.box, alignment, plan.decomposition.grid());
  return fine;
}

// Mean over n x n pixels, summed in one order.
at::Tensor average(const at::Tensor& fine, std::int64_t n) {
  if (n == 1) return fine;
  at::Tensor sum;
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      const at::Tensor one = fine.slice(-2, r, std::nullopt, n).slice(-1, c, std::nullopt, n);
      if (sum.defined())
        sum.add_(one);
      else
        sum = one.clone();
    }
  return sum.div_(static_cast<double>(n * n)).contiguous();
}

// What one operator of the job makes of an image, and which samples a mask leaves.
struct Clean {
  Measurement samples, observed;
};

Clean apply(const RunPlan& plan, const OperatorConfig& config, std::size_t i, const at::Tensor& x,
            const Communicator& comm) {
  const auto A = describe(plan, {config}, i, {}, comm)
                     ->place({plan.domain(), at::TensorOptions(at::kDouble),
                              make_transport(comm, {}, TransportKind::mpi), comm});
  Clean clean{A->make_measurement(), A->observed()};
  A->apply(x, clean.samples);
  return clean;
}

// The blur that data are made with: of the size of the truth, every pixel a sample.
OperatorConfig true_blur(const RunPlan& plan, OperatorConfig part) {
  const SimulateConfig& s = plan.job.problem.simulate;
  if (const std::string& all = find_operator(part.type).every_pixel; !all.empty()) part.type = all;
  if (!s.boundary.empty())
    part.boundary = s.boundary;
  else if (part.boundary == "valid")
    part.boundary = "reflect";  // seen only where the kernel is larger than the one assumed
  if (s.kernel) {
    part.kernel = *s.kernel;
    return part;
  }
  TESSERA_VALIDATE(
      s.finer == 1 || std::holds_alternative<KernelConfig::Gaussian>(part.kernel.form),
      "problem.simulate.finer is ", s.finer,
      " and the kernel comes from a file (it stands on the unknown's grid) say the kernel on the "
      "truth's grid as problem.simulate.kernel");
  if (auto* gaussian = std::get_if<KernelConfig::Gaussian>(&part.kernel.form);
      gaussian && !gaussian->sigma_is_share)  // a share of the width has grown with it
    for (double& sigma : gaussian->sigma) sigma *= static_cast<double>(s.finer);
  return part;
}

// What the part of the layout samples of an image.
at::Tensor sampled(const at::Tensor& image, const Box& block, const ProductSpace::Part& part,
                   const Box& samples) {
  if (samples.empty()) return empty_block(part.space, samples, image.options());
  at::Tensor out = image;
  for (std::size_t d = image.dim() == 4 ? 0 : 1; d < 3; ++d) {
    const std::int64_t f = part.anchor->factor[d];
    const std::int64_t first = f * samples.lo()[d] + part.anchor->offset[d] - block.lo()[d];
    out = out.slice(static_cast<std::int64_t>(d) - 3, first, first + f * (samples.extent(d) - 1) + 1, f);
  }
  return out.contiguous();
}

// Quantization included; both 0 where there is none.
NoiseModel simulated_noise(const RunPlan& plan) {
  const ProblemConfig& p = plan.job.problem;
  NoiseModel noise{.gaussian = p.noise.gaussian, .poisson = p.noise.poisson};
  if (p.simulate.bits > 0) {
    const double step = 1 / (std::exp2(static_cast<double>(p.simulate.bits)) - 1);
    noise.gaussian = std::sqrt(noise.gaussian * noise.gaussian + step * step / 12);
  }
  return noise;
}

}  // namespace

Simulation simulate_samples(const RunPlan& plan, const ProductSpace& layout, const Communicator& comm) {
  const ProblemConfig& p = plan.job.problem;
  const SimulateConfig& how = p.simulate;
  const RunPlan fine = on_truth_grid(plan);
  const at::Tensor fine_truth = p.truth.empty() ? scene_block(fine, comm) : read_block(p.truth, fine, comm);
  refuse_missing(p.truth, fine_truth,
                 "what is measured of them would be none either, and no score would be one",
                 "fill them, or cut them off", comm);
  const at::Tensor fine_x = fine_truth.to(at::kCPU, at::kDouble);
  const at::Tensor x = average(fine_x, how.finer);

  Simulation out;
  out.truth = how.finer == 1 ? fine_truth : x.to(plan.options());
  out.samples.simulated = true;
  out.samples.noise = simulated_noise(plan);
  const Box block = plan.decomposition.block(comm.rank());
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    const bool blurs = find_operator(plan.parts[i].type).choice.kernel;
    Clean clean;
    if (blurs && (how.finer > 1 || how.kernel || !how.boundary.empty())) {
      OperatorConfig blur;
      comm.together([&] { blur = true_blur(plan, plan.parts[i]); });
      clean = apply(fine, blur, i, fine_x, comm);
      const std::size_t part = out.samples.y.size();
      clean.samples[0] = sampled(average(clean.samples[0], how.finer), block, layout.part(part),
                                 layout.block(part, comm.rank()));
    } else {
      clean = apply(plan, plan.parts[i], i, x, comm);
    }
    for (std::size_t k = 0; k < clean.samples.size(); ++k) {
      at::Tensor& y = clean.samples[k];
      const std::size_t part = out.samples.y.size();
      comm.together([&] {
        add_noise(y, {.gaussian = p.noise.gaussian, .poisson = p.noise.poisson},
                  static_cast<std::uint64_t>(p.seed), static_cast<std::uint32_t>(part),
                  layout.part(part).box(), layout.block(part, comm.rank()));
      });
      if (how.clip) y.clamp_(0, 1);
      if (how.bits > 0) {
        const double steps = std::exp2(static_cast<double>(how.bits)) - 1;
        y.mul_(steps).round_().div_(steps);
      }
      if (clean.observed[k].defined()) y.mul_(clean.observed[k]);  // no noise behind a mask
      out.samples.y.push_back(y.to(plan.options()));
    }
  }
  return out;
}

}  // namespace tessera
