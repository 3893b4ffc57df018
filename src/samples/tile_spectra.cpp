// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/tile_spectra.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>

#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kSide = TileSpectra::kSide, kHalf = TileSpectra::kHalf;
constexpr std::size_t kBins = TileSpectra::kBins;
constexpr std::int64_t kMost = 2048;  // tiles of a part

// The window, of mean square 1, and the waves of a transform of kSide samples.
struct Tables {
  std::array<double, kSide> window{};
  std::array<double, kSide * kSide> cosine{}, sine{};  // wave, sample

  Tables() {
    double squares = 0;
    for (std::size_t i = 0; i < kSide; ++i) {
      window[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kSide);
      squares += window[i] * window[i];
    }
    for (double& w : window) w /= std::sqrt(squares);  // of the sum of squares over a tile
    for (std::size_t k = 0; k < kSide; ++k)
      for (std::size_t i = 0; i < kSide; ++i) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(k * i % kSide) / kSide;
        cosine[k * kSide + i] = std::cos(angle);
        sine[k * kSide + i] = std::sin(angle);
      }
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

// |F|^2 of one windowed tile.
void transform(const std::array<double, kSide * kSide>& tile, float* power) {
  const Tables& t = tables();
  std::array<double, kSide * kHalf> re{}, im{};  // row, wave along it
  for (std::size_t r = 0; r < kSide; ++r)
    for (std::size_t k = 0; k < kHalf; ++k) {
      double a = 0, b = 0;
      for (std::size_t i = 0; i < kSide; ++i) {
        a += tile[r * kSide + i] * t.cosine[k * kSide + i];
        b -= tile[r * kSide + i] * t.sine[k * kSide + i];
      }
      re[r * kHalf + k] = a;
      im[r * kHalf + k] = b;
    }
  for (std::size_t m = 0; m < kSide; ++m) {
    std::array<double, kHalf> a{}, b{};
    for (std::size_t r = 0; r < kSide; ++r) {
      const double c = t.cosine[m * kSide + r], s = t.sine[m * kSide + r];
      for (std::size_t k = 0; k < kHalf; ++k) {
        a[k] += c * re[r * kHalf + k] + s * im[r * kHalf + k];
        b[k] += c * im[r * kHalf + k] - s * re[r * kHalf + k];
      }
    }
    for (std::size_t k = 0; k < kHalf; ++k)
      power[m * kHalf + k] = static_cast<float>(a[k] * a[k] + b[k] * b[k]);
  }
}

// This rank's tiles: those whose first sample it owns. Steps between tiles are the same in rows and columns.
std::vector<Index3> tiles_of(const Box& block, const Box& all) {
  const auto along = [&](std::size_t d, std::int64_t step) {
    return all.extent(d) < kSide ? 0 : (all.extent(d) - kSide) / step + 1;
  };
  std::int64_t step = kSide / 2;
  while (along(1, step) * along(2, step) > kMost) step += kSide / 2;
  std::vector<Index3> out;
  for (std::int64_t r = 0; r < along(1, step); ++r)
    for (std::int64_t c = 0; c < along(2, step); ++c) {
      const Index3 at{all.lo()[0], all.lo()[1] + r * step, all.lo()[2] + c * step};
      if (block.contains(Box(at, at + Index3{1, 1, 1}))) out.push_back(at);
    }
  return out;
}

}  // namespace

