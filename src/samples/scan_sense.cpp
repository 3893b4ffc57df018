// SPDX-License-Identifier: BSD-3-Clause
// Whether frames and views of a scan belong together: levels, gains of columns, motion of the object.
#include "scan_sense.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "byte_order.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRowsAsked = 4, kFramesAsked = 16;

double middle_value(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Stored values of some frames, in rows in the middle: the median of all, of both ends of the rows, and amid them; the
// largest and the smallest but for one in a hundred.
struct StoredLevels {
  double all = 0, ends = 0, amid = 0, most = 0, least = 0;
};
StoredLevels stored_levels(const FrameStack& stack, const Scan& scan, const Communicator& comm) {
  std::array<double, 5> out{};
  ByteOrder order(stack.type);
  comm.together([&] {
    if (comm.rank() != 0 || stack.empty()) return;
    const std::int64_t rows = std::min(kRowsAsked, scan.rows),
                       first = scan.first_row + (scan.rows - rows) / 2, columns = stack.columns,
                       n = std::ssize(stack.frames), step = (n + kFramesAsked - 1) / kFramesAsked,
                       wide = std::max<std::int64_t>(1, columns / 16);
    FrameReader reader(stack);
    std::vector<double> frame(static_cast<std::size_t>(rows * columns)), all, ends, amid;
    for (std::int64_t k = 0; k < n; k += step) {
      reader.read({{k, first, 0}, {k + 1, first + rows, columns}}, frame.data());
      order.look(frame.data(), std::ssize(frame));
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        const std::int64_t c = i % columns;
        const double v = frame[static_cast<std::size_t>(i)];
        if (!std::isfinite(v)) continue;
        all.push_back(v);
        if (c < wide || c >= columns - wide) ends.push_back(v);
        if (c >= columns * 3 / 8 && c < columns * 5 / 8) amid.push_back(v);
      }
    }
    if (all.empty()) return;
    std::sort(all.begin(), all.end());
    out = {middle_value(all), middle_value(ends), middle_value(amid), all[all.size() * 99 / 100],
           all[all.size() / 100]};
  });
  comm.all_reduce(out, Reduce::sum);
  order.refuse(stack.path, "where it is meant so, write it as floats", comm);
  return {out[0], out[1], out[2], out[3], out[4]};
}

// Differences of the fourth order along the columns of rows of the detector: white noise keeps its deviation.
at::Tensor fine_columns(const at::Tensor& y) {
  const std::int64_t n = y.size(-1) - 4;
  const auto at = [&](std::int64_t k) { return y.narrow(-1, k, n); };
  return (at(0) - 4 * at(1) + 6 * at(2) - 4 * at(3) + at(4)).div(std::sqrt(70.0));
}

// How much values (rows, columns) are like themselves in the other order about a column; 1: the same.
double mirrored(const at::Tensor& t, double middle) {
  const std::int64_t n = t.size(-1), about = std::llround(2 * middle) - (n - 1);
  double best = 0;
  for (std::int64_t first = about - 2; first <= about + 2; ++first) {
    const std::int64_t length = n - std::abs(first);
    if (length < n / 2) continue;
    const at::Tensor part = t.narrow(-1, std::max<std::int64_t>(0, first), length);
    best = std::max(best, (part * part.flip({-1})).sum().item<double>());
  }
  return best / t.square().sum().item<double>();
}

double deviation(const at::Tensor& t) {
  return t.numel() > 0 ? t.abs().flatten().median().item<double>() / 0.6745 : 0;
}

// What an offset of the camera costs that no darks tell.
void warn_of_no_darks(Scan& scan, const StoredLevels& flat, const StoredLevels& views) {
  constexpr double kSome = 0.01, kOffset = 0.05;
  const double least = views.least / flat.all;
  if (!scan.file.darks.empty() || scan.file.views.type.find("int") == std::string::npos || !(flat.all > 0) ||
      !(least > kSome) || !(least < 0.98))
    return;
  const double offset = std::min(kOffset, least / 2), seen = -std::log(least),
               meant = -std::log((least - offset) / (1 - offset));
  scan.warnings.push_back(
      fmt::format("there are no darks, so that what the camera counts without light is taken for light (an "
                  "offset of {:.2g} % of "
                  "the flats' {:.4g} would make line integrals of {:.2g} {:.0f} % too small) give frames "
                  "without light as "
                  "problem.dark, unless it was subtracted before",
                  100 * offset, flat.all, seen, 100 * (1 - seen / meant)));
}

}  // namespace

