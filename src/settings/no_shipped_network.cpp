// SPDX-License-Identifier: BSD-3-Clause
#include "rules.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera::rules {

std::optional<Decision> no_shipped_network(const JobConfig& job, const Facts& facts) {
  if (!job.solver.chosen.prior || !find_denoiser(job.denoiser.network).network()) return std::nullopt;
  if (facts.image.volume() && !facts.on_grid)
    return Decision{.denoiser = "tv",
                    .reason = concat("denoiser tv: the image is a volume under ", facts.operator_name,
                                     " (the shipped networks were measured on volumes whose samples lie on "
                                     "their grid)")};
  if (!facts.shipped)
    return Decision{.denoiser = "tv",
                    .reason = concat("denoiser tv: the image has ", facts.image.channels,
                                     " channels (the shipped networks know 1 and 3)")};
  return std::nullopt;
}

}  // namespace tessera::rules