TileSpectra::TileSpectra(const at::Tensor& y, const at::Tensor& counted, const ProductSpace& layout,
                         std::size_t part, const Communicator& comm,
                         const std::shared_ptr<Transport>& transport)
    : channels_(static_cast<std::size_t>(layout.part(part).space.channels)) {
  const Box& all = layout.part(part).box();
  TESSERA_EXPECT(all.extent(0) == 1, "spectra of tiles are of pictures");
  const Layout own = layout.layout(part);
  const Layout need = own.grow({{0, 0, 0}, {0, kSide - 1, kSide - 1}});
  std::vector<Box> cut;
  for (int r = 0; r < comm.size(); ++r) cut.push_back(need.box(r).intersect(all));
  const Box block = own.box(comm.rank()), seen = cut[static_cast<std::size_t>(comm.rank())];
  const auto channels = static_cast<std::int64_t>(channels_);
  const at::Tensor both = at::cat({y.masked_fill(counted.eq(0), 0), counted}, 0).contiguous();
  const at::Tensor near = empty_block(2 * channels, seen, at::kFloat);
  Exchange exchange(ExchangePlan(own, Layout(cut), all, Border::none, comm.rank()), transport, 2 * channels,
                    ElementType::float32);
  exchange.begin(view(both, block), view(near, seen)).wait();

  const std::vector<Index3> corners = tiles_of(block, all);
  const float* samples = near.const_data_ptr<float>();
  const std::int64_t width = seen.empty() ? 0 : seen.extent(2), plane = seen.pixels();
  const auto row_of = [&](std::int64_t channel, const Index3& at, std::int64_t r) {
    return samples + channel * plane + (at[1] + r - seen.lo()[1]) * width + at[2] - seen.lo()[2];
  };
  std::vector<Index3> whole;
  for (const Index3& at : corners) {
    bool counts = true;
    for (std::int64_t c = channels; c < 2 * channels && counts; ++c)
      for (std::int64_t r = 0; r < kSide && counts; ++r)
        counts = std::all_of(row_of(c, at, r), row_of(c, at, r) + kSide, [](float m) { return m != 0; });
    if (counts) whole.push_back(at);
  }
  levels_.resize(whole.size());
  powers_.resize(whole.size() * channels_ * kBins);
  const Tables& t = tables();
  at::parallel_for(0, std::ssize(whole), 1, [&](std::int64_t begin, std::int64_t end) {
    std::array<double, kSide * kSide> tile{};
    for (auto k = static_cast<std::size_t>(begin); k < static_cast<std::size_t>(end); ++k)
      for (std::size_t c = 0; c < channels_; ++c) {
        double mean = 0, weight = 0;
        for (std::size_t r = 0; r < kSide; ++r)
          for (std::size_t i = 0; i < kSide; ++i) {
            const double w = t.window[r] * t.window[i];
            mean += w * static_cast<double>(
                            row_of(static_cast<std::int64_t>(c), whole[k], static_cast<std::int64_t>(r))[i]);
            weight += w;
          }
        mean /= weight;
        for (std::size_t r = 0; r < kSide; ++r)
          for (std::size_t i = 0; i < kSide; ++i)
            tile[r * kSide + i] = t.window[r] * t.window[i] *
                                  (static_cast<double>(row_of(static_cast<std::int64_t>(c), whole[k],
                                                              static_cast<std::int64_t>(r))[i]) -
                                   mean);
        transform(tile, powers_.data() + (k * channels_ + c) * kBins);
        levels_[k] += static_cast<float>(mean / static_cast<double>(channels_));
      }
  });
  all_ = std::ssize(whole);
  comm.all_reduce(std::span<std::int64_t>(&all_, 1), Reduce::sum);
}

std::vector<double> TileSpectra::mean(const Communicator& comm, int channel) const {
  std::vector<std::size_t> each(levels_.size());
  std::iota(each.begin(), each.end(), std::size_t{0});
  return mean_over(each, all_, channel, comm);
}

std::vector<double> TileSpectra::mean_over(const std::vector<std::size_t>& own, std::int64_t all, int channel,
                                           const Communicator& comm) const {
  // Whole multiples of the largest value / 2^30, whose sums are exact.
  constexpr double kSteps = 1 << 30;
  std::vector<double> largest(kBins, 0.0), sums(kBins, 0.0);
  const auto each = [&](auto&& take) {
    for (const std::size_t k : own)
      for (std::size_t c = 0; c < channels_; ++c) {
        if (channel >= 0 && c != static_cast<std::size_t>(channel)) continue;
        const float* p = powers_.data() + (k * channels_ + c) * kBins;
        for (std::size_t b = 0; b < kBins; ++b) take(b, static_cast<double>(p[b]));
      }
  };
  each([&](std::size_t b, double v) { largest[b] = std::max(largest[b], v); });
  comm.all_reduce(largest, Reduce::max);
  each([&](std::size_t b, double v) {
    if (largest[b] > 0) sums[b] += std::round(v / largest[b] * kSteps);
  });
  comm.all_reduce(sums, Reduce::sum);
  const double n = static_cast<double>(all) * (channel >= 0 ? 1.0 : static_cast<double>(channels_));
  for (std::size_t b = 0; b < kBins; ++b) sums[b] = n > 0 ? sums[b] / kSteps * largest[b] / n : 0;
  return sums;
}

std::vector<float> TileSpectra::power(const std::vector<double>& take) const {
  std::vector<float> out(levels_.size());
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    double sum = 0;
    for (std::size_t c = 0; c < channels_; ++c) {
      const float* p = powers_.data() + (k * channels_ + c) * kBins;
      for (std::size_t b = 0; b < kBins; ++b)
        if (take[b] != 0) sum += times(b) * static_cast<double>(p[b]);
    }
    out[k] = static_cast<float>(sum);
  }
  return out;
}