void check_frames(Scan& scan, bool values_said, std::vector<std::string>& notices, const Communicator& comm) {
  constexpr double kFew = 0.1;      // of the beam's counts
  constexpr double kIntegral = 15;  // no line integral is larger: 3e-7 of the beam
  ScanFile& file = scan.file;
  if (!scan.transmission || file.flats.empty()) return;
  const StoredLevels flat = stored_levels(file.flats, scan, comm),
                     views = stored_levels(file.views, scan, comm);
  const StoredLevels dark = file.darks.empty() ? StoredLevels{} : stored_levels(file.darks, scan, comm);
  TESSERA_VALIDATE(
      file.darks.empty() || flat.all >= dark.all, file.flats.path, " is at ", flat.all, ", ", file.darks.path,
      " at ", dark.all,
      " (flats are of the beam alone and darks of no beam, so that flats are brighter: the two are "
      "exchanged) exchange problem.flat and problem.dark, or the two arrays in the file");
  warn_of_no_darks(scan, flat, views);
  // Counts that are next to none of the beam's would be of an object that fills the detector and lets nothing through.
  const double beam = flat.all - dark.all;
  const bool none = beam > 0 && views.most < kIntegral && views.most < dark.all + kFew * beam,
             decimal = file.views.type.starts_with("float") && flat.all > 20;
  if (!none || !decimal) return;
  const bool share = views.ends > 0.5 && views.ends < 2 && views.amid < 0.98 * views.ends;
  if (!share && !(views.amid > views.ends)) return;  // line integrals rise inward
  const auto name = [](const std::string& path) { return path.substr(0, path.rfind(":/")); };
  const bool own = name(file.flats.path) == name(file.views.path);
  const std::string seen = fmt::format(
      "{} goes from {:.3g} to {:.3g}, and its flats are at {:.4g}{} (counts of a detector lie between the "
      "two: these "
      "look like {})",
      file.views.path, views.least, views.most, flat.all,
      file.darks.empty() ? std::string() : fmt::format(", its darks at {:.4g}", dark.all),
      share ? "the share of the beam that is left" : "line integrals already");
  TESSERA_VALIDATE(share && own && values_said, seen,
                   " write 'values: ", share ? "transmission" : "line_integrals", "' in problem.operator",
                   own ? "" : ", without problem.flat and problem.dark");
  notices.push_back(seen + ": flats and darks are not used");
  file.flats = file.darks = {};
}

