// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/ramp_filter.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sinc.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <optional>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/physics/upright_detector.hpp"

namespace tessera {
namespace {

double norm(const Vector3& a) { return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]); }

// pitch times the spectrum of h, (length / 2 + 1), real.
at::Tensor ramp(std::int64_t length, double pitch, RampWindow window, double sharp) {
  at::Tensor h = at::zeros({length}, at::kDouble);
  double* at = h.mutable_data_ptr<double>();
  at[0] = 1 / (4 * pitch);
  for (std::int64_t n = 1; n <= length / 2; n += 2) {
    const double x = std::numbers::pi * static_cast<double>(n);
    at[n] = at[length - n] = -1 / (x * x * pitch);
  }
  at::Tensor spectrum = at::real(at::fft_rfft(h)).contiguous();
  const double last = std::numbers::pi / static_cast<double>(spectrum.size(0) - 1);
  const at::Tensor f = at::arange(spectrum.size(0), at::kDouble).mul_(last);
  if (window == RampWindow::hann) spectrum.mul_(at::cos(f).add_(1).mul_(0.5));
  if (window == RampWindow::cosine) spectrum.mul_(at::cos(f.mul(0.5)));
  if (window != RampWindow::ram_lak && sharp != 0)
    spectrum.div_(at::sinc(f.mul(0.5 / std::numbers::pi)).pow_(sharp));
  return spectrum;
}

}  // namespace

at::Tensor ramp_filtered(const at::Tensor& rows, double pitch, RampWindow window, double sharp) {
  const std::int64_t columns = rows.size(-1);
  at::Tensor out = at::empty_like(rows, at::MemoryFormat::Contiguous);
  if (rows.numel() == 0) return out;
  std::int64_t length = 2;
  while (length < 2 * columns) length *= 2;
  const at::Tensor spectrum = ramp(length, pitch, window, sharp).to(rows.options());
  const at::Tensor from = rows.reshape({-1, columns});
  at::Tensor to = out.view({-1, columns});
  const std::int64_t some =
      std::max<std::int64_t>(1, (std::int64_t{1} << 22) / length);  // not all spectra at once
  for (std::int64_t n = 0; n < from.size(0); n += some) {
    const std::int64_t count = std::min(some, from.size(0) - n);
    const at::Tensor filtered =
        at::fft_irfft(at::fft_rfft(from.narrow(0, n, count), length).mul_(spectrum), length);
    to.narrow(0, n, count).copy_(filtered.narrow(1, 0, columns));
  }
  return out;
}

namespace {

// Of views around the axis, modulo `circle`: half of the way from each to its neighbors, all together the circle; views
// that stand together have equal parts. And the longest way.
struct Shares {
  std::vector<double> of_view;
  double longest = 0;
};

// The way that half of the circle is made of ways up to: repeated exposures and their jitter are not usual ways.
double usual_way(std::vector<double> ways, double circle) {
  std::ranges::sort(ways);
  double sum = 0;
  for (const double way : ways)
    if ((sum += way) >= circle / 2) return way;
  return circle;
}

Shares shares_of(const std::vector<double>& angles, double circle) {
  constexpr double kTogether = 0.02;  // of the usual way
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t v = 0; v < angles.size(); ++v) {
    double angle = std::fmod(angles[v], circle);
    if (angle < 0) angle += circle;
    order.emplace_back(angle, v);
  }
  std::ranges::sort(order);
  const std::size_t n = order.size();
  std::vector<double> ways(n);  // to the next
  for (std::size_t k = 0; k + 1 < n; ++k) ways[k] = order[k + 1].first - order[k].first;
  ways[n - 1] = order[0].first + circle - order[n - 1].first;
  Shares out{std::vector<double>(n), *std::ranges::max_element(ways)};
  const double together = kTogether * usual_way(ways, circle);
  // Begins behind a way that is none between views that stand together: the longest is one.
  const auto begin = static_cast<std::size_t>(std::ranges::max_element(ways) - ways.begin()) + 1;
  double before = ways[begin - 1];
  for (std::size_t k = 0; k < n;) {
    std::size_t last = k;
    double inside = 0;
    while (last + 1 < n && ways[(begin + last) % n] <= together) inside += ways[(begin + last++) % n];
    const double after = ways[(begin + last) % n];
    const double share = (0.5 * (before + after) + inside) / static_cast<double>(last - k + 1);
    for (; k <= last; ++k) out.of_view[order[(begin + k) % n].second] = share;
    before = after;
  }
  return out;
}

