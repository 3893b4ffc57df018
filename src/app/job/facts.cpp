// SPDX-License-Identifier: BSD-3-Clause
#include "job/facts.hpp"

#include <algorithm>

#include "tessera/app/job_denoiser.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {
namespace {

// The one operator that gives each pixel back.
bool is_identity(const OperatorTraits& traits) {
  if (traits.parts.size() != 1 || !traits.parts[0].pointwise || !traits.parts[0].convolution) return false;
  const at::Tensor& taps = traits.parts[0].convolution->taps;
  return taps.numel() == taps.size(0) && taps.eq(1).all().item().toBool();
}

double samples_per_pixel(const ProductSpace& range, const ImageSpace& image) {
  double samples = 0;
  for (std::size_t i = 0; i < range.parts(); ++i)
    samples += static_cast<double>(range.part(i).box().pixels() * range.part(i).space.channels);
  return samples / static_cast<double>(image.box.pixels() * image.channels);
}

}  // namespace

Facts facts_of(const RunPlan& plan) {
  Facts facts;
  facts.image = plan.image;
  facts.operator_name = plan.job.problem.op.type;
  facts.shipped = has_default_weights(plan.image.channels);
  facts.takes_level = find_denoiser(plan.job.denoiser.network).takes_sigma;
  if (plan.parts.empty()) {  // in memory
    const OperatorTraits traits = plan.op->traits(plan.domain());
    facts.pointwise = traits.pointwise();
    facts.on_grid = facts.pointwise || traits.convolutional();
    facts.identity = is_identity(traits);
    facts.operator_name = "this operator";
  } else {
    facts.on_grid = std::ranges::all_of(
        plan.parts, [](const OperatorConfig& part) { return find_operator(part.type).choice.same_grid; });
    facts.pointwise = std::ranges::all_of(
        plan.parts, [](const OperatorConfig& part) { return find_operator(part.type).choice.pointwise; });
    facts.identity = plan.job.problem.op.type == "identity";
  }
  return facts;
}

Facts facts_of(const RunPlan& plan, const Problem& problem) {
  Facts facts = facts_of(plan);
  const DenoiserRow& denoiser = find_denoiser(plan.job.denoiser.network);
  facts.network_takes_level =
      plan.network ? plan.network->takes_sigma() : denoiser.learned && denoiser.takes_sigma;
  const OperatorTraits& traits = problem.A->traits();
  facts.convolves = traits.convolutional();
  facts.scans = traits.radial.has_value();
  facts.samples = Facts::Samples{.noise = problem.noise_sigma,
                                 .per_pixel = samples_per_pixel(problem.A->range(), plan.image),
                                 .missing = problem.missing,
                                 .marked = problem.marked,
                                 .weighed = !problem.weights.empty(),
                                 .few_bright = problem.few_bright};
  return facts;
}

}  // namespace tessera
