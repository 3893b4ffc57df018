// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/rotation_axis.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fft_fft.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr std::int64_t kEnds = 4;   // columns at an end, whose mean a line goes through
constexpr std::int64_t kApart = 4;  // columns between which by_edges takes differences
constexpr std::int64_t kFiner = 8;  // places per half column, before the parabola
constexpr double kAgree = 2;        // columns

// The views around a whole turn, in the order of their angles modulo it.
struct Circle {
  std::vector<std::pair<double, std::size_t>> views;  // angle, place in the list
  std::vector<double> ways;                           // from each to the next
  double usual = 0;                                   // way, of those that most of the angles lie in

  // The views on both sides of an angle, and the share of the higher one.
  struct Place {
    std::size_t low, high;
    double share;
  };
  Place at(double angle) const {
    angle = std::fmod(std::fmod(angle, 2 * kPi) + 2 * kPi, 2 * kPi);
    const auto next = std::upper_bound(views.begin(), views.end(), std::pair(angle, views.size()));
    const std::size_t n = views.size(), high = static_cast<std::size_t>(next - views.begin()) % n,
                      low = (high + n - 1) % n;
    const double past = std::fmod(angle - views[low].first + 2 * kPi, 2 * kPi);
    return {views[low].second, views[high].second,
            ways[low] > 0 ? std::clamp(past / ways[low], 0.0, 1.0) : 0};
  }
};

// Half a turn at even angles, each view between two that were measured.
using HalfTurn = std::vector<Circle::Place>;

Circle circle_of(const std::vector<double>& angles) {
  constexpr double kGap = kPi / 6;  // no way between neighbors
  Circle circle;
  for (std::size_t k = 0; k < angles.size(); ++k)
    circle.views.emplace_back(std::fmod(std::fmod(angles[k], 2 * kPi) + 2 * kPi, 2 * kPi), k);
  std::sort(circle.views.begin(), circle.views.end());
  for (std::size_t k = 0; k < circle.views.size(); ++k)
    circle.ways.push_back(k + 1 < circle.views.size()
                              ? circle.views[k + 1].first - circle.views[k].first
                              : circle.views[0].first + 2 * kPi - circle.views[k].first);
  std::vector<double> ways = circle.ways;
  std::erase_if(ways, [](double way) { return way > kGap; });
  std::sort(ways.begin(), ways.end());
  const double half = std::accumulate(ways.begin(), ways.end(), 0.0) / 2;
  double sum = 0;
  for (const double way : ways) {
    if (sum < half) circle.usual = way;
    sum += way;
  }
  return circle;
}

// Those from one view on that have no gap; first two that are opposite where there is a whole turn.
struct HalfTurns {
  std::vector<HalfTurn> all;
  bool opposite = false;
};
HalfTurns half_turns(const Circle& circle, std::string& problem) {
  constexpr double kTogether = 0.02, kMissing = 4;  // of the usual way
  const auto apart = std::count_if(circle.ways.begin(), circle.ways.end(),
                                   [&](double way) { return way > kTogether * circle.usual; });
  if (apart < 8) {
    problem = "there are fewer than 8 views";
    return {};
  }
  const std::size_t n = circle.views.size();
  const double gap = kMissing * circle.usual;
  const auto is_gap = [&](std::size_t k) { return circle.ways[k % n] > gap; };
  std::vector<std::size_t> starts;  // behind a gap
  for (std::size_t k = 0; k < n; ++k)
    if (is_gap(k)) starts.push_back((k + 1) % n);
  const bool whole = starts.empty();
  if (whole) starts.push_back(0);
  HalfTurns out;
  const auto count = static_cast<std::int64_t>(std::llround(kPi / circle.usual));
  for (const std::size_t start : starts) {
    double span = whole ? 2 * kPi : 0;
    for (std::size_t k = start; !whole && !is_gap(k); ++k) span += circle.ways[k % n];
    if (span + 1.5 * circle.usual < kPi) continue;
    out.opposite = span + 1.5 * circle.usual >= 2 * kPi;
    for (int half = 0; half < (out.opposite ? 2 : 1); ++half) {
      HalfTurn& turn = out.all.emplace_back();
      for (std::int64_t k = 0; k < count; ++k) {
        const double way = kPi * (half + static_cast<double>(k) / static_cast<double>(count));
        turn.push_back(circle.at(circle.views[start].first + way));
        if (!whole && way > span) turn.back().share = 0;  // the end of half a turn: what is nearest
      }
    }
  }
  if (out.all.empty())
    problem = starts.size() < 2 ? "the views go over less than half a turn"
                                : "the angles have gaps, and no half a turn is without one";
  return out;
}