void judge_gains(Scan& scan, const ScanRows& look, std::vector<std::string>& notices) {
  constexpr std::int64_t kViews = 24, kColumns = 32;
  constexpr double kAbove = 2, kLeast = 0.002, kAlike = 0.8, kAboveSome = 3, kAlikeSome = 0.9,
                   kMirrored = 0.6;
  const std::int64_t views = look.y.size(1);
  if (views < kViews || look.y.size(2) < kColumns) return;
  // Halves of the views show other parts of the object, and the same gains.
  const at::Tensor fine = fine_columns(look.y),
                   known = look.weights.gt(0).to(at::kDouble).mean(1).gt(0.5).narrow(-1, 2, fine.size(2));
  const at::Tensor a = fine.narrow(1, 0, views / 2).mean(1).masked_select(known),
                   b = fine.narrow(1, views / 2, views - views / 2).mean(1).masked_select(known);
  if (a.numel() < kColumns / 2) return;
  const at::Tensor both = (a + b) / 2,
                   near = both.abs().le(4 * deviation(both));  // edges of a round object are few
  const auto alike = [](const at::Tensor& x, const at::Tensor& z) {
    return (x * z).sum().item<double>() /
           std::sqrt((x * x).sum().item<double>() * (z * z).sum().item<double>());
  };
  const double noise = deviation(fine - fine.mean(1, true)),
               flats = static_cast<double>(std::max<std::size_t>(1, scan.file.flats.frames.size()));
  const double left = noise * std::sqrt(1 / static_cast<double>(views) + 1 / flats);
  const double unit = scan.transmission ? 1 : look.y.mean(0).amax(1).median().item<double>();
  if (!(noise > 0)) return;
  double found = deviation(both);
  if (!(alike(a.masked_select(near), b.masked_select(near)) > kAlike) || found < kAbove * left) {
    // Some columns alone; those at the edges of a round object lie on both sides of its middle.
    found = std::sqrt(both.square().mean().item<double>());
    if (!(alike(a, b) > kAlikeSome) || found < kAboveSome * left) return;
    const at::Tensor mean = look.y.mean(1).mean(0), place = at::arange(mean.size(0), at::kDouble);
    const double middle = (mean * place).sum().item<double>() / mean.sum().item<double>();
    if (mirrored(fine.mean(1) * known, middle - 2) > kMirrored) return;
    scan.round_edges = false;
  }
  if (found < kLeast * unit) return;
  const std::string seen = fmt::format(
      "columns of the detector differ from their neighbors alike in all views, by {:.2g} of a line integral, "
      "{:.0f} times what noise leaves (gains that changed since the flats, or counts not in proportion to "
      "the "
      "light: rings in every slice)",
      found, found / left);
  if (scan.rings == Rings::keep) {
    scan.warnings.push_back(
        seen + " write 'rings: remove' in problem.operator" +
        (scan.transmission ? ", or give flats that were taken with the views as problem.flat" : ""));
    return;
  }
  if ((scan.rings_said = scan.rings == Rings::found))
    notices.push_back(seen + ": that is taken from them ('rings: keep' in problem.operator leaves it)");
  scan.rings = Rings::remove;
}

namespace {

// A least squares fit: coefficients, what is left, and the error of the last one for deviations of 1.
struct Fitted {
  at::Tensor coefficients, left;
  double error_of_last = 0;
};
Fitted fitted(const std::vector<at::Tensor>& terms, const at::Tensor& y) {
  const at::Tensor X = at::stack(terms, 1), inverse = at::linalg_pinv(X.t().matmul(X), 1e-12, true);
  Fitted out{inverse.matmul(X.t().matmul(y)), {}, 0};
  out.left = y - X.matmul(out.coefficients);
  const auto last = static_cast<std::int64_t>(terms.size()) - 1;
  out.error_of_last = std::sqrt(inverse[last][last].item<double>());
  return out;
}

double mean_square(const at::Tensor& t) { return t.square().mean().item<double>(); }

// Of what is white: half the mean square of differences between views that follow each other.
double white_square(const at::Tensor& t) {
  const std::int64_t n = t.numel() - 1;
  return mean_square(t.narrow(0, 1, n) - t.narrow(0, 0, n)) / 2;
}

// Columns that most views stand aside each by itself, beyond what noise and the beam's level make of their centers of mass; else 0.
double shaking(const at::Tensor& p, const at::Tensor& left, const at::Tensor& mass, const at::Tensor& place) {
  constexpr double kLeastOff = 0.4, kTimes = 6, kMedian = 0.6745;
  const std::int64_t n = p.size(1) - 2;
  const at::Tensor fine = p.narrow(1, 1, n) - (p.narrow(1, 0, n) + p.narrow(1, 2, n)) / 2;
  const double noise = fine.abs().median().item<double>() / kMedian / std::sqrt(1.5);
  const double usual = mass.mean().item<double>(), level = std::sqrt(mean_square(mass / usual - 1)),
               middle = (p.matmul(place) / mass).mean().item<double>(),
               aside = std::abs(middle - place.mean().item<double>());
  const double by_noise = noise * std::sqrt((place - middle).square().sum().item<double>()) / usual;
  const double off = left.abs().median().item<double>() / kMedian;
  return off > std::max({kLeastOff, kTimes * by_noise, kTimes / 2 * level * std::max(1.0, aside)}) ? off : 0;
}

}  // namespace

