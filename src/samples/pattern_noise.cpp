// SPDX-License-Identifier: BSD-3-Clause
// The noise of pictures that are regular all over: lattices, fringes, fabrics, hatches.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "near_samples.hpp"
#include "photograph.hpp"
#include "sample_checks.hpp"
#include "tessera/samples/tile_spectra.hpp"

namespace tessera {
namespace {

// Between the peaks of its spectrum; nothing where too many samples are missing.
std::optional<double> between_peaks(const Measurement& y, const Measurement& marks, std::size_t part,
                                    const ProductSpace& layout, const Communicator& comm) {
  constexpr double kPeaks = 0.68;
  constexpr std::int64_t kFew = 12;
  const TileSpectra tiles(y[part], marks[part], layout, part, comm,
                          make_transport(comm, {}, TransportKind::mpi));
  if (tiles.tiles() < kFew) return std::nullopt;
  const TileSpectra::Pattern pattern = tiles.pattern(comm);
  return pattern.peaks > kPeaks ? pattern.floor : 0;
}

// Of samples some way apart, those that are most alike: a period of the pattern. White noise does not exceed what they
// differ by, whatever the picture.
double between_periods(const Measurement& y, const Measurement& marks, std::size_t part,
                       const ProductSpace& layout, const Communicator& comm) {
  constexpr std::int64_t kReach = 12, kSamples = 1'000'000, kFewest = 300;
  constexpr double kSteps = 0x1p20;
  const auto [least, most] = range_of(y, marks, comm);
  if (!(least < most)) return 0;
  struct Lag {
    std::int64_t down, right;
  };
  std::vector<Lag> lags;
  for (std::int64_t down = 0; down <= kReach; ++down)
    for (std::int64_t right = down == 0 ? 1 : -kReach; right <= kReach; ++right)
      if (down * down + right * right >= 4) lags.push_back({down, right});
  std::vector<std::int64_t> sums(2 * lags.size());  // of squares in steps, whose sums are exact; pairs
  const Box& all = layout.part(part).box();
  const std::int64_t every = 1 + all.pixels() / kSamples;
  const auto around = [](const Box& box) { return box.grow(ImageSpace::in_plane(kReach)); };
  const double scale = kSteps / ((most - least) * (most - least));
  for (NearSamples near({y[part], marks[part]}, layout, part, comm, around, Border::zero); near.next();) {
    if (near.own().empty()) continue;
    const Box &own = near.own(), &seen = near.seen();
    const std::int64_t width = seen.extent(2);
    for (std::int64_t c = 0; c < near.channels(); ++c)
      for (std::int64_t row = own.lo()[1]; row < own.hi()[1]; ++row) {
        if (row % every != 0) continue;
        const std::int64_t first =
            ((own.lo()[0] - seen.lo()[0]) * seen.extent(1) + row - seen.lo()[1]) * width - seen.lo()[2];
        for (std::int64_t column = own.lo()[2]; column < own.hi()[2]; ++column) {
          const float *const v = near.at(0, c) + first + column, *const m = near.at(1, c) + first + column;
          if (*m == 0) continue;
          for (std::size_t k = 0; k < lags.size(); ++k) {
            // Outside of the picture nothing counts.
            if (row + lags[k].down >= all.hi()[1] || column + lags[k].right < all.lo()[2] ||
                column + lags[k].right >= all.hi()[2])
              continue;
            const std::int64_t step = lags[k].down * width + lags[k].right;
            if (m[step] == 0) continue;
            const double d = static_cast<double>(*v) - static_cast<double>(v[step]);
            sums[2 * k] += std::llround(d * d * scale);
            ++sums[2 * k + 1];
          }
        }
      }
  }
  comm.all_reduce(sums, Reduce::sum);
  double alike = INFINITY;
  for (std::size_t k = 0; k < lags.size(); ++k)
    if (sums[2 * k + 1] >= kFewest)
      alike =
          std::min(alike, static_cast<double>(sums[2 * k]) / scale / static_cast<double>(sums[2 * k + 1]));
  return std::isfinite(alike) ? std::sqrt(alike / 2) : 0;
}

}  // namespace

double noise_of_pattern(double white, const Measurement& y, const Measurement& marks, const Surveyed& seen,
                        const Communicator& comm) {
  constexpr double kMore = 1.3;
  const ProductSpace& layout = seen.A->range();
  for (std::size_t part = 0; part < layout.parts(); ++part) {
    if (layout.part(part).box().extent(0) != 1) continue;
    if (const std::optional<double> found = between_peaks(y, marks, part, layout, comm))
      return *found > 0 ? std::min(*found, white) : 0;
    const double found = between_periods(y, marks, part, layout, comm);
    return white > kMore * found ? found : 0;
  }
  return 0;
}

}  // namespace tessera