at::Tensor at_even_angles(const at::Tensor& sinogram, const HalfTurn& turn) {
  const std::int64_t columns = sinogram.size(1);
  at::Tensor out = at::empty({static_cast<std::int64_t>(turn.size()), columns}, at::kDouble);
  for (std::size_t k = 0; k < turn.size(); ++k) {
    const Circle::Place& v = turn[k];
    const double *low = sinogram.const_data_ptr<double>() + static_cast<std::int64_t>(v.low) * columns,
                 *high = sinogram.const_data_ptr<double>() + static_cast<std::int64_t>(v.high) * columns;
    double* to = out.data_ptr<double>() + static_cast<std::int64_t>(k) * columns;
    for (std::int64_t i = 0; i < columns; ++i) to[i] = (1 - v.share) * low[i] + v.share * high[i];
  }
  return out;
}

// Less the line through the means of a few columns at both ends.
at::Tensor without_line(const at::Tensor& p) {
  const std::int64_t n = p.size(1), k = std::min(kEnds, n / 4);
  at::Tensor out = p.clone();
  for (std::int64_t v = 0; v < p.size(0); ++v) {
    double* row = out.data_ptr<double>() + v * n;
    const double left = std::accumulate(row, row + k, 0.0) / static_cast<double>(k),
                 right = std::accumulate(row + n - k, row + n, 0.0) / static_cast<double>(k);
    for (std::int64_t i = 0; i < n; ++i) {
      const double t = static_cast<double>(i) / static_cast<double>(n - 1);
      row[i] -= left * (1 - t) + right * t;
    }
  }
  return out;
}

// Differences over some columns, led to 0 at both ends.
at::Tensor edges(const at::Tensor& p, std::int64_t apart) {
  const std::int64_t n = p.size(1) - apart, rim = std::max<std::int64_t>(1, n / 50);
  at::Tensor out = (p.narrow(1, apart, n) - p.narrow(1, 0, n)).contiguous();
  for (std::int64_t v = 0; v < out.size(0); ++v)
    for (std::int64_t i = 0; i < rim; ++i) {
      const double fade =
          0.5 - 0.5 * std::cos(kPi * (static_cast<double>(i) + 0.5) / static_cast<double>(rim));
      out.data_ptr<double>()[v * n + i] *= fade;
      out.data_ptr<double>()[v * n + n - 1 - i] *= fade;
    }
  return out;
}

// Adds the correlation's spectrum of half a turn, (length / 2 + 1) complex numbers. With A the spectrum of the half
// turn continued by zeros to a whole one, that of its mirror image is (-1)^m e^{-2 pi i f (n - 1)} A(m, -f).
void add_correlation(const at::Tensor& p, double sign, std::vector<std::complex<double>>& sum) {
  const std::int64_t views = p.size(0), n = p.size(1), whole = 2 * views;
  const std::int64_t length = 2 * (std::ssize(sum) - 1);
  // Beyond this frequency the wedge holds all of the angles.
  const std::int64_t last =
      std::min(std::ssize(sum) - 1,
               views * length / static_cast<std::int64_t>(std::ceil(kPi * static_cast<double>(n))));
  const at::Tensor lines = at::fft_rfft(p, length, 1).narrow(1, 0, last + 1);
  const at::Tensor spectrum = at::fft_fft(lines, whole, 0).contiguous();
  const auto* a =
      reinterpret_cast<const std::complex<double>*>(spectrum.const_data_ptr<c10::complex<double>>());
  for (std::int64_t f = 1; f <= last; ++f) {
    const double wedge =
        kPi * static_cast<double>(f) / static_cast<double>(length) * static_cast<double>(n) + 2;
    std::complex<double> energy = 0;
    for (auto m = static_cast<std::int64_t>(std::floor(wedge)) + 1; m <= views; ++m)
      for (const std::int64_t at : {m, whole - m}) {
        if (at == whole - m && m == views) continue;  // both are one
        const double turn = m % 2 == 0 ? sign : -sign;
        energy += turn * std::conj(a[at * (last + 1) + f] * a[(whole - at) % whole * (last + 1) + f]);
      }
    const double shift =
        -2 * kPi * static_cast<double>(f) / static_cast<double>(length) * static_cast<double>(n - 1);
    sum[static_cast<std::size_t>(f)] += energy * std::polar(1.0, shift);
  }
}