double TileSpectra::concentration(const std::vector<double>& take, const Communicator& comm) const {
  const std::vector<float> powers = power(take);
  const double sum = ordered_sum(powers, comm);
  if (!(sum > 0)) return 1;
  std::vector<float> squares;
  for (const float p : powers) {
    const double share = static_cast<double>(p) / sum;
    squares.push_back(static_cast<float>(share * share));
  }
  return static_cast<double>(all_) * ordered_sum(squares, comm);
}

double TileSpectra::unevenness(const std::vector<double>& take, const Communicator& comm) const {
  if (all_ < 6) return 0;
  const float dark = order_statistic(levels_, all_ / 3, comm),
              bright = order_statistic(levels_, all_ - 1 - all_ / 3, comm);
  const std::vector<float> powers = power(take);
  std::array<std::vector<float>, 2> thirds;
  for (std::size_t k = 0; k < powers.size(); ++k)
    if (levels_[k] <= dark || levels_[k] >= bright) thirds[levels_[k] >= bright ? 1 : 0].push_back(powers[k]);
  const double a = median(thirds[0], comm), b = median(thirds[1], comm);
  return a > 0 && b > 0 ? std::abs(std::log(b / a)) : 0;
}

double TileSpectra::grain(const Communicator& comm) const {
  constexpr std::int64_t kLeast = 8, kThirds = 3, kFlattest = 4;  // tiles, groups, one of so many
  constexpr std::array<double, 2> kRough{0.06, 0.16}, kFine{0.24, 0.45};
  if (all_ < kThirds * kLeast) return 0;
  std::vector<double> all(kBins, 1.0);
  std::array<std::vector<double>, 2> band{std::vector<double>(kBins, 0.0), std::vector<double>(kBins, 0.0)};
  std::array<double, 2> width{};
  for (std::size_t b = 0; b < kBins; ++b)
    for (std::size_t k = 0; k < 2; ++k) {
      const auto& [from, to] = k == 0 ? kRough : kFine;
      if (frequency(b) < from || frequency(b) >= to) continue;
      band[k][b] = 1;
      width[k] += times(b);
    }
  const std::vector<float> total = power(all), rough = power(band[0]), fine = power(band[1]);
  const auto ratio = [&](const std::vector<std::size_t>& tiles) {
    std::vector<float> a, b;
    for (const std::size_t k : tiles) {
      a.push_back(rough[k]);
      b.push_back(fine[k]);
    }
    const double below = ordered_sum(a, comm) / width[0], above = ordered_sum(b, comm) / width[1];
    return below > 0 ? std::sqrt(above / below) : 0.0;
  };
  const auto among = [&](float over, float up_to) {
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < levels_.size(); ++k)
      if (levels_[k] > over && levels_[k] <= up_to) out.push_back(k);
    return out;
  };
  constexpr float kEnd = std::numeric_limits<float>::infinity();
  double most = ratio(among(-kEnd, kEnd));
  float from = -kEnd;
  for (std::int64_t third = 0; third < kThirds; ++third) {
    const float to = order_statistic(levels_, (third + 1) * all_ / kThirds - 1, comm);
    std::vector<std::size_t> group = among(from, to);
    from = to;
    std::vector<float> totals;
    for (const std::size_t k : group) totals.push_back(total[k]);
    const std::int64_t n = count_values(totals, comm);
    if (n < kLeast) continue;
    const float flat = order_statistic(totals, n / kFlattest, comm);
    std::erase_if(group, [&](std::size_t k) { return total[k] > flat; });
    most = std::max(most, ratio(group));
  }
  return most;
}

TileSpectra::Pattern TileSpectra::pattern(const Communicator& comm) const {
  constexpr double kFrom = 0.08, kTo = 0.35;
  constexpr std::int64_t kFlattest = 4, kStrongest = 12;  // one of so many tiles; bins
  if (all_ < 2 * kFlattest) return {};
  std::vector<double> fine(kBins, 0.0);
  for (std::size_t b = 0; b < kBins; ++b) fine[b] = frequency(b) >= kFrom ? 1 : 0;
  const std::vector<float> powers = power(fine);
  const float flat = order_statistic(powers, all_ / kFlattest, comm);
  std::vector<std::size_t> own;
  std::vector<float> taken;
  for (std::size_t k = 0; k < powers.size(); ++k)
    if (powers[k] <= flat) {
      own.push_back(k);
      taken.push_back(powers[k]);
    }
  const std::vector<double> spectrum = mean_over(own, count_values(taken, comm), -1, comm);
  std::vector<double> below, usual;
  for (std::size_t b = 0; b < kBins; ++b) {
    if (fine[b] == 0) continue;
    usual.push_back(spectrum[b]);
    if (frequency(b) < kTo) below.push_back(spectrum[b]);
  }
  std::ranges::sort(below, std::greater{});
  const double sum = std::accumulate(below.begin(), below.end(), 0.0);
  std::ranges::nth_element(usual, usual.begin() + std::ssize(usual) / 2);
  return {.peaks = sum > 0 ? std::accumulate(below.begin(), below.begin() + kStrongest, 0.0) / sum : 0,
          .floor = std::sqrt(std::max(0.0, usual[usual.size() / 2]))};
}