// By how much the density of an ellipse with axes of 2.6 : 1 may come out wrong: what its views give to a pixel inside goes
// with the angle as r / (cos^2 + r^2 sin^2), a Poisson kernel, whose mean over the shares is to be 1 whatever its tilt.
double density_error(const std::vector<double>& angles, const std::vector<double>& shares, double period) {
  constexpr double kRho = 0.45;  // (r - 1) / (r + 1)
  constexpr int kTilts = 120;
  double sum = 0, worst = 0;
  for (const double share : shares) sum += share;
  for (int k = 0; k < kTilts; ++k) {
    double mean = 0;
    for (std::size_t v = 0; v < angles.size(); ++v)
      mean +=
          shares[v] / (1 + kRho * kRho -
                       2 * kRho * std::cos(2 * std::numbers::pi * (angles[v] / period - k / double{kTilts})));
    worst = std::max(worst, std::abs(mean * (1 - kRho * kRho) / sum - 1));
  }
  return worst;
}

constexpr double kDensity = 0.01;  // what may be wrong

std::vector<double> angles_of(const ProjectionGeometry& g) {
  std::vector<double> angles;  // of the rays of a parallel beam, else of the source around the axis
  for (const ProjectionView& view : g.views) angles.push_back(std::atan2(view.source[0], view.source[1]));
  return angles;
}

constexpr double kHalf = std::numbers::pi, kTurn = 2 * std::numbers::pi;

// The views with the axis at the origin: the volume does not matter to their weights.
class Centered {
 public:
  explicit Centered(const ProjectionGeometry& g) : given_(g) {
    if (g.axis == Vector3{}) return;
    moved_ = g;
    moved_->axis = {};
    for (ProjectionView& view : moved_->views)
      for (std::size_t d = 0; d < 3; ++d) {
        view.center[d] -= g.axis[d];
        if (g.beam != Beam::parallel) view.source[d] -= g.axis[d];
      }
  }
  const ProjectionGeometry& operator*() const { return moved_ ? *moved_ : given_; }

 private:
  const ProjectionGeometry& given_;
  std::optional<ProjectionGeometry> moved_;
};

// Whether rays around a whole turn are there from each side.
bool whole_turn(const std::vector<double>& angles, const std::vector<double>& shares) {
  return density_error(angles, shares, kTurn) <= kDensity && density_error(angles, shares, kHalf) <= kDensity;
}

// In the plane, of the middle of a column: from the source, or of a parallel beam's rays, unit length.
std::array<double, 2> ray_at(const ProjectionGeometry& g, const ProjectionView& view, double column) {
  const double off = column - 0.5 * static_cast<double>(g.columns - 1);
  double x = view.source[0], y = view.source[1];
  if (g.beam != Beam::parallel) {
    x = view.center[0] + off * view.u[0] - x;
    y = view.center[1] + off * view.u[1] - y;
  }
  return {x / std::hypot(x, y), y / std::hypot(x, y)};
}

// By which a ray passes the axis, in the plane; the one that comes from the other side has the negative.
double passes(const ProjectionGeometry& g, const ProjectionView& view, double column) {
  const double off = column - 0.5 * static_cast<double>(g.columns - 1);
  const auto [x, y] = ray_at(g, view, column);
  return (view.center[0] + off * view.u[0]) * y - (view.center[1] + off * view.u[1]) * x;
}

// What all views see: rays that pass the axis by [least, most].
std::array<double, 2> seen_by_all(const ProjectionGeometry& g) {
  std::array<double, 2> seen{-1e300, 1e300};
  for (const ProjectionView& view : g.views) {
    const double a = passes(g, view, -0.5), b = passes(g, view, static_cast<double>(g.columns) - 0.5);
    seen = {std::max(seen[0], std::min(a, b)), std::min(seen[1], std::max(a, b))};
  }
  return seen;
}