// The column about which the mirror image leaves the least energy: twice of it is n - 1 and a shift d, for which
// the sum of Re(spectrum(f) e^{-2 pi i f d}) is least.
// Sought in the middle half of the detector; nothing where it is least at an end of that.
std::optional<double> least_energy(const std::vector<std::complex<double>>& sum, std::int64_t n) {
  const std::int64_t length = 2 * (std::ssize(sum) - 1), finer = length * kFiner;
  at::Tensor spectrum = at::zeros({finer / 2 + 1}, at::kComplexDouble);
  auto* s = reinterpret_cast<std::complex<double>*>(spectrum.data_ptr<c10::complex<double>>());
  for (std::size_t f = 0; f < sum.size(); ++f) s[f] = std::conj(sum[f]);
  const at::Tensor energies = at::fft_irfft(spectrum, finer).contiguous();
  const auto* e = energies.const_data_ptr<double>();
  const auto energy = [&](std::int64_t place) { return e[(place % finer + finer) % finer]; };
  const std::int64_t most = n * kFiner / 2;  // the axis is seen in the middle half
  std::int64_t best = 0;
  for (std::int64_t place = -most; place <= most; ++place)
    if (energy(place) < energy(best)) best = place;
  if (std::abs(best) == most) return std::nullopt;
  const double before = energy(best - 1), at = energy(best), after = energy(best + 1),
               bend = before - 2 * at + after;
  const double off = bend > 0 ? std::clamp(0.5 * (before - after) / bend, -0.5, 0.5) : 0;
  return (static_cast<double>(n - 1) + (static_cast<double>(best) + off) / static_cast<double>(kFiner)) / 2;
}

// How views and those from the other side, mirrored about a column, resemble each other where they overlap: twice the
// product of their differences along the detector over the sum of squares, for columns all over the detector. Of whole
// turns, whatever the object.
class Opposite {
 public:
  Opposite(std::int64_t columns, std::int64_t apart)
      : n_(columns - apart), apart_(apart), before_(static_cast<std::size_t>(n_ + 1)) {
    while (length_ < 2 * n_) length_ *= 2;
    product_ = at::zeros({length_ / 2 + 1}, at::kComplexDouble);
  }
  void add(const at::Tensor& half, const at::Tensor& other) {
    const auto differences = [&](const at::Tensor& p) {
      return (p.narrow(1, apart_, n_) - p.narrow(1, 0, n_)).contiguous();
    };
    const at::Tensor a = differences(half), b = differences(other);
    product_ += (at::fft_rfft(a, length_, 1) * at::fft_rfft(b, length_, 1)).sum(0);
    const at::Tensor squares = (a.square() + b.square()).sum(0);
    double sum = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      sum += squares.const_data_ptr<double>()[i];
      before_[static_cast<std::size_t>(i + 1)] += sum;
    }
  }
  // 1: the same; 0: nothing in common. At places kFiner to a half column.
  void finish() {
    at::Tensor finer = at::zeros({length_ * kFiner / 2 + 1}, at::kComplexDouble);
    finer.narrow(0, 0, length_ / 2 + 1).copy_(product_);
    const at::Tensor c =
        at::fft_irfft(finer, length_ * kFiner).mul_(static_cast<double>(kFiner)).contiguous();
    constexpr double kSome = 1e-3;                                  // of all squares
    const std::int64_t least = std::max<std::int64_t>(8, n_ / 24);  // columns that overlap
    first_ = (least - 1) * kFiner;
    for (std::int64_t place = first_; place <= (2 * n_ - 1 - least) * kFiner; ++place) {
      const double d = static_cast<double>(place) / static_cast<double>(kFiner);
      const double squares = seen(std::min(d + 1, static_cast<double>(n_))) -
                             seen(std::max(d - static_cast<double>(n_) + 1, 0.0));
      const bool some = squares > kSome * before_.back();
      alike_.push_back(some ? -2 * c.const_data_ptr<double>()[place] / squares : 0);
    }
  }
  double best() const {
    const auto k = std::max_element(alike_.begin(), alike_.end()) - alike_.begin();
    return column_of(static_cast<double>(k + first_));
  }
  double at(double column) const {
    const double place = (2 * column - static_cast<double>(apart_)) * static_cast<double>(kFiner);
    const auto k = static_cast<std::int64_t>(std::llround(place)) - first_;
    return k < 0 || k >= std::ssize(alike_) ? -1 : alike_[static_cast<std::size_t>(k)];
  }

 private:
  double column_of(double place) const {
    return (place / static_cast<double>(kFiner) + static_cast<double>(apart_)) / 2;
  }
  double seen(double columns) const {
    const auto k = std::min<std::int64_t>(static_cast<std::int64_t>(columns), n_ - 1);
    const double part = columns - static_cast<double>(k);
    return (1 - part) * before_[static_cast<std::size_t>(k)] +
           part * before_[static_cast<std::size_t>(k + 1)];
  }
  std::int64_t n_, apart_, length_ = 2, first_ = 0;
  at::Tensor product_;
  std::vector<double> before_, alike_;
};

