// SPDX-License-Identifier: BSD-3-Clause
// Light and noise of photographs as people have them.
#include "photograph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "sample_checks.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/samples/blur_spectrum.hpp"
#include "tessera/samples/noise_estimate.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kFewTiles = 12;

// The first part that is a picture under a convolution on its own grid.
std::optional<std::size_t> blurred_part(const Surveyed& seen) {
  const ProductSpace& layout = seen.A->range();
  const OperatorTraits traits = seen.A->traits();
  for (std::size_t i = 0; i < layout.parts(); ++i)
    if (const Convolution* const kernel = picture_kernel(traits, layout, i);
        kernel && kernel->taps.numel() > kernel->taps.size(0))
      return i;
  return std::nullopt;
}

struct Blurred {
  TileSpectra tiles;
  BlurSpectrum spectrum;
};

std::optional<Blurred> look(const Measurement& y, const Measurement& marks, const Surveyed& seen,
                            const Communicator& comm) {
  const std::optional<std::size_t> part = blurred_part(seen);
  if (!part) return std::nullopt;
  TileSpectra tiles(y[*part], marks[*part], seen.A->range(), *part, comm,
                    make_transport(comm, {}, TransportKind::mpi));
  if (tiles.tiles() < kFewTiles) return std::nullopt;
  BlurSpectrum spectrum = read_blur_spectrum(tiles.mean(comm), *seen.A->traits().parts[*part].convolution);
  return Blurred{std::move(tiles), std::move(spectrum)};
}

std::vector<double> coarse_bins() {
  constexpr double kLeast = 0.03, kMost = 0.12;  // cycles per sample
  std::vector<double> out(TileSpectra::kBins, 0.0);
  for (std::size_t b = 0; b < out.size(); ++b)
    out[b] = TileSpectra::frequency(b) > kLeast && TileSpectra::frequency(b) < kMost ? 1 : 0;
  return out;
}

// How much less of a picture's contrast lies beyond what the kernel lets through if its samples are made light first:
// decades of power, a mean over the tenth of the tiles that have most contrast. A curve makes new details of strong
// edges; within a tile of little contrast it is a factor, and cancels.
std::optional<double> evidence(const Blurred& stored, const TileSpectra& light, const Communicator& comm) {
  constexpr double kShift = 4;  // decades, so that the values that are summed are above 0
  const std::vector<double> coarse = coarse_bins(), &beyond = stored.spectrum.beyond;
  if (std::count(beyond.begin(), beyond.end(), 1.0) < 16) return std::nullopt;
  const auto fine_a = stored.tiles.power(beyond), fine_b = light.power(beyond),
             rough_a = stored.tiles.power(coarse), rough_b = light.power(coarse);
  const std::int64_t n = stored.tiles.tiles(),
                     most = std::max<std::int64_t>(n / 10, std::min<std::int64_t>(n, 8));
  const float least = order_statistic(rough_a, n - most, comm);
  std::vector<float> decades;
  for (std::size_t k = 0; k < rough_a.size(); ++k) {
    if (rough_a[k] < least || !(rough_a[k] > 0) || !(rough_b[k] > 0) || !(fine_b[k] > 0) || !(fine_a[k] > 0))
      continue;
    const double d = std::log10(static_cast<double>(fine_a[k]) / static_cast<double>(rough_a[k]) /
                                (static_cast<double>(fine_b[k]) / static_cast<double>(rough_b[k])));
    decades.push_back(static_cast<float>(std::clamp(d, -kShift, kShift) + kShift));
  }
  const std::int64_t found = count_values(decades, comm);
  if (found == 0) return std::nullopt;
  return ordered_sum(decades, comm) / static_cast<double>(found) - kShift;
}

std::string curve_name(const ToneCurve& curve) {
  return curve.kind() == ToneCurve::Kind::srgb ? "sRGB"
                                               : fmt::format("the power 1/{:.4g} of light", curve.gamma());
}

// Whether noise is the same in dark and bright places of what is stored, and not as light, by its unevenness in both.
bool is_of_stored(double stored, double light) {
  constexpr double kLevel = 0.12, kTimes = 3;
  return stored < kLevel && light > kTimes * stored;
}

// Details of an enlarged picture stop falling at the size of its pixels before, those of a picture go on rising.
constexpr double kFallsBlurred = 2.5;

double plateau(const std::array<FlatLevel, 3>& flat, double falls, bool sharp) {
  constexpr double kStays = 2, kMore = 1.2;
  if (flat[1].quiet < falls * flat[0].quiet) return 0;
  return sharp || flat[2].quiet < kStays * flat[1].quiet ? kMore * flat[1].quiet : 0;
}

