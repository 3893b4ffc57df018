// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/diagnostics.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "job/scan_picture.hpp"
#include "job/shown_part.hpp"
#include "job/survey.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/projection.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/samples/residual_statistics.hpp"
#include "tessera/samples/top_pile.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPicture = 4096 * 4096;  // samples: a larger PNG takes minutes
constexpr double kShown = 4;                    // noise levels from gray to white

// Blue at 0, white at 1, red from 3 on; gray where nothing is known.
std::array<float, 3> chi2_color(double chi2) {
  constexpr std::array<std::array<double, 3>, 3> stops{{{33 / 255., 102 / 255., 172 / 255.},
                                                        {247 / 255., 247 / 255., 247 / 255.},
                                                        {178 / 255., 24 / 255., 43 / 255.}}};
  if (std::isnan(chi2)) return {0.5F, 0.5F, 0.5F};
  const std::size_t from = chi2 < 1 ? 0 : 1;
  const double t = from == 0 ? std::max(0.0, chi2) : std::min(1.0, (chi2 - 1) / 2);
  std::array<float, 3> color{};
  for (std::size_t c = 0; c < 3; ++c)
    color[c] = static_cast<float>(stops[from][c] + t * (stops[from + 1][c] - stops[from][c]));
  return color;
}

// A tile is a square of as many pixels as make the picture's longer side some 512 to 1024.
void write_chi2(const std::string& path, const ResidualStatistics& s) {
  const std::int64_t zoom = std::max<std::int64_t>(1, 1024 / std::max(s.rows, s.columns));
  const std::int64_t width = s.columns * zoom;
  const ImageSpace space(Box::image2d(s.rows * zoom, width), 3);
  const auto sink = create_image(path, {.space = space, .bits = 8});
  std::vector<float> band(static_cast<std::size_t>(3 * width));
  for (std::int64_t row = 0; row < s.rows; ++row) {
    for (std::int64_t x = 0; x < width; ++x) {
      const auto color = chi2_color(s.tiles[static_cast<std::size_t>(row * s.columns + x / zoom)]);
      for (std::size_t c = 0; c < 3; ++c)
        band[c * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)] = color[c];
    }
    for (std::int64_t y = row * zoom; y < (row + 1) * zoom; ++y)
      sink->write(Box({0, y, 0}, {1, y + 1, width}), band.data());
  }
  sink->finish();
}

// r of the first part as gray 0.5 + r / 8. `level`: what counts as one noise level.
void write_residual(const OutputFolder& folder, const ProductSpace& layout, const at::Tensor& residual,
                    double level, const Communicator& comm) {
  const ImageSpace& space = layout.part(0).space;
  if (space.channels != 1 && space.channels != 3) return;
  const ShownPart shown = shown_part(layout, 0, residual, comm.rank());
  if (shown.box.pixels() > kPicture) return;
  write_preview(folder.file("residual.png"), shown.values * (0.5 / kShown / level) + 0.5,
                shown.layout.box(comm.rank()), shown.layout, shown.box, {}, comm);
}

// The value below which this share of the sorted values lies.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

struct Range {
  double smallest = 0, largest = 0;
  double below = 0, above = 0;  // shares of values < 0 and > 1
  double far = 0;               // outside of [-0.1, 1.1]
};
Range range_of(const at::Tensor& image, double values, const Communicator& comm) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const bool mine = image.numel() > 0;
  Range r;
  r.smallest = mine ? image.min().item().toDouble() : inf;
  r.largest = mine ? image.max().item().toDouble() : -inf;
  comm.all_reduce({&r.smallest, 1}, Reduce::min);
  comm.all_reduce({&r.largest, 1}, Reduce::max);
  std::array<std::int64_t, 3> counts{image.lt(0).sum().item().toLong(), image.gt(1).sum().item().toLong(),
                                     (image - 0.5).abs_().gt(0.6).sum().item().toLong()};
  comm.all_reduce(counts, Reduce::sum);
  r.below = static_cast<double>(counts[0]) / values;
  r.above = static_cast<double>(counts[1]) / values;
  r.far = static_cast<double>(counts[2]) / values;
  return r;
}