// Source: the center of mass of a parallel view is the projection of the object's, whatever the object.
void judge_motion(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kViews = 24;
  constexpr double kAir = 0.02, kMass = 0.03, kSure = 8, kLeast = 1, kPart = 0.01, kWhite = 2, kOff = 0.25,
                   kSmooth = 16, kOffPart = 0.001;
  const at::Tensor p = look.y.mean(0);
  const std::int64_t views = p.size(0), columns = p.size(1), ends = std::min<std::int64_t>(4, columns / 8);
  if (views < kViews || columns < 16) return;
  const double peak = p.amax(1).median().item<double>();
  const at::Tensor left = p.narrow(1, 0, ends).mean(1), right = p.narrow(1, columns - ends, ends).mean(1);
  if (!(peak > 0) || left.abs().amax().item<double>() > 3 * kAir * peak ||
      right.abs().amax().item<double>() > 3 * kAir * peak || left.abs().mean().item<double>() > kAir * peak ||
      right.abs().mean().item<double>() > kAir * peak)
    return;
  const at::Tensor mass = p.sum(1), place = at::arange(columns, at::kDouble);
  const double usual = mass.mean().item<double>();
  if (!(usual > 0) || (mass / usual - 1).abs().mean().item<double>() > kMass) return;
  const at::Tensor middles = p.matmul(place).div(mass);
  std::vector<double> angles;
  for (const double angle : scan.file.angles) angles.push_back(angle * std::numbers::pi / 180);
  const at::Tensor t = at::tensor(angles, at::kDouble), time = at::linspace(0, 1, views, at::kDouble);
  const std::vector<at::Tensor> still{at::ones_like(t), t.cos(), t.sin()};
  std::vector<at::Tensor> moving = still;
  moving.push_back(time);
  const Fitted without = fitted(still, middles), with = fitted(moving, middles);
  const double before = mean_square(without.left), after = mean_square(with.left),
               white = white_square(with.left);
  const double drift = with.coefficients[3].item<double>(),
               least = std::max(kLeast, kPart * static_cast<double>(columns));
  const bool steady = after < 2 * kWhite * white && std::abs(drift) > least &&
                      std::abs(drift) > kSure * std::sqrt(after) * with.error_of_last;
  const double far = without.left.abs().amax().item<double>();
  const auto beyond = [&](double limit, double part, double whites) {
    const double least_off = std::max(limit, part * static_cast<double>(columns));
    return before > least_off * least_off && before > whites * white_square(without.left);
  };
  const bool astray = beyond(2 * kOff, kPart / 2, 4 * kWhite) || beyond(kOff, kOffPart, kSmooth);
  if (!steady && !astray) {
    if (const double off = shaking(p, without.left, mass, place); off > 0)
      scan.warnings.push_back(fmt::format(
          "views stand aside each by itself, by {:.2g} columns as a rule, as their centers of mass show (of "
          "an object that only "
          "turns they follow a sine: a stage that shakes, a bearing with play; edges are smeared) shift each "
          "view to the sine through all centers before",
          off));
    return;
  }
  scan.warnings.push_back(
      steady
          ? fmt::format(
                "the object moves by {:.1f} columns from the first view to the last, as the views' centers "
                "of mass show (of one that only turns they follow a sine; slices are smeared, and the axis "
                "that was found is of no use) shift view k of {} back by {:.2f} * k columns before",
                drift, views, drift / static_cast<double>(views - 1))
          : fmt::format(
                "the views' centers of mass are up to {:.1f} columns off a sine (of an object that only "
                "turns they follow one: it moved, the angles are not those of the views, or counts are not "
                "as the beam weakens) are the views in the order of their angles, and of one position?",
                far));
}

}  // namespace tessera
