// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/perf/model.hpp"

namespace tessera {

/// One exchange of one rank: seconds that its core is busy with, and seconds until everything has arrived.
struct Flight {
  double busy = 0;     // packing, unpacking, starting and ending messages, copies that the core makes itself
  double transit = 0;  // in flight
  double sent = 0;     // bytes

  /// What of it work of `beside` seconds does not hide.
  double exposed(double beside) const { return busy + (transit > beside ? transit - beside : 0); }
  double hidden(double beside) const { return transit < beside ? transit : beside; }
};

struct FlightOptions {
  bool back = false;  // the transposed exchange
  bool local = true;  // the rank's own pixels are copied too: false where the source lies inside the need
};
/// `bytes` per pixel of the plan, channels included. `transport` automatic: the machine's best. InputError where
/// it has no such transport.
Flight fly(const Machine& machine, TransportKind transport, const ExchangePlan& plan, int rank, double bytes,
           FlightOptions options = {});

/// The denoiser of one rank in mode layer, by the schedule and the messages of a run: a convolution that
/// exchanges computes the block while its halo travels, and then the rim again.
struct LayerTimes {
  double denoise = 0, redundant = 0, exposed = 0, hidden = 0, sent = 0;
};
LayerTimes layer_times(const Machine& machine, const NetworkWork& network, const Decomposition& decomposition,
                       const Execution& execution, int rank);

/// Seconds of the data step's arithmetic on `rank`; for conjugate gradients, of one inner iteration.
double data_seconds(const Machine& machine, const DataWork& data, const Decomposition& decomposition,
                    const std::optional<ProxPlan>& prox, int rank);

}  // namespace tessera