// The axis by the views' centers of mass, which go around it: of an object with air on both sides in every view, over
// any angles that tell the circle. Nothing where it is not known to a tenth of a column, or masses or ends differ.
std::optional<double> by_mass(const at::Tensor& sinogram, const std::vector<double>& angles) {
  constexpr double kAir = 0.02, kMass = 0.05, kTold = 5, kKnown = 0.1;
  const std::int64_t views = sinogram.size(0), n = sinogram.size(1), ends = std::min(kEnds, n / 4);
  const at::Tensor p = without_line(sinogram);
  const double peak = p.amax(1).median().item<double>();
  const at::Tensor left = sinogram.narrow(1, 0, ends).mean(1),
                   right = sinogram.narrow(1, n - ends, ends).mean(1);
  if (!(peak > 0) || left.abs().mean().item<double>() > kAir * peak ||
      right.abs().mean().item<double>() > kAir * peak)
    return std::nullopt;
  const at::Tensor mass = p.sum(1), place = at::arange(n, at::kDouble);
  const double usual = mass.mean().item<double>();
  if (!(usual > 0) || (mass - usual).abs().mean().item<double>() > kMass * usual) return std::nullopt;
  const at::Tensor t = at::tensor(angles, at::kDouble), middles = p.matmul(place).div(mass);
  const at::Tensor X = at::stack({at::ones_like(t), t.cos(), t.sin()}, 1);
  const at::Tensor normal = X.t().matmul(X), inverse = at::linalg_pinv(normal, 1e-9, true);
  const at::Tensor fit = inverse.matmul(X.t().matmul(middles));
  const double off = (X.matmul(fit) - middles).square().mean().sqrt().item<double>(),
               told = std::sqrt(static_cast<double>(views) * inverse[0][0].item<double>());
  if (views < 8 || told > kTold || told * off > kKnown * std::sqrt(static_cast<double>(views)) ||
      off > 0.5 + 0.005 * static_cast<double>(n))
    return std::nullopt;
  return fit[0].item<double>();
}

}  // namespace

RotationAxis find_rotation_axis(const at::Tensor& rows, const std::vector<double>& angles) {
  TESSERA_EXPECT(rows.dim() == 3 && rows.size(1) == std::ssize(angles), "sinograms of ", rows.size(1),
                 " views, ", angles.size(), " angles");
  RotationAxis out;
  const std::int64_t columns = rows.size(2), apart = columns < 64 ? 2 : kApart;
  if (columns < 16) {
    out.problem = "there are fewer than 16 columns";
    return out;
  }
  const HalfTurns turns = half_turns(circle_of(angles), out.problem);
  const std::optional<double> mass = by_mass(rows.sum(0).contiguous(), angles);
  const auto take = [&](double column, RotationAxis::By by) {
    out.column = out.by_values = out.by_edges = column;
    out.by = by;
    out.problem.clear();
    return out;
  };
  if (!out.problem.empty()) return mass ? take(*mass, RotationAxis::By::mass) : out;
  std::int64_t length = 2;
  while (length < 2 * columns) length *= 2;
  std::vector<std::complex<double>> values(static_cast<std::size_t>(length / 2 + 1)), differences(values);
  Opposite opposite(columns, apart);
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const at::Tensor sinogram = rows.select(0, row).contiguous();
    std::vector<at::Tensor> halves;
    for (const HalfTurn& turn : turns.all) {
      const at::Tensor p = halves.emplace_back(at_even_angles(sinogram, turn));
      add_correlation(without_line(p), 1, values);
      add_correlation(edges(p, apart), -1, differences);
    }
    if (turns.opposite) opposite.add(halves[0], halves[1]);
  }
  const auto nothing = [](const std::complex<double>& v) { return !(std::abs(v) > 0); };
  if (std::all_of(values.begin(), values.end(), nothing)) {
    out.problem = "the views show nothing, or their columns are many for so few views";
    return mass ? take(*mass, RotationAxis::By::mass) : out;
  }
  const std::optional<double> by_values = least_energy(values, columns),
                              by_edges = least_energy(differences, columns - apart);
  if (by_values && by_edges) {
    out.by_values = *by_values;
    out.by_edges = *by_edges + static_cast<double>(apart) / 2;
    out.column =
        std::abs(out.by_values - out.by_edges) <= kAgree ? (out.by_values + out.by_edges) / 2 : out.by_edges;
  }
  if (turns.opposite) {
    constexpr double kMore = 0.1, kAtAll = 0.1;
    opposite.finish();
    const double best = opposite.best(), alike = opposite.at(best);
    const double here = by_values && by_edges ? opposite.at(out.column) : -1;
    if (alike > kAtAll && alike > here + kMore && std::abs(best - out.column) > kAgree)
      return take(best, RotationAxis::By::opposite);
  }
  const double middle = 0.5 * static_cast<double>(columns - 1), half = 0.25 * static_cast<double>(columns);
  if (mass && (!by_values || !by_edges || std::abs(*mass - middle) > half))
    return take(*mass, RotationAxis::By::mass);
  if (!by_values || !by_edges)
    out.problem = "it is looked for in the middle half of the detector alone, and is not there";
  return out;
}

}  // namespace tessera