constexpr double kWeak = 0.1, kStrong = 2;  // of lambda
constexpr double kMoving = 0.002;           // of the image, by an iteration

// What the solver and not the data did to the residual: cause and remedy; empty: nothing that is known.
std::string of_the_solver(const RunPlan& plan, const Solved& s) {
  const std::string others = "or leave the section solver out: its default follows from the problem";
  if (s.strength > kStrong)
    return fmt::format(
        "the prior is stronger than the noise asks for, lambda {:.2g}) write 'lambda: 1' in solver, {}",
        s.strength, others);
  if (s.gradient && s.moved > kMoving)
    return fmt::format(
        "{} had not ended: its last iteration moved the image by {:.1g} %) raise "
        "solver.iterations, {}",
        plan.job.solver.name, 100 * s.moved, others);
  return {};
}

nlohmann::ordered_json number(double v) {
  return std::isfinite(v) ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr);
}

// What is known of a result: the numbers that warnings are made of.
struct Judged {
  const RunPlan& plan;
  const Solved& solved;
  std::vector<ResidualStatistics> parts{};
  double noise_sigma = 0;    // 0: not known
  double chi2 = 0;           // of all samples
  double low = 0, high = 0;  // chi2 of tiles: 5 and 95 % of them lie below
  Range range{};

  bool known() const { return noise_sigma > 0; }
  bool counts() const { return plan.job.problem.noise.poisson > 0; }
  bool views() const { return !in_image_range(plan); }  // of an object, from its sides
  // Whether the solver goes towards the residual of the noise: one pass of a filter does not.
  bool fits() const { return !find_solver(plan.job.solver.name).once; }
};

Judged judge(const RunPlan& plan, const Solved& solved, const Fit& fit, const DistributedOperator& A,
             const at::Tensor& image, const Communicator& comm) {
  Judged out{.plan = plan, .solved = solved, .noise_sigma = fit.noise_sigma};
  double samples = 0, squares = 0;
  std::vector<double> tiles;
  for (std::size_t i = 0; i < fit.residual.size(); ++i) {
    const ResidualStatistics& s =
        out.parts.emplace_back(residual_statistics(fit, i, A.range(), A.transport(), comm));
    samples += static_cast<double>(s.samples);
    squares += s.chi2 * static_cast<double>(s.samples);
    for (const double t : s.tiles)
      if (!std::isnan(t)) tiles.push_back(t);
  }
  std::sort(tiles.begin(), tiles.end());
  out.chi2 = samples > 0 ? squares / samples : 0;
  out.low = quantile(tiles, 0.05);
  out.high = quantile(tiles, 0.95);
  out.range = range_of(image, static_cast<double>(plan.image.box.pixels() * plan.image.channels), comm);
  return out;
}

double deviation_of(const ResidualStatistics& s) {
  return std::sqrt(std::max(0.0, s.chi2 - s.mean * s.mean));
}

nlohmann::ordered_json to_json(const Judged& f, const ProductSpace& layout) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < f.parts.size(); ++i) {
    const ResidualStatistics& s = f.parts[i];
    list.push_back({{"name", layout.part(i).name},
                    {"samples", s.samples},
                    {"chi2", s.chi2},
                    {"mean", s.mean},
                    {"deviation", deviation_of(s)},
                    {"correlation", s.correlation},
                    {"correlation_lag", s.lag},
                    {"correlation_white", s.white},
                    {"at_smallest", s.at_smallest},
                    {"at_largest", s.at_largest}});
  }
  nlohmann::ordered_json j;
  j["noise_sigma"] = f.known() ? number(f.noise_sigma) : number(NAN);
  j["chi2"] = number(f.chi2);
  j["chi2_tiles"] = {{"side", f.parts[0].side}, {"low", number(f.low)}, {"high", number(f.high)}};
  j["parts"] = std::move(list);
  j["image"] = {{"smallest", number(f.range.smallest)},
                {"largest", number(f.range.largest)},
                {"below_0", f.range.below},
                {"above_1", f.range.above}};
  return j;
}

using Lines = std::vector<std::string>;