// Arrays and files that say nothing are taken as they are stored: a line where their details and their noise show a
// camera's picture of sRGB.
void warn_of_unsaid_curve(const Survey& survey, const Measurement& stored, const Measurement& marks,
                          Surveyed& seen, const Communicator& comm) {
  // 17 photographs blurred as light under 8 kernels: 0.1 to 0.9, noise 3 to 4000 times as uneven in what is stored. Some 90
  // other right inputs: up to 0.13, of which none has such noise above -0.01.
  constexpr double kClear = 0.09, kUneven = 0.45, kTimes = 3;
  const ProblemConfig& p = survey.problem;
  if (!survey.curve_unsaid || survey.scan || !survey.in_image_range() || !p.weights.empty() ||
      !p.dark.empty() || !p.flat.empty() || p.noise.poisson > 0 || p.likelihood.type != "gaussian")
    return;
  const std::optional<std::size_t> part = blurred_part(seen);
  const std::optional<Blurred> found = look(stored, marks, seen, comm);
  if (!found) return;
  const TileSpectra light(light_of(stored[*part], ToneCurve::srgb()), marks[*part], seen.A->range(), *part,
                          comm, make_transport(comm, {}, TransportKind::mpi));
  const std::optional<double> shown = evidence(*found, light, comm);
  const std::vector<double>& beyond = found->spectrum.beyond;
  const double as_stored = found->tiles.unevenness(beyond, comm), as_light = light.unevenness(beyond, comm);
  if (!shown || *shown < kClear || as_stored < kUneven || as_stored < kTimes * as_light) return;
  seen.warnings.push_back(
      fmt::format("light: the details and the noise of {} show a photograph that was blurred as light and is "
                  "stored in a curve, as "
                  "sRGB (a file of its kind says nothing of that, so its values are taken as they are "
                  "stored): write 'curve: srgb' "
                  "in problem.scale, or 'curve: none' where they are light",
                  std::filesystem::path(p.measurements).filename().string()));
}

}  // namespace

ToneCurve choose_curve(const Survey& survey, const Measurement& stored, const Measurement& marks,
                       Surveyed& seen, const Communicator& comm) {
  // Nine photographs under four kernels: blurred as they are stored they lie between -0.26 and 0.08; as light from 0.06 to
  // 1.3 where the noise is white, from -0.12 to 0.7 where they were compressed. In between the careful choice is what
  // is stored: high contrast loses 8 dB if it is wrongly made light, 4 dB if it wrongly is not.
  constexpr double kOfLight = 0.09, kAsStored = -0.13, kExcluded = -0.225;
  if (!survey.curve_open) {
    warn_of_unsaid_curve(survey, stored, marks, seen, comm);
    return survey.curve;
  }
  const StoredLight& says = survey.data.light;
  const std::string file = std::filesystem::path(survey.problem.measurements).filename().string();
  std::optional<double> shown;
  double as_stored_noise = 0, as_light_noise = 0;  // how much it differs between dark and bright places
  if (const std::optional<Blurred> found = look(stored, marks, seen, comm)) {
    const std::size_t part = *blurred_part(seen);
    const TileSpectra light(light_of(stored[part], says.curve), marks[part], seen.A->range(), part, comm,
                            make_transport(comm, {}, TransportKind::mpi));
    shown = evidence(*found, light, comm);
    const std::vector<double>& beyond = found->spectrum.beyond;
    as_stored_noise = found->tiles.unevenness(beyond, comm);
    as_light_noise = light.unevenness(beyond, comm);
  }
  const bool said = says.says == StoredLight::Says::curve;
  // Noise of a sensor that is the same in dark and bright places as light, and not as stored, was added to light: 0.00
  // to 0.26 and 0.5 to 5 in 24 files. The other way about it may be the noise of photons, but where details say little
  // of light they say less than that.
  constexpr double kEven = 0.3, kUneven = 0.45, kTimes = 3, kMuchLight = 0.2;
  const bool noise_of_light = as_light_noise < kEven && as_stored_noise > kUneven &&
                              as_stored_noise > kTimes * as_light_noise,
             noise_of_stored = is_of_stored(as_stored_noise, as_light_noise);
  // Where the noise is of stored values it is all that they have beyond the kernel, and contrast alone moves the evidence,
  // of pictures blurred as light down to -0.22: the file's word counts more.
  const bool as_stored = shown && *shown < (said && noise_of_stored ? kExcluded : kAsStored),
             of_light = shown && !as_stored &&
                        (noise_of_light || *shown > (noise_of_stored ? kMuchLight : kOfLight));
  const bool take = of_light || (!as_stored && (said || says.camera));
  const std::string why = of_light    ? "its details show that it was blurred as light"
                          : as_stored ? "its details show that its stored values were blurred"
                          : said      ? concat("its ", says.by, " says so, and a lens blurs light")
                                      : std::string("a camera made it, and a lens blurs light");
  seen.notices.push_back(
      take ? fmt::format("light: {} stores {} ({}): inside is light, and the result is stored the same way; "
                         "scale.curve decides otherwise",
                         file, curve_name(says.curve), why)
      : as_stored
          ? fmt::format(
                "light: the values of {} are taken as they are stored ({}); scale.curve decides otherwise",
                file, why)
          : fmt::format(
                "light: the values of {} are taken as they are stored (nothing says whether light was "
                "blurred or they were): of a camera's photograph write 'curve: srgb' in problem.scale",
                file));
  return take ? says.curve : ToneCurve();
}

