// SPDX-License-Identifier: BSD-3-Clause
// The arithmetic of the data step: transforms, taps, passes.
#include <algorithm>

#include "flight.hpp"
#include "overlap_save.hpp"
#include "tessera/domain/measurement_layout.hpp"

namespace tessera {
namespace {

// Tiles of float32 that a blur by FFT takes at once, its double-precision setup included: as measured (12.8
// to 14.4 with one kernel).
constexpr double kTiles = 12;

// Samples of one part on `rank`, and the image pixels from the first to the last of their anchors.
struct Placed {
  Index2 extent{};
  double samples = 0;
};

Placed place(const LocalOperator& part, const MeasurementLayout& layout, std::size_t i, int rank) {
  const Box block = layout.block(i, rank);
  Placed p;
  if (block.empty()) return p;
  p.samples = static_cast<double>(block.pixels());
  for (std::size_t d = 0; d < 2; ++d)
    p.extent[d] = part.anchor().factor[d + 1] * (block.extent(d + 1) - 1) + 1;
  return p;
}

}  // namespace

double data_moment(const DataWork& data, const Decomposition& d, std::int64_t channels, int rank) {
  const double c = static_cast<double>(channels);
  const auto& parts = *data.parts;
  std::vector<MeasurementLayout::Part> list;
  for (const auto& p : parts) list.push_back({p->name(), p->measurement(d.image()), channels, p->anchor()});
  const MeasurementLayout layout(d, std::move(list));
  double bytes = 4 * 4 * c * static_cast<double>(d.block(rank).pixels());
  double spectra = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Placed own = place(*parts[i], layout, i, rank);
    if (own.samples == 0 || !parts[i]->shares_with(*parts[i])) continue;
    const Reach reach = parts[i]->reach();
    const TilePlan tiles = choose_tiles(own.extent, {reach.lo[1] + reach.hi[1], reach.lo[2] + reach.hi[2]});
    const double values = static_cast<double>(tiles.side[0] * tiles.side[1]);
    bytes = std::max(bytes, kTiles * 4 * c * values);
    spectra += 2 * 4 * values;  // a kernel's half spectrum and its conjugate
  }
  return bytes + spectra;
}

double data_seconds(const Machine& machine, const DataWork& data, const Decomposition& d,
                    std::int64_t channels, DataTraffic::Kind kind, int rank) {
  const double c = static_cast<double>(channels);
  const double pixels = static_cast<double>(d.block(rank).pixels());
  if (pixels == 0) return 0;
  if (kind == DataTraffic::Kind::none) return 0;
  if (kind == DataTraffic::Kind::fourier)  // forward and back, this rank's share of each
    return 2 * c * machine.transform.at(pixels);

  const auto& parts = *data.parts;
  std::vector<MeasurementLayout::Part> list;
  for (const auto& p : parts) list.push_back({p->name(), p->measurement(d.image()), channels, p->anchor()});
  const MeasurementLayout layout(d, std::move(list));
  double seconds = 0, samples = 0;
  std::vector<bool> done(parts.size(), false);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Placed own = place(*parts[i], layout, i, rank);
    samples += own.samples * c;
    if (done[i] || own.samples == 0) continue;
    const Reach reach = parts[i]->reach();
    if (!parts[i]->shares_with(*parts[i])) {  // tap by tap, or a pass
      const double taps =
          static_cast<double>((reach.lo[1] + reach.hi[1] + 1) * (reach.lo[2] + reach.hi[2] + 1));
      seconds += taps > 1 ? 2 * taps * own.samples * c / machine.direct : 0;
      continue;
    }
    // Kernels of one border share the image's transform: 1 + kernels of them each way, per tile.
    double kernels = 0;
    Index2 overlap{reach.lo[1] + reach.hi[1], reach.lo[2] + reach.hi[2]};
    for (std::size_t j = i; j < parts.size(); ++j) {
      if (parts[j]->border() != parts[i]->border() || !parts[i]->shares_with(*parts[j])) continue;
      done[j] = true;
      ++kernels;
      const Reach other = parts[j]->reach();
      overlap = {std::max(overlap[0], other.lo[1] + other.hi[1]),
                 std::max(overlap[1], other.lo[2] + other.hi[2])};
    }
    const TilePlan tiles = choose_tiles(own.extent, overlap);
    seconds += 2 * (1 + kernels) * static_cast<double>(tiles.count[0] * tiles.count[1]) *
               machine.transform.at(c * static_cast<double>(tiles.side[0] * tiles.side[1]));
  }
  // Residual, weights and norm of the parts beyond the first image's worth, which `state` holds.
  constexpr double kPasses = 8;
  if (kind == DataTraffic::Kind::conjugate_gradients)  // its preconditioner
    seconds += 2 * c * machine.transform.at(pixels);
  if (kind == DataTraffic::Kind::coarse) seconds += 2 * machine.transform.at(samples);
  seconds += machine.copy.at(std::max(0.0, samples - pixels * c) * 4 * kPasses);
  return seconds;
}

}  // namespace tessera
