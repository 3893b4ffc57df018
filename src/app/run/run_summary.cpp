// SPDX-License-Identifier: BSD-3-Clause
#include "run/run_summary.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/core/version.hpp"

namespace tessera {

nlohmann::ordered_json to_json(const RunSummary& summary, const LoopResult& result, const RunPlan& plan) {
  using Json = nlohmann::ordered_json;
  const auto number = [](double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); };
  Json s;
  s["schema"] = 1;
  s["status"] = name(result.reason);
  s["ended_by"] = result.ended_by;
  s["psnr"] = number(summary.psnr);
  s["psnr_8bit"] = number(summary.psnr_8bit);
  s["ssim"] = number(summary.ssim.reflected);
  s["ssim_valid"] = number(summary.ssim.valid);
  s["psnr_start"] = number(summary.psnr_start);
  if (summary.scored) {
    Json& region = s["scored_region"] = Json::array();
    for (std::size_t d = plan.image.volume() ? 0 : 1; d < 3; ++d)
      region.push_back({summary.scored->lo()[d], summary.scored->hi()[d]});
  }
  s["iterations"] = result.iterations;
  s["trial_iterations"] = summary.trial_iterations;
  s["written_iteration"] = result.kept + 1;
  s["cause"] = result.cause;
  s["residual"] = number(result.last.residual);
  s["objective"] = number(result.last.objective);
  s["chi2"] = number(result.last.chi2);
  s["noise"] = number(summary.noise);
  s["lambda"] = number(summary.strength);
  s["prox"] = {{"calls", summary.prox.calls},
               {"iterations", summary.prox.iterations},
               {"missed", summary.prox.missed},
               {"worst_error", summary.prox.worst}};
  s["seconds"] = result.seconds;
  s["seconds_per_iteration"] = summary.seconds_per_iteration;
  s["restarts"] = summary.restarts;
  s["ranks"] = summary.ranks;
  s["peak_bytes_per_rank"] = summary.loop.peak_bytes;
  s["peak_data_bytes_per_rank"] = summary.loop.peak_data_bytes;
  s["resident_peak_bytes_per_rank"] = summary.loop.resident_peak_bytes;
  if (const auto& files = summary.loop.scratch_bytes;
      std::any_of(files.begin(), files.end(), [](double b) { return b > 0; }))
    s["scratch"] = {{"bytes_per_rank", files},
                    {"read_per_iteration", summary.loop.read_per_iteration},
                    {"written_per_iteration", summary.loop.written_per_iteration}};
  s["bytes_sent_per_iteration"] = summary.loop.bytes_sent_per_iteration;
  s["exposed_wait_fraction"] = summary.loop.exposed_wait_fraction;
  s["checkpoint_bytes"] = summary.checkpoint_bytes;
  s["checkpoint_seconds"] = summary.checkpoint_seconds;
  s["device"] = plan.device.is_cuda() ? "cuda" : "cpu";
  s["precision"] = word(plan.job.execution.precision);
  s["transport"] = word(summary.transport);
  s["tessera"] = version();
  return s;
}

}  // namespace tessera
