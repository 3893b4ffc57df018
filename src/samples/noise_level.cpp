// SPDX-License-Identifier: BSD-3-Clause
#include "noise_level.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "photograph.hpp"
#include "sample_checks.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/jpeg_step.hpp"
#include "tessera/samples/noise_estimate.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

// Whether channels differ by more than rounding makes of a gray picture.
bool has_color(const Measurement& y, const Communicator& comm) {
  constexpr double kGray = 0.004;
  std::array<double, 2> sums{};  // of differences, samples
  for (const at::Tensor& part : y) {
    if (part.size(0) < 3 || part.numel() == 0) continue;
    const at::Tensor apart = part.narrow(0, 0, 2).sub(part.narrow(0, 1, 2)).abs_().nan_to_num_(0.0, 0.0, 0.0);
    sums[0] += apart.sum(at::kDouble).item().toDouble();
    sums[1] += static_cast<double>(apart.numel());
  }
  comm.all_reduce(sums, Reduce::sum);
  return sums[0] > kGray * sums[1];
}

double mean_of(const Measurement& y, const Measurement& marks, const Communicator& comm) {
  Measurement counted;
  for (std::size_t i = 0; i < y.size(); ++i)
    counted.push_back(y[i].masked_fill(marks[i].eq(0), 0).clamp_min(0).contiguous());
  double sum = 0;
  std::int64_t n = 0;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    sum +=
        ordered_sum({counted[i].const_data_ptr<float>(), static_cast<std::size_t>(counted[i].numel())}, comm);
    n += marks[i].count_nonzero().item().toLong();
  }
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return sum / static_cast<double>(std::max<std::int64_t>(1, n));
}

// What a JPEG was rounded to, in internal range, known to all ranks.
JpegSteps jpeg_steps_of(const Survey& survey, const Communicator& comm) {
  const JpegSteps steps = comm.rank() == 0 ? jpeg_steps(survey.problem.measurements) : JpegSteps{};
  std::array<double, 3> all{steps.low / survey.factor, steps.high / survey.factor,
                            steps.coarse_color ? 1.0 : 0.0};
  comm.all_reduce(all, Reduce::max);
  return {.low = all[0], .high = all[1], .coarse_color = all[2] > 0};
}

std::string colored_text(const ColoredNoise& noise) {
  return concat(
      noise.of_stored ? " of stored values" : "",
      noise.uneven
          ? ", estimated from the data: in places it is stronger than where the picture is flat, and the "
            "stronger one is taken (problem.weights, 1 / noise^2, give each sample its own)"
          : ", estimated from the data: details of more than a pixel scatter more than finer ones, as "
            "compression, demosaicking or enlarging leave it");
}

// Speckle, or what looks like it.
void take_proportional(const Survey& survey, double share, double mean, Surveyed& seen) {
  const bool blurred =
      std::ranges::any_of(survey.parts, [](const Survey::Part& part) { return part.kernel; });
  seen.noise = {.gaussian = share * mean};
  seen.noise_proportional = share;
  seen.noise_source = fmt::format("{:.3g} of the signal, estimated from the data", share);
  seen.warnings.push_back(fmt::format(
      "the noise grows in proportion to the signal, {:.2g} of it (as speckle of radar, ultrasound and lasers "
      "does, or "
      "photons above an offset that was not subtracted) samples are weighed so; {}write an offset as "
      "problem.scale.offset",
      share, blurred ? "" : "of speckle give numpy.log(measurement) and take exp of the result, or else "));
}

}  // namespace

std::string level_text(const Survey& survey, const NoiseModel& n) {
  std::string out;
  const auto add = [&](const char* name, double v) {
    if (v <= 0) return;
    out += fmt::format("{}{} {:.4g}", out.empty() ? "" : ", ", name, v);
    if (survey.factor != 1) out += fmt::format(" ({:.4g} in file units)", v * survey.factor);
  };
  add("gaussian", n.gaussian);
  add("poisson gain", n.poisson);
  return out;
}

std::string percent_text(double error, double value) {
  return value > 0 ? fmt::format("{:.2g} %", 100 * error / value) : "0 %";
}

bool is_jpeg(const Survey& survey, const Communicator& comm) { return jpeg_steps_of(survey, comm).high > 0; }

