// SPDX-License-Identifier: BSD-3-Clause
// The arithmetic of the data step: transforms, taps, passes.
#include <algorithm>
#include <cmath>

#include "flight.hpp"
#include "tessera/domain/measurement_layout.hpp"

namespace tessera {

double data_moment(const DataWork& data, const Decomposition& d, std::int64_t channels, int rank) {
  const OperatorWork work = data.op->work(d, channels, rank);
  return std::max(4 * 4 * static_cast<double>(channels * d.block(rank).pixels()), work.moment) + work.kept;
}

double data_seconds(const Machine& machine, const DataWork& data, const Decomposition& d,
                    std::int64_t channels, DataTraffic::Kind kind, int rank) {
  const double c = static_cast<double>(channels);
  const double pixels = static_cast<double>(d.block(rank).pixels());
  if (pixels == 0) return 0;
  if (kind == DataTraffic::Kind::none) return 0;
  if (kind == DataTraffic::Kind::fourier)  // forward and back, this rank's share of each
    return 2 * c * machine.transform.at(pixels);

  const OperatorWork work = data.op->work(d, channels, rank);
  double seconds = work.products / machine.direct + machine.copy.at(work.bytes);
  // Measured with one tile, to which all threads come.
  const double threads = machine.processors == 0 ? std::max(1, machine.threads()) : 1;
  for (const OperatorWork::Transforms& t : work.transforms)
    seconds += t.count * std::ceil(t.tiles / threads) / t.tiles * machine.transform.at(t.values);
  const MeasurementLayout layout = data.op->layout(d, channels);
  double samples = 0;
  for (std::size_t i = 0; i < layout.parts(); ++i)
    samples += static_cast<double>(layout.block(i, rank).pixels() * layout.part(i).channels);
  // Residual, weights and norm of the parts beyond the first image's worth, which `state` holds.
  constexpr double kPasses = 8;
  if (kind == DataTraffic::Kind::conjugate_gradients && data.op->convolutional())  // its preconditioner
    seconds += 2 * c * machine.transform.at(pixels);
  if (kind == DataTraffic::Kind::coarse) seconds += 2 * machine.transform.at(samples);
  seconds += machine.copy.at(std::max(0.0, samples - pixels * c) * 4 * kPasses);
  return seconds;
}

}  // namespace tessera
