// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "tessera/app/output.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/solve/metrics.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {

/// What a run that has ended says of itself. NaN: there is no such number.
struct RunSummary {
  double psnr = NAN, psnr_8bit = NAN, psnr_start = NAN;
  Ssim ssim;
  std::optional<Box> scored;  // the region that these are of
  double seconds_per_iteration = 0;
  double noise = 0, strength = NAN;
  ProxReport prox;
  int restarts = 0, ranks = 1, trial_iterations = 0;
  LoopSummary loop;
  std::int64_t checkpoint_bytes = 0;
  double checkpoint_seconds = 0;
  TransportKind transport = TransportKind::automatic;
};

/// summary.json, without diagnostics.
nlohmann::ordered_json to_json(const RunSummary& summary, const LoopResult& result, const RunPlan& plan);

}  // namespace tessera
