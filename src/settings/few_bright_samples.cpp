// SPDX-License-Identifier: BSD-3-Clause
#include "rules.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera::rules {
namespace {

// Of twelve drawn star fields (tests/bench/points.py), four of them set aside, 5.4 to 24 dB more than the network or total
// variation on seven. Ended by chi2 1 or 0.9 it is 1 to 18 dB worse: chi2 says when the empty sky is explained.
constexpr std::int64_t kStarPasses = 100;

}  // namespace

std::optional<Decision> few_bright_samples(const JobConfig& job, const Facts& facts) {
  const SolverConfig& s = job.solver;
  if (!facts.samples || !facts.samples->few_bright || !s.chosen.prior ||
      !find_denoiser(job.denoiser.network).like_network())
    return std::nullopt;
  const FewBright& found = *facts.samples->few_bright;
  const bool open =
      s.chosen.solver && s.chosen.iterations && s.step.automatic && s.sigma.automatic && !s.lambda;
  const bool stars = found.starry && open && job.problem.likelihood.type == "gaussian";
  if (stars && found.gain_known)
    return Decision{
        .solver = "richardson_lucy",
        .iterations = kStarPasses,
        .reason = concat("solver richardson_lucy, ", kStarPasses, " iterations: ", found.seen,
                         " (counts of stars, of which a network or total variation leaves 3 dB less "
                         "and more): a section solver decides otherwise")};
  const char* const more =
      "if they are counts of stars, richardson_lucy makes 3 dB more of them: write 'noise: {poisson: GAIN, "
      "unit: file}' in problem";
  if (found.faint)
    return Decision{.denoiser = "tv",
                    .reason = concat("denoiser tv: ", found.seen,
                                     " (networks are trained on pictures whose noise is above ", found.least,
                                     ", and leave marks beside such samples): a section denoiser decides "
                                     "otherwise",
                                     stars ? concat("; ", more) : "")};
  if (stars) return Decision{.reason = concat("few samples are bright: ", found.seen, "; ", more)};
  return std::nullopt;
}

}  // namespace tessera::rules