bool has_kernel(const RunPlan& plan) {
  return std::any_of(plan.parts.begin(), plan.parts.end(),
                     [](const OperatorConfig& part) { return find_operator(part.type).choice.kernel; });
}

// A blurred photograph whose values are taken as they are stored.
bool may_be_a_curve(const RunPlan& plan) {
  return plan.curve.none() && plan.data.light.says != StoredLight::Says::nothing && has_kernel(plan);
}

// What a picture's residual says where the prior was right: the likely cause, and the remedy.
std::string of_the_model(const Judged& f) {
  if (may_be_a_curve(f.plan))
    return "a lens blurs light, and the file stores a curve of it; or the kernel or the boundary is not the "
           "true one) try "
           "'curve: srgb' in problem.scale, then look at residual.png";
  return has_kernel(f.plan)
             ? "the kernel or the boundary is not the true one) look at residual.png and mend them"
             : "samples are off by more than noise, or the noise differs over the picture) look at "
               "residual.png and give bad samples weight 0 by problem.weights";
}

// `reason`: what the solver did to the residual, if anything.
void warn_of_chi2(const Judged& f, const std::string& reason, Lines& lines) {
  if (!f.known() || !f.fits()) return;
  const JobConfig& job = f.plan.job;
  const double chi2 = f.chi2;
  const bool weak = !(f.solved.strength >= kWeak) || !f.plan.network;  // or there is none
  // Where hardly a photon came, a sample's variance is taken for that of one.
  const bool few = f.counts() && f.parts[0].at_smallest > 0.05;
  constexpr double kCompressed = 0.05;  // photographs of 0.01 to 0.03 as JPEG leave 0.1 to 0.4
  if (chi2 < 0.5 && !few && find_solver(job.solver.name).counts)
    lines.push_back(
        fmt::format("chi2 is {:.2g} per sample (the image follows the noise: {} went on for too long) lower "
                    "solver.iterations, or write 'stop: {{chi2: 1}}' in solver",
                    chi2, job.solver.name));
  else if (chi2 < (f.solved.compressed ? kCompressed : 0.5) && !few && (weak || f.solved.stated))
    lines.push_back(
        fmt::format("chi2 is {:.2g} per sample (the image follows the noise: {}) {}", chi2,
                    weak ? "the prior does little, or the noise is overstated"
                         : "it is stated too large, or so small that the prior takes little of it away",
                    weak ? "raise solver.lambda, or check problem.noise" : "check problem.noise"));
  if (chi2 > 1.5)
    lines.push_back(fmt::format(
        "chi2 is {:.3g} per sample ({}", chi2,
        !reason.empty() ? reason
        : f.views()
            ? "the noise is understated, or the views do not fit: the axis, angles, distances, flats, a "
              "motion, an object wider than the image, zingers) look at residual.png, where a wrong axis "
              "or angle bends with the views, flats and dead columns go straight down and zingers are "
              "dots; state detector.axis and views, or write 'likelihood: {type: huber}' for dots"
        : job.solver.chosen.solver && f.plan.network && !f.solved.gradient && !f.solved.stated
            ? of_the_model(f)
            : concat("the noise is understated, or ", of_the_model(f), ", state the noise if it is known")));
  else if (f.high > 2 && f.high > 2 * chi2)
    lines.push_back(fmt::format(
        "chi2 is {:.2g} per sample, but above {:.2g} in 5 % of the tiles (the noise differs over the "
        "image, or the operator is wrong there) look at chi2.png; problem.weights says where noise is "
        "larger",
        chi2, f.high));
}