double TileSpectra::frequency(std::size_t bin) {
  const auto row = static_cast<std::int64_t>(bin) / kHalf, column = static_cast<std::int64_t>(bin) % kHalf;
  return std::hypot(static_cast<double>(std::min(row, kSide - row)), static_cast<double>(column)) / kSide;
}

// The window multiplies the process's correlations by its own.
std::vector<double> TileSpectra::expected(const std::vector<double>& power, std::int64_t n) {
  TESSERA_EXPECT(std::ssize(power) == n * n && n >= 2 * kSide, "a grid of two tiles or more");
  constexpr std::int64_t kLags = 2 * kSide - 1;
  const Tables& t = tables();
  std::array<double, kLags> own{};  // of the window
  for (std::int64_t lag = 1 - kSide; lag < kSide; ++lag)
    for (std::int64_t i = std::max<std::int64_t>(0, -lag); i < std::min(kSide, kSide - lag); ++i)
      own[static_cast<std::size_t>(lag + kSide - 1)] +=
          t.window[static_cast<std::size_t>(i)] * t.window[static_cast<std::size_t>(i + lag)];
  // exp(2 pi i k / whole) of every k.
  const auto waves = [](std::int64_t whole) {
    std::vector<std::complex<double>> out;
    for (std::int64_t k = 0; k < whole; ++k)
      out.push_back(
          std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(whole)));
    return out;
  };
  const auto fine = waves(n), coarse = waves(kSide);
  const auto wave = [](const auto& all, std::int64_t a, std::int64_t b) {
    const std::int64_t n = std::ssize(all);
    return all[static_cast<std::size_t>((a * b % n + n) % n)];
  };
  using Complex = std::complex<double>;
  std::vector<Complex> lines(static_cast<std::size_t>(n * kLags));  // row of the grid, lag along it
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t lag = 0; lag < kLags; ++lag) {
      Complex sum = 0;
      for (std::int64_t k = 0; k < n; ++k)
        sum += power[static_cast<std::size_t>(r * n + k)] * wave(fine, k, lag - kSide + 1);
      lines[static_cast<std::size_t>(r * kLags + lag)] = sum / static_cast<double>(n);
    }
  std::vector<Complex> windowed(static_cast<std::size_t>(kLags * kLags));
  for (std::int64_t a = 0; a < kLags; ++a)
    for (std::int64_t b = 0; b < kLags; ++b) {
      Complex sum = 0;
      for (std::int64_t r = 0; r < n; ++r)
        sum += lines[static_cast<std::size_t>(r * kLags + b)] * wave(fine, r, a - kSide + 1);
      windowed[static_cast<std::size_t>(a * kLags + b)] =
          sum / static_cast<double>(n) * own[static_cast<std::size_t>(a)] * own[static_cast<std::size_t>(b)];
    }
  std::vector<double> out(kBins);
  std::vector<Complex> rows(static_cast<std::size_t>(kLags * kHalf));
  for (std::int64_t a = 0; a < kLags; ++a)
    for (std::int64_t k = 0; k < kHalf; ++k) {
      Complex sum = 0;
      for (std::int64_t b = 0; b < kLags; ++b)
        sum += windowed[static_cast<std::size_t>(a * kLags + b)] * wave(coarse, -k, b - kSide + 1);
      rows[static_cast<std::size_t>(a * kHalf + k)] = sum;
    }
  for (std::int64_t m = 0; m < kSide; ++m)
    for (std::int64_t k = 0; k < kHalf; ++k) {
      Complex sum = 0;
      for (std::int64_t a = 0; a < kLags; ++a)
        sum += rows[static_cast<std::size_t>(a * kHalf + k)] * wave(coarse, -m, a - kSide + 1);
      out[static_cast<std::size_t>(m * kHalf + k)] = std::max(0.0, sum.real());
    }
  return out;
}

}  // namespace tessera
