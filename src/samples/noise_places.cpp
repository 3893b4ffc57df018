// SPDX-License-Identifier: BSD-3-Clause
#include "noise_places.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "noise_level.hpp"
#include "sample_checks.hpp"
#include "tessera/core/error.hpp"
#include "tessera/samples/local_noise.hpp"
#include "tessera/samples/order_statistics.hpp"
#include "tessera/samples/repeats.hpp"

namespace tessera {
namespace {

std::string in_file(const Survey& survey, double level) {
  return fmt::format("{:.3g}{}", level * survey.factor, survey.factor == 1 ? "" : " in file units");
}

// Whether neighbors are of two kinds; the level of each kind is then taken.
bool alternates(const Survey& survey, const Measurement& y, const Measurement& marks, Surveyed& seen,
                const Communicator& comm) {
  constexpr double kLess = 0.4;  // a picture, enlarged or not, has more details of every second sample
  const Alternation found = alternation(y, marks, seen.A->range(), comm);
  if (!(found.every_second > 0) || found.every_second > kLess * found.neighbors) return false;
  seen.warnings.push_back(fmt::format(
      "neighbors in the measurement differ by {}, every second sample by {} (as the colors of a sensor's "
      "mosaic do): "
      "demosaic it, or separate the two kinds, first; the noise is taken from every second sample",
      in_file(survey, found.neighbors), in_file(survey, found.every_second)));
  seen.mosaic = true;
  seen.noise = {.gaussian = found.every_second};
  seen.noise_source = level_text(survey, seen.noise) + ", estimated from every second sample";
  return true;
}

}  // namespace

void hold_noise_against_places(const Survey& survey, const Measurement& y, const Measurement& marks,
                               Surveyed& seen, const Communicator& comm) {
  // Photographs with white noise, and as they are, stay below 0.07 of the tiles, or below 0.25 of those that scatter.
  constexpr double kShare = 0.09, kWhite = 0.4, kMuch = 0.25;
  if (!survey.in_image_range() || seen.noise_colored || seen.noise_uneven || seen.noise_patterned ||
      alternates(survey, y, marks, seen, comm) || seen.noise.poisson > 0)
    return;
  const double sigma = seen.noise.gaussian;
  const auto found = stronger_places(y, marks, sigma, seen.A->range(), comm);
  if (!found || found->share < kShare || found->white < kWhite) return;
  const bool take = found->share >= kMuch;
  seen.warnings.push_back(fmt::format(
      "the noise differs over the picture: {} where it is least, {} in {:.0f} % of it (most of that between "
      "rows {} and {}, columns {} and {}){}: give each sample its own by problem.weights, 1 / noise^2",
      in_file(survey, sigma), in_file(survey, found->level), 100 * found->share, found->rows[0],
      found->rows[1], found->columns[0], found->columns[1],
      take ? ", and the larger one is taken for all" : ", and the smaller one is taken for all"));
  if (!take) return;
  seen.noise = {.gaussian = found->level};
  seen.noise_source = level_text(survey, seen.noise) + ", estimated from the data where they have most noise";
}

void hold_weights_against_scatter(const Survey& survey, const Measurement& weights, const Measurement& y,
                                  const Measurement& marks, bool told, Surveyed& seen,
                                  const Communicator& comm) {
  // Textures turn the slope of inverse variances, -1, into -1.3 to 0.2.
  constexpr double kTurned = 0.5, kRoots = -1.6, kRange = 1.3, kWide = 2.7, kTexture = 1.35;
  if (!survey.in_image_range()) return;
  Measurement used;
  for (std::size_t i = 0; i < y.size(); ++i) used.push_back(marks[i].mul(weights[i].gt(0)).contiguous());
  const auto found = weight_sense(y, used, weights, seen.A->range(), comm);
  if (!found || found->range < kRange) return;
  if (found->slope > kTurned && found->texture < kTexture) {
    const std::string what = fmt::format(
        "samples scatter more where problem.weights are larger, by their power {:.2g} (weights are inverse "
        "variances, so that more counts more; these look like {}) write {}",
        found->slope / 2, found->slope > 1.5 ? "standard deviations" : "variances",
        found->slope > 1.5 ? "1 / weights^2 into the file" : "1 / weights into the file");
    TESSERA_VALIDATE(told, what, "; where they are meant so, say their level as well, by problem.noise");
    seen.warnings.push_back(what);
  } else if (found->slope < kRoots && found->range > kWide) {
    seen.warnings.push_back(
        fmt::format("samples scatter as problem.weights to the power {:.2g} (inverse variances would have "
                    "-0.5; these look "
                    "like inverse standard deviations): write their squares into the file",
                    found->slope / 2));
  }
}

void leave_out_empty_part(const Survey& survey, const Measurement& stored, Measurement& marks, Surveyed& seen,
                          const Communicator& comm) {
  constexpr std::int64_t kOneIn = 100, kFew = 30;
  constexpr double kGap = 0.25;   // of the way from it to the middle of all others
  constexpr double kSteps = 1.5;  // of whole numbers: after 0 photons comes 1
  if (!survey.problem.weights.empty() || !survey.in_image_range()) return;
  const auto [least, most] = range_of(stored, marks, comm);
  if (!(least < most)) return;
  const ProductSpace& layout = seen.A->range();
  const Repeats repeats = find_repeats(stored, marks, layout, comm);
  const bool lowest = std::any_of(repeats.areas.begin(), repeats.areas.end(), [&](const Repeats::Area& area) {
    return static_cast<double>(area.value) == least;
  });
  double next = std::numeric_limits<double>::infinity();
  std::array<std::int64_t, 2> n{};  // at the least value, others
  const auto each = [&](const auto& what) {
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const auto *v = stored[i].const_data_ptr<float>(), *m = marks[i].const_data_ptr<float>();
      for (std::int64_t k = 0; k < stored[i].numel(); ++k)
        if (m[k] != 0) what(v[k]);
    }
  };
  each([&, least = least](float v) {
    const bool other = static_cast<double>(v) != least;
    ++n[other ? 1 : 0];
    if (other) next = std::min(next, static_cast<double>(v));
  });
  comm.all_reduce({&next, 1}, Reduce::min);
  comm.all_reduce(n, Reduce::sum);
  const auto [empty, rest] = n;
  // Side by side, or dots of a sensor that saw nothing there.
  if (lowest ? empty * kOneIn < empty + rest : empty < kFew || empty > rest) return;
  if (next - least < kSteps * repeats.step) return;
  std::vector<float> others;
  each([&, least = least](float v) {
    if (static_cast<double>(v) != least) others.push_back(v);
  });
  const auto middle = static_cast<double>(median(others, comm));
  if (rest < empty / 100 || next - least < kGap * (middle - least)) return;
  // Drawings, labels and the like have areas too, but no noise, and dots, but few values.
  Measurement left;
  for (std::size_t i = 0; i < marks.size(); ++i)
    left.push_back(marks[i].masked_fill(stored[i].eq(static_cast<float>(least)), 0));
  if (lowest && !(alternation(stored, left, layout, comm).neighbors > 0)) return;
  if (!lowest) {
    std::set<float> tenths;
    for (std::int64_t k = 1; k < 10; ++k) tenths.insert(order_statistic(others, k * (rest - 1) / 10, comm));
    if (tenths.size() < 9) return;
  }
  marks = left;
  seen.notices.push_back(fmt::format(
      "{} of {} samples are exactly {:.6g}, {}far below all others ({:.6g} and more): {} count{} 0; weights "
      "of 1 by "
      "problem.weights would count {}",
      empty, empty + rest, least * survey.factor + survey.offset, lowest ? "side by side and " : "",
      next * survey.factor + survey.offset, lowest ? "an empty part, which" : "dead or without a value, they",
      lowest ? "s" : "", lowest ? "it" : "them"));
}

}  // namespace tessera