void warn_of_part(const Judged& f, std::size_t i, const std::string& reason, Lines& lines) {
  const ResidualStatistics& s = f.parts[i];
  const NoiseConfig& noise = f.plan.job.problem.noise;
  const std::string of = f.parts.size() > 1 ? fmt::format(" of part {}", i) : "";
  const bool poisson = f.plan.job.problem.likelihood.type == "poisson";
  const double deviation = deviation_of(s);
  if (f.fits() && !f.solved.colored && std::abs(s.correlation) > std::max(0.15, 5 * s.white))
    lines.push_back(fmt::format(
        "the residual{} is not white: correlation {:.2f} at lag ({}, {}) ({}", of, s.correlation, s.lag[0],
        s.lag[1],
        !reason.empty() ? reason
        : f.views()
            ? "the axis, an angle or a distance is not the true one, the object moved or is wider than the "
              "image, or the prior smooths what is there) look at residual.png"
        : has_kernel(f.plan)
            ? concat("the prior smooths textures and edges, or ", of_the_model(f))
            : "the prior smooths textures and edges, or the noise is not white) look at residual.png"));
  if (f.fits() && std::abs(s.mean) > 0.1 * deviation &&
      std::abs(s.mean) * std::sqrt(static_cast<double>(s.samples)) > 5)
    lines.push_back(fmt::format(
        "the residual{} has the mean {:.2g}, its deviation is {:.2g} ({}", of, s.mean, deviation,
        poisson && s.mean > 0
            ? "the data lie below what the model can be, as counts do from which a background "
              "was subtracted) "
              "write the mean of what was subtracted, over scale.factor, as "
              "likelihood.background, or give the counts as they were"
        : f.views() ? "flats of another exposure, a beam that changed, or an object wider than the image) "
                      "give flats that belong to the views, or a larger problem.image.size"
                    : "the data have an offset that the model does not) subtract the background"));
  // A value that a flat, noisy picture takes anyway is rarer, also than the next one: few levels have tails.
  if (!f.views() && !f.solved.clipped && s.at_largest > 0.005 && s.at_largest > s.beside_largest &&
      s.smallest < s.largest)
    lines.push_back(
        fmt::format("{:.1f} % of the samples{} have the largest value, {:.3g} (they look clipped: the true "
                    "ones may be larger) set problem.saturation for measurements",
                    100 * s.at_largest, of, s.largest));
  const bool beside = s.smallest == 0 && !in_image_range(f.plan);  // what a ray beside the object has
  if (!f.solved.clipped && s.at_smallest > 0.05 && s.at_smallest > s.beside_smallest &&
      s.smallest < s.largest && !beside &&
      !survey_of(f.plan).may_be_zero({.poisson = noise.poisson}, s.smallest))
    lines.push_back(
        fmt::format("{:.1f} % of the samples{} have the smallest value, {:.3g} (they look clipped: noise "
                    "below it is lost, and dark regions come out too bright) keep the camera's offset in "
                    "the data",
                    100 * s.at_smallest, of, s.smallest));
}

// Samples that pile up at their top as those of a full well do.
std::optional<TopPile> pile_of(const Judged& f, const Fit& fit, const Communicator& comm) {
  if (f.views() || f.solved.clipped) return std::nullopt;
  return top_pile(fit.data[0], fit.counted.empty() ? at::Tensor() : fit.counted[0], comm);
}

// Deconvolved stars are far brighter than their data; nothing is far darker.
void warn_of_range(const Judged& f, bool piled, Lines& lines) {
  double least = f.parts[0].smallest, most = f.parts[0].largest;
  for (const ResidualStatistics& s : f.parts) {
    least = std::min(least, s.smallest);
    most = std::max(most, s.largest);
  }
  const double span = most - least;
  const auto file = [&](double v) { return f.plan.curve.stored(v) * f.plan.factor + f.plan.offset; };
  // Densities are no line integrals.
  if (!f.views() && (f.range.smallest < least - span || f.range.largest > most + 10 * span)) {
    lines.push_back(
        fmt::format("the result reaches {:.6g} to {:.6g}, the data {:.6g} to {:.6g}, in file units ({} "
                    "samples that count, an "
                    "operator that is not the true one, or too little noise assumed) look at residual.png "
                    "and give bad samples "
                    "weight 0 by problem.weights",
                    file(f.range.smallest), file(f.range.largest), file(least), file(most),
                    piled ? "saturated" : "dead or hot"));
  }
  if (!f.plan.network || f.range.far <= 0.01) return;
  const std::string values =
      fmt::format("{:.1f} % of the image lies outside of [-0.1, 1.1], its values are {:.3g} to {:.3g}",
                  100 * f.range.far, f.range.smallest, f.range.largest);
  // Where the data do not, it is the deconvolution that overshoots.
  if (!f.views() && has_kernel(f.plan) && least > -0.1 && most < 1.1)
    lines.push_back(values +
                    ", while the data lie within (it overshoots at edges, as under a kernel that is too "
                    "wide: a full width "
                    "given as sigma, taps finer than the image's pixels, a kernel's root or logarithm; or "
                    "with a curve of "
                    "light, or too little noise stated): correct the kernel");
  else
    lines.push_back(
        values + " (networks are trained on [0, 1]) " +
        (f.views() ? "look for a wrong axis, angles or flats first; scale.factor is about the largest density"
                   : "check problem.scale"));
}

