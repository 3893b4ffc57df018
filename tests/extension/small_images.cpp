// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/settings/settings.hpp"

namespace tessera {

/// Total variation for pictures below 64 pixels on a side: a network's windows see more border than picture.
SettingsRule small_images() {
  constexpr std::int64_t kSmall = 64;
  return {.name = "small_images", .decide = [](const JobConfig& job, const Facts& facts) {
            const std::int64_t side = std::min(facts.image.box.extent(1), facts.image.box.extent(2));
            std::optional<Decision> decision;
            if (job.solver.chosen.prior && find_denoiser(job.denoiser.network).network() && side < kSmall)
              decision = {.denoiser = "tv",
                          .reason = "denoiser tv: the picture is small (below 64 pixels on a side)"};
            return decision;
          }};
}

}  // namespace tessera
