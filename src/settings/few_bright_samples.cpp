// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "rules.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera::rules {

std::optional<Decision> few_bright_samples(const JobConfig& job, const Facts& facts) {
  if (!facts.samples || !facts.samples->few_bright || !job.solver.chosen.prior ||
      !find_denoiser(job.denoiser.network).network())
    return std::nullopt;
  const Facts::FewBright& found = *facts.samples->few_bright;
  return Decision{
      .denoiser = "tv",
      .reason = fmt::format(
          "denoiser tv: {:.2g} % of the samples lie above an eighth of the brightest, {}, and the "
          "noise is {:.2g} of it, {:.3g} in file units (networks are trained on pictures whose "
          "noise is above {}, and leave marks beside such samples): a section denoiser decides "
          "otherwise",
          found.percent, found.brightest, found.noise, found.noise_file, found.least)};
}

}  // namespace tessera::rules