// Total variation and no prior never expand; arithmetic below float32 rounds more than the changes are. A tenth of
// the run's passes, the first of them on the image itself: short runs are not about to unsettle.
nlohmann::ordered_json gain_at(const at::Tensor& image, Denoiser& denoiser, const Judged& f,
                               const Space& space, Lines& lines) {
  const double sigma = f.solved.sigma;
  const int passes = std::min(f.solved.iterations / 10 - 1, 10);
  if (!f.plan.network || f.plan.job.execution.precision != Precision::float32 || sigma <= 0 || passes < 2)
    return {};
  const Expansion e = expansion(denoiser, image, sigma, passes, 0, f.plan.decomposition, space);
  if (e.last() > 1.02)
    lines.push_back(fmt::format(
        "the denoiser expands perturbations by {:.3f} at this image and sigma {:.3g} (long iterations "
        "may not settle) use denoiser.averaging, a smaller step or a larger solver.sigma",
        e.last(), sigma));
  return {{"sigma", sigma},
          {"passes", e.gains.size()},
          {"largest_gain", number(e.largest())},
          {"last_gain", number(e.last())}};
}

}  // namespace

nlohmann::ordered_json diagnose(const RunPlan& plan, DataTerm& data, const at::Tensor& image,
                                Denoiser& denoiser, const Solved& solved, const OutputFolder& folder,
                                const Space& space, std::vector<std::string>& warnings) {
  const PhaseScope phase(Phase::metrics);
  const Communicator& comm = space.comm();
  const ProductSpace& layout = data.op().range();
  const Fit fit = data.fit(image);
  if (fit.residual.empty()) return {};
  const Judged found = judge(plan, solved, fit, data.op(), image, comm);

  const double level = found.known() || !(found.chi2 > 0) ? 1 : std::sqrt(found.chi2);  // of the pictures
  write_residual(folder, layout, fit.residual[0], level, comm);
  comm.together([&] {
    if (comm.rank() != 0) return;
    ResidualStatistics shown = found.parts[0];
    for (double& t : shown.tiles) t /= level * level;
    write_chi2(folder.file("chi2.png"), shown);
    if (const auto geometry = geometry_of(*plan.op)) draw_scan(folder.file("geometry.png"), *geometry);
  });

  nlohmann::ordered_json j = to_json(found, layout);
  Lines lines;
  const std::string reason = found.known() ? of_the_solver(plan, solved) : "";
  warn_of_chi2(found, reason, lines);
  for (std::size_t i = 0; i < found.parts.size(); ++i) warn_of_part(found, i, reason, lines);
  const std::optional<TopPile> pile = pile_of(found, fit, comm);
  warn_of_range(found, pile.has_value(), lines);
  if (pile && !lines.empty()) {
    const auto file = [&](double v) { return plan.curve.stored(v) * plan.factor + plan.offset; };
    lines.insert(
        lines.begin(),
        fmt::format(
            "{:.2g} % of the samples pile up between {:.6g} and {:.6g}, above which nothing lies, and "
            "the result does not fit well (saturated ones, as by a full well, count as data) if so, write "
            "'saturation: {:.4g}' in problem",
            100 * pile->share, file(pile->low), file(pile->high), pile->low));
  }
  if (nlohmann::ordered_json gain = gain_at(image, denoiser, found, space, lines); !gain.is_null())
    j["denoiser"] = std::move(gain);
  j["warnings"] = lines;
  warnings.insert(warnings.end(), lines.begin(), lines.end());
  return j;
}

}  // namespace tessera