std::vector<std::vector<double>> estimate_level(const Survey& survey, const Measurement& y,
                                                const Measurement& stored, const Measurement& marks,
                                                Surveyed& seen, const Communicator& comm) {
  const ProductSpace& layout = seen.A->range();
  NoiseModel& noise = seen.noise;
  const JpegSteps steps = jpeg_steps_of(survey, comm);
  const bool color = steps.coarse_color && has_color(y, comm);
  // Color of fewer samples has lost its finest details whatever the tables say.
  constexpr double kAll = 1e3;
  // What was rounded are stored values.
  seen.noise_stored = steps.high > 0 && !seen.curve.none();
  NoiseEstimate e;
  std::string smooth;  // why the finest details say nothing
  try {
    e = estimate_noise(seen.noise_stored ? stored : y, marks, layout, comm, color ? kAll : steps.high);
  } catch (const InputError& error) {
    smooth = error.what();
  }
  if (seen.noise_stored) {
    e.sigma = std::sqrt(e.sigma * e.sigma + e.gain * mean_of(stored, marks, comm));
    e.gain = 0;
    e.each.clear();
  }
  constexpr double kColor = 1.4;  // its noise lies at twice the size yet
  if (e.coarse)                   // half of the rounding shows where it looked
    e.sigma = std::hypot(e.sigma, steps.low / std::sqrt(12.0) / 2) * (color ? kColor : 1.0);
  noise = {.gaussian = e.sigma, .poisson = e.gain};
  const bool counts = e.gain > 0 && e.gain_error == 0;
  seen.noise_source =
      level_text(survey, noise) + ", estimated from the data" +
      (counts ? ": they are whole counts that scatter as photons do"
       : e.gain > 0
           ? ", standard error " + percent_text(e.gain_error, e.gain) + " of the gain"
           : ", standard error " + percent_text(e.sigma_error, e.sigma) + ", plus what texture adds");
  const bool looks = !e.coarse && !counts && survey.in_image_range();
  const double white = looks ? std::sqrt(e.sigma * e.sigma + e.gain * mean_of(y, marks, comm)) : 0;
  ColoredNoise colored = looks ? colored_noise(survey, stored, y, marks, seen.curve, white, seen, comm)
                               : ColoredNoise{.alike = counts};
  // The blocks of a compressed picture are a pattern, too: there is next to nothing but rounding between its peaks.
  constexpr double kLoud = 0.025, kMore = 1.3, kBlocks = 1.5, kRounding = 2.5;
  const double rounding =
      survey.data.type.find("int") == std::string::npos ? 0 : 1 / survey.factor / std::sqrt(12.0);
  if (looks && !survey.scan && smooth.empty() && (colored.level > 0 || white > kLoud))
    if (const double floor = noise_of_pattern(white, seen.noise_stored ? stored : y, marks, seen, comm);
        floor > 0 && (colored.level == 0 || (white < kBlocks * floor && white > kRounding * rounding))) {
      colored = {.alike = true};
      seen.noise_patterned = true;
      if (white > kMore * floor) {
        noise = {.gaussian = floor};
        e.each.clear();
        seen.noise_source = level_text(survey, noise) +
                            ", estimated from the data, of which a regular pattern is left out (a lattice, "
                            "fringes, a fabric)";
      }
    }
  seen.noise_doubtful = !colored.alike;
  if (!smooth.empty() && !colored.beyond) throw InputError(smooth);
  constexpr double kQuiet = 1.3;  // white noise over that of the flattest tiles
  if (colored.level == 0 && colored.textured > 0 && e.gain > 0) {
    // Texture that is stronger where the picture is brighter looks like the noise of photons.
    noise = {.gaussian = kQuiet * colored.textured};
    seen.noise_source = level_text(survey, noise) +
                        ", estimated from the data where they are flattest: texture hides how it depends on "
                        "brightness";
  } else if (colored.level == 0 && colored.of_stored && !seen.noise_stored && e.hidden == 0) {
    const double step = 1 / survey.factor / std::sqrt(12.0);
    const NoiseEstimate s = estimate_noise(stored, marks, layout, comm);
    const double level = std::sqrt(s.sigma * s.sigma + s.gain * mean_of(stored, marks, comm));
    noise = {.gaussian = std::max(step, level)};
    seen.noise_stored = true;
    e.each.clear();
    seen.noise_source = level_text(survey, noise) +
                        " of stored values, estimated from the data, standard error " +
                        percent_text(s.sigma_error, s.sigma) + ", plus what texture adds";
  } else if (colored.level > 0) {
    noise = {.gaussian = colored.level};
    seen.noise_stored = colored.of_stored;
    seen.noise_colored = !colored.uneven;
    seen.noise_uneven = colored.uneven;
    e.each.clear();
    seen.noise_source = level_text(survey, noise) + colored_text(colored);
  } else if (e.hidden > 0)
    seen.warnings.push_back(fmt::format(
        "the finest details of the measurement hold nothing but its rounding, those of twice their size a "
        "deviation of {:.3g}: if it was enlarged, demosaicked or compressed before, its noise is larger "
        "than "
        "what was found: write 'noise: {{gaussian: {:.2g}}}' in problem",
        e.hidden, e.hidden));
  if (e.proportional > 0 && noise.poisson > 0 && !counts && survey.in_image_range() && !seen.noise_stored)
    take_proportional(survey, e.proportional, mean_of(y, marks, comm), seen);
  if (e.coarse)
    seen.noise_source +=
        "; JPEG has taken the finest details, so it was looked for at twice their size, where the picture "
        "itself may add to it";
  if (!e.each.empty()) seen.noise_source += ", weighed by channel (they differ by more than a fifth)";
  return std::move(e.each);
}

}  // namespace tessera