// Of a fan or a cone: twice the angle by which the source that sees a ray from the other side stands off half a turn.
double turned(const ProjectionGeometry& g, const ProjectionView& view, double column) {
  const auto [x, y] = ray_at(g, view, column);
  const double way = -2 * (view.source[0] * x + view.source[1] * y);
  const double angle = std::atan2(view.source[0] + way * x, view.source[1] + way * y) -
                       std::atan2(view.source[0], view.source[1]) - kHalf;
  return std::remainder(angle, kTurn);
}

struct Arc {
  double length = 0;          // 0: it is no short scan
  std::vector<double> along;  // of the views
  std::vector<double> shares;
};

// The part of a turn that views stand on, as evenly as they go, where it is half a turn and the detector's angle or more.
Arc short_scan(const ProjectionGeometry& g, const std::vector<double>& angles) {
  constexpr double kUneven = 2.5, kFew = std::numbers::pi / 30, kAside = 0.5;
  const std::array<double, 2> seen = seen_by_all(g);
  // Beyond what both halves of the detector see, rays have no other half: the object is to end there.
  if (g.beam == Beam::parallel || std::min(-seen[0], seen[1]) < kAside * std::max(-seen[0], seen[1]))
    return {};
  std::vector<double> order;
  for (const double angle : angles) order.push_back(angle < 0 ? angle + kTurn : angle);
  std::ranges::sort(order);
  double gap = order.front() + kTurn - order.back(), begin = order.front();  // behind the longest gap
  std::vector<double> ways{gap};
  for (std::size_t k = 1; k < order.size(); ++k) {
    ways.push_back(order[k] - order[k - 1]);
    if (ways.back() > gap) gap = ways.back(), begin = order[k];
  }
  ways.erase(std::ranges::max_element(ways));
  const double step = ways.empty() ? kTurn : usual_way(ways, kTurn - gap);
  Arc arc{kTurn - gap + step, {}, {}};
  for (const double angle : angles) {
    double at = std::fmod(angle - begin + 2 * kTurn, kTurn);
    if (at > arc.length) at -= kTurn;  // the first one, rounded
    arc.along.push_back(at + step / 2);
  }
  const Shares shares = shares_of(arc.along, arc.length);
  arc.shares = shares.of_view;
  double widest = 0;
  for (const ProjectionView& view : g.views)
    for (const double column : {-0.5, static_cast<double>(g.columns) - 0.5})
      widest = std::max(widest, std::abs(turned(g, view, column)));
  if (step > kFew || shares.longest > kUneven * step || arc.length < kHalf + widest || arc.length >= kTurn)
    return {};
  return arc;
}

// Parker's part of a ray, of those that a short scan has twice.
double part_of(double arc, double along, double turned) {
  const double early = arc - kHalf - turned,
               late = arc - kHalf + turned;  // how long rays are there again, or were before
  if (along < early) return std::pow(std::sin(kHalf / 2 * along / early), 2);
  if (arc - along < late) return std::pow(std::sin(kHalf / 2 * (arc - along) / late), 2);
  return 1;
}

std::string degrees(double angle) {
  return concat(std::round(angle * 1800 / std::numbers::pi) / 10, " degrees");
}

}  // namespace