ColoredNoise colored_noise(const Survey& survey, const Measurement& stored, const Measurement& light,
                           const Measurement& marks, const ToneCurve& curve, double white,
                           const Surveyed& seen, const Communicator& comm) {
  // Of the flattest tiles, details of twice the size over the finest ones: white noise has 0.8 to 1.2, up to 1.6 where a
  // blurred picture's own come in, compressed, demosaicked and enlarged ones 1.4 to 6. A sharp picture has up to 2.5
  // by itself, but not where its finest details are next to the rounding of 8 bits.
  constexpr double kFalls = 1.3, kSharp = 4, kSharp8 = 2, kRounded = 0.65 / 255, kUneven = 1.5, kUsual = 1.75;
  // A tile of little contrast is as flat in both; dark ones are not the flattest of what is stored.
  const std::array<FlatLevel, 3> flat = flat_levels(stored, marks, seen.A->range(), comm);
  const std::optional<Blurred> found = look(light, marks, seen, comm);
  const bool rounded = survey.data.type == "uint8" && flat[0].quiet < kRounded;
  const bool falls = flat[0].quiet > 0 && flat[1].quiet > kFalls * flat[0].quiet;
  ColoredNoise out{.level = falls ? plateau(flat,
                                            found     ? kFallsBlurred
                                            : rounded ? kSharp8
                                                      : kSharp,
                                            !found)
                                  : 0};
  if (found) {
    const BlurSpectrum& spectrum = found->spectrum;
    out.uneven = spectrum.far > kUneven * white && !(falls && spectrum.colored());
    // Where compression took nothing from most tiles, the mean of all is less than what the others have.
    const double share = found->tiles.concentration(spectrum.beyond, comm) / kUsual,
                 few = std::clamp(share * share, 1.0, 4.0);
    const double level = falls && spectrum.colored() ? few * spectrum.coarse
                         : out.uneven                ? std::max(spectrum.near, spectrum.far)
                                                     : 0;
    if (level > out.level) {
      out.level = level;
      out.beyond = true;
      // Compression errs in what is stored, a sensor in light: where bright and dark tiles are more alike.
      if (const std::optional<Blurred> as_stored =
              curve.none() ? std::nullopt : look(stored, marks, seen, comm)) {
        const auto uneven = [&](const Blurred& b) { return b.tiles.unevenness(b.spectrum.beyond, comm); };
        out.of_stored = uneven(*as_stored) < uneven(*found);
        if (out.of_stored) out.level = as_stored->spectrum.coarse;
      }
    }
  }
  // White noise shows alike beyond a kernel, near it and far: 0.9 to 1.05 of the level; and at one sample and at two of
  // flat places, 0.8 to 1.12, unless they have texture. What was compressed or enlarged is above one of them.
  constexpr double kLeast = 0.7, kMost = 1.12, kSame = 0.9, kNear = 1.05, kFar = 1.04, kTextured = 1.5;
  const double ratio = flat[0].quiet > 0 ? flat[1].quiet / flat[0].quiet : 0;
  const double near = found ? found->spectrum.near / white : 0, far = found ? found->spectrum.far / white : 0;
  out.alike = (ratio > kLeast && ratio < kMost && near < kNear && far < kFar) ||
              (near > kSame && near < kNear && far > kSame && far < kFar);
  out.textured = !found && ratio > kTextured ? flat[0].quiet : 0;
  if (out.level <= 1.3 * white) {
    out = {.alike = out.alike, .textured = out.textured};
    // White noise of 8 bits: their rounding is of stored values, and in the dark all that there is.
    if (const std::optional<Blurred> as_stored = found && !curve.none() && survey.data.type == "uint8"
                                                     ? look(stored, marks, seen, comm)
                                                     : std::nullopt) {
      const std::vector<double>& beyond = as_stored->spectrum.beyond;
      out.of_stored =
          is_of_stored(as_stored->tiles.unevenness(beyond, comm), found->tiles.unevenness(beyond, comm));
    }
  }
  return out;
}

}  // namespace tessera
