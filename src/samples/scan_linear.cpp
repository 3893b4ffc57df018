// SPDX-License-Identifier: BSD-3-Clause
// Whether what views sum up to is as of line integrals of one object.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "scan_sense.hpp"

namespace tessera {
namespace {

// Views without the line between both of their ends, beside the object: their light is not asked here.
at::Tensor without_ends(const at::Tensor& p) {
  const std::int64_t columns = p.size(1), ends = std::min<std::int64_t>(9, columns / 8);
  const at::Tensor left = std::get<0>(p.narrow(1, 0, ends).median(1, true)),
                   right = std::get<0>(p.narrow(1, columns - ends, ends).median(1, true));
  return p - left - (right - left) * at::linspace(0, 1, columns, at::kDouble);
}

bool has_air(const at::Tensor& p) {
  constexpr double kAir = 0.03;
  const std::int64_t columns = p.size(1), ends = std::min<std::int64_t>(4, columns / 8);
  const double most = kAir * p.amax(1).median().item<double>();
  return most > 0 && p.narrow(1, 0, ends).mean(1).abs().mean().item<double>() < most &&
         p.narrow(1, columns - ends, ends).mean(1).abs().mean().item<double>() < most;
}

// What is left of y along the first axis where columns of X are fitted to it.
at::Tensor left_of(const at::Tensor& y, const at::Tensor& X) {
  return y - X.matmul(at::linalg_pinv(X, 1e-12).matmul(y));
}

// How masses follow sums of squares, each from every second column: noise, which makes both larger where they are of the
// same samples, has no part in it.
double slope_between_columns(const at::Tensor& p, const at::Tensor& drift) {
  std::array<at::Tensor, 2> mass, square;
  for (std::size_t k = 0; k < 2; ++k) {
    const at::Tensor half = without_ends(p.slice(1, static_cast<std::int64_t>(k), p.size(1), 2));
    mass[k] = left_of(half.sum(1), drift);
    square[k] = left_of(half.square().sum(1), drift);
  }
  const at::Tensor together = square[0] * mass[1] + square[1] * mass[0],
                   own = square[0].square() + square[1].square();
  return together.sum().item<double>() / own.sum().item<double>();
}

}  // namespace

// Views of one object have one mass. Where line integrals come out too small or too large the more of them there is,
// masses follow the views' sums of squares.
void judge_linearity(Scan& scan, const ScanRows& look) {
  constexpr std::int64_t kViews = 24;
  constexpr double kSure = 8, kShare = 0.5, kLeast = 0.03, kVaries = 0.02, kHalf = 0.5;
  const at::Tensor p = look.y.mean(0);
  const std::int64_t views = p.size(0);
  if (views < kViews || p.size(1) < 16 || !has_air(p)) return;
  const at::Tensor q = without_ends(p), mass = q.sum(1), square = q.square().sum(1),
                   time = at::linspace(-1, 1, views, at::kDouble);
  const double usual = mass.mean().item<double>(), peak = q.amax(1).median().item<double>();
  if (!(usual > 0) || square.std().item<double>() < kVaries * square.mean().item<double>()) return;
  const at::Tensor drift = at::stack({at::ones_like(mass), time}, 1),
                   both = at::stack({at::ones_like(mass), time, square}, 1);
  const at::Tensor before = left_of(mass, drift), after = left_of(mass, both), own = left_of(square, drift);
  const double slope = (own * before).sum().item<double>() / own.square().sum().item<double>(),
               scatter = std::sqrt(after.square().mean().item<double>() / own.square().sum().item<double>()),
               share = 1 - after.square().sum().item<double>() / before.square().sum().item<double>();
  const double of_peak = slope * peak;
  const double off = of_peak < 0 ? 1 - 1 / (1 - of_peak) : 1 / (1 - std::min(of_peak, 0.5)) - 1;
  if (std::abs(slope) < kSure * scatter || share < kShare || std::abs(of_peak) < kLeast) return;
  if (slope_between_columns(p, drift) / slope < kHalf) return;
  const std::string seen = fmt::format(
      "views of one object have one mass, and these have {} where their line integrals are larger: those of "
      "{:.2g} come out about {:.0f} % too {}",
      of_peak < 0 ? "less" : "more", peak, 100 * off, of_peak < 0 ? "small" : "large");
  scan.warnings.push_back(
      of_peak > 0
          ? seen + (scan.transmission
                        ? " (the darks are too bright, as with a shutter that was not closed) give darks "
                          "without any light as problem.dark"
                        : " (more than the beam's counts without light was subtracted before the "
                          "logarithm, or they are not logarithms) mend that before")
      : scan.transmission && scan.file.darks.empty()
          ? seen +
                " (what the camera counts without light was not subtracted: there are no darks; or the beam "
                "hardens) give darks as problem.dark, or correct for beam hardening before"
          : seen + fmt::format(
                       " (the beam hardens: of several energies the soft ones are gone first; or it "
                       "scatters, or an offset was not subtracted: densities fall towards the middle of "
                       "thick parts) write 'hardening: [1, {:.2g}]' in problem.operator, which makes the "
                       "masses equal, or a polynomial measured with the material",
                       -slope));
}

void judge_parallel(Scan& scan, const ScanRows& look) {
  judge_motion(scan, look);
  judge_linearity(scan, look);
}

}  // namespace tessera