namespace {

// Of rays that leave the planes of slices, or come from sources that are on no circle.
std::string refuse_rays(const ProjectionGeometry& g) {
  constexpr double kLevel = 1e-9, kLow = 0.1, kRound = 0.01;
  const bool cone = g.beam == Beam::cone, flat = g.volume.size[0] == 1;
  double least = 1e300, most = 0, low = 1e300, high = -1e300;
  for (const ProjectionView& view : g.views) {
    const double away = std::hypot(view.source[0], view.source[1]);
    if (g.beam == Beam::parallel && std::abs(view.source[2]) > kLevel * away)
      return "has rays that lean (laminography: they cross slices, and a part of the frequencies is not "
             "measured) ";
    least = std::min(least, away);
    most = std::max(most, away);
    low = std::min(low, view.source[2]);
    high = std::max(high, view.source[2]);
  }
  if (cone && high - low > kLevel * most) return "is a helix (its rays need weights of their own) ";
  if (cone && flat && high != 0)
    return "is a cone beam that sees the one slice from above or below (its rays cross it) ";
  if (cone && std::abs(high) > kLow * least)
    return "has sources far above or below the volume (laminography: rays that cross slices need weights of "
           "their own) ";
  if (g.beam != Beam::parallel && most > (1 + kRound) * least)
    return concat("has sources ", least, " to ", most,
                  " from the axis (the weights are those of a circle around it) ");
  return {};
}

std::string refuse_upright(const ProjectionGeometry& g, const std::string& otherwise) {
  const std::array<double, 2> seen = seen_by_all(g);
  if (!(seen[0] < 0 && seen[1] > 0))
    return "has views that do not see the axis (what lies around it is measured by none) " + otherwise;
  const std::vector<double> angles = angles_of(g);
  if (g.beam == Beam::parallel) {
    const Shares shares = shares_of(angles, kHalf);
    const double error = density_error(angles, shares.of_view, kHalf);
    if (error <= kDensity) return {};
    return concat("has ", g.views.size(), g.views.size() == 1 ? " view" : " views", " that leave out ",
                  degrees(shares.longest), " of half a turn (densities would be wrong by up to ",
                  std::ceil(100 * error), " %) ", otherwise);
  }
  const Shares shares = shares_of(angles, kTurn);
  if (whole_turn(angles, shares.of_view) || short_scan(g, angles).length > 0) return {};
  return concat("is a ", word(g.beam), " beam over less than a full turn (its views leave out ",
                degrees(shares.longest),
                " of it, where half a turn and the angle of the detector, evenly, would do) ", otherwise);
}

}  // namespace

std::string refuse_direct(const ProjectionGeometry& g) {
  const std::string otherwise = "take an iterative solver, for example sirt";
  const Centered centered(g);
  if (const std::string rays = refuse_rays(*centered); !rays.empty()) return rays + otherwise;
  return is_upright(g) ? refuse_upright(*centered, otherwise)
                       : refuse_upright(upright_detector(*centered), otherwise);
}

DirectReconstruction direct_reconstruction(const ProjectionGeometry& given) {
  const std::string refusal = refuse_direct(given);
  TESSERA_VALIDATE(refusal.empty(), "the scan ", refusal);
  const Centered centered(given);
  const ProjectionGeometry& g = *centered;
  const ProjectionView& first = g.views.front();
  const double enlarged = magnification(g, 0);
  DirectReconstruction direct;
  direct.pitch = norm(first.u) / enlarged;
  const std::vector<double> angles = angles_of(g);
  const std::vector<double> turn = shares_of(angles, kTurn).of_view;
  if (g.beam == Beam::parallel) {
    direct.shares = shares_of(angles, kHalf).of_view;
  } else if (whole_turn(angles, turn)) {
    direct.shares = turn;  // each ray is there twice
    for (double& share : direct.shares) share /= 2;
  } else {
    Arc arc = short_scan(g, angles);
    direct.shares = std::move(arc.shares);
    direct.along = std::move(arc.along);
    direct.arc = arc.length;
  }
  const double over = direct.arc > 0 ? direct.arc : whole_turn(angles, turn) ? kTurn : kHalf;
  direct.sharp =
      std::min(1.0, 2 * static_cast<double>(g.views.size()) / over / static_cast<double>(g.columns));
  const std::array<double, 2> seen = seen_by_all(g);
  const double near = std::min(-seen[0], seen[1]), far = std::max(-seen[0], seen[1]);
  if (far - near > direct.pitch && whole_turn(angles, turn)) {
    constexpr double kColumns = 8, kPart = 0.25;
    direct.once = turn;
    direct.near = seen[1] > -seen[0] ? near : -near;
    direct.fade = std::min(near, std::max({kColumns * direct.pitch, (far - near) / 2, kPart * near}));
  }
  return direct;
}

WideDetector wide_detector(const ProjectionGeometry& given, const DirectReconstruction& direct) {
  WideDetector wide{given, 0};
  if (direct.once.empty()) return wide;
  const Centered centered(given);
  const ProjectionGeometry& g = *centered;
  const ProjectionView& first = g.views.front();
  const double far = std::max(std::abs(passes(g, first, -0.5)),
                              std::abs(passes(g, first, static_cast<double>(g.columns) - 0.5)));
  const bool left = std::abs(passes(g, first, -0.5)) < far;
  std::int64_t more = 0;
  for (double at = 0; at < far && more < 4 * g.columns;) {
    ++more;
    at = std::abs(
        passes(g, first,
               (left ? 0 : static_cast<double>(g.columns)) - 0.5 + static_cast<double>(left ? -more : more)));
  }
  wide.geometry.columns += more;
  wide.left = left ? more : 0;
  for (ProjectionView& view : wide.geometry.views)
    for (std::size_t d = 0; d < 3; ++d)
      view.center[d] += (left ? -0.5 : 0.5) * static_cast<double>(more) * view.u[d];
  return wide;
}

at::Tensor direct_weights(const ProjectionGeometry& given, const DirectReconstruction& direct,
                          const Box& samples) {
  const Centered centered(given);
  const ProjectionGeometry& g = *centered;
  const bool cone = g.beam == Beam::cone;
  const std::int64_t first = cone ? samples.lo()[1] : 0, last = cone ? samples.hi()[1] : 1;
  at::Tensor out = at::empty({samples.extent(0), last - first, samples.extent(2)}, at::kDouble);
  auto* to = out.mutable_data_ptr<double>();
  std::vector<double> line(static_cast<std::size_t>(samples.extent(2))), flat(line.size());
  for (std::int64_t n = samples.lo()[0]; n < samples.hi()[0]; ++n) {
    const auto k = static_cast<std::size_t>(n);
    const ProjectionView& view = g.views[k];
    const double u = norm(view.u),
                 axis = std::abs(view.source[0] * view.u[1] - view.source[1] * view.u[0]) / u;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const double column = static_cast<double>(samples.lo()[2]) + static_cast<double>(c);
      double& weight = line[c] = direct.shares[k];
      if (!direct.once.empty()) {
        const double p = passes(g, view, column) * (direct.near < 0 ? -1 : 1),
                     x = std::clamp((std::abs(p) - std::abs(direct.near)) / direct.fade + 1, 0.0, 1.0),
                     outer = std::pow(std::sin(kHalf / 2 * x), 2);
        weight = (1 - outer) * weight + (p > 0 ? outer * direct.once[k] : 0);
      }
      if (g.beam == Beam::parallel) continue;
      if (direct.arc > 0) weight *= part_of(direct.arc, direct.along[k], turned(g, view, column));
      const double off = column - 0.5 * static_cast<double>(g.columns - 1);
      const double x = view.center[0] + off * view.u[0] - view.source[0],
                   y = view.center[1] + off * view.u[1] - view.source[1];
      flat[c] = std::hypot(x, y);
      weight *= std::abs(view.source[0] * x + view.source[1] * y) / flat[c] / axis;
    }
    for (std::int64_t j = first; j < last; ++j) {
      const double high = view.center[2] - view.source[2] +
                          (static_cast<double>(j) - 0.5 * static_cast<double>(g.rows - 1)) * view.v[2];
      for (std::size_t c = 0; c < line.size(); ++c)
        *to++ = cone ? line[c] * flat[c] / std::hypot(flat[c], high) : line[c];
    }
  }
  return out;
}

void interpolate_unweighted(at::Tensor& y, const at::Tensor& weights) {
  const std::int64_t columns = y.size(-1);
  if (y.numel() == 0) return;
  at::Tensor rows = y.reshape({-1, columns}).to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor counts = weights.ne(0).reshape({-1, columns}).to(at::kCPU).contiguous();
  for (std::int64_t r = 0; r < rows.size(0); ++r) {
    double* row = rows.mutable_data_ptr<double>() + r * columns;
    const bool* counted = counts.const_data_ptr<bool>() + r * columns;
    std::int64_t last = -1;  // that counts
    for (std::int64_t i = 0; i <= columns; ++i) {
      if (i < columns && !counted[i]) continue;
      for (std::int64_t k = last + 1; k < i; ++k) {
        const double part = static_cast<double>(k - last) / static_cast<double>(i - last);
        row[k] = last < 0 && i == columns ? 0
                 : last < 0               ? row[i]
                 : i == columns           ? row[last]
                                          : (1 - part) * row[last] + part * row[i];
      }
      last = i;
    }
  }
  y.copy_(rows.view_as(y));
}

at::Tensor sirt_scaling(const at::Tensor& sums, double largest) {
  return at::where(sums.gt(1e-6 * largest), sums.reciprocal(), at::zeros_like(sums));
}

}  // namespace tessera
