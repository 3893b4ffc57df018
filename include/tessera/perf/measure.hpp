// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/perf/machine.hpp"
#include "tessera/perf/model.hpp"

namespace tessera {

struct MeasureOptions {
  std::vector<NetworkWork> networks;  // whose shapes are measured
  std::string precision = "float32";
  double largest = 3e9;   // products of the longest single call
  double seconds = 0.05;  // per point, at least two calls
};

/// Measures what the cost model needs, all ranks of the launch busy at once; what a point takes is the
/// slowest rank's median. Collective; takes some ten seconds. The result is equal on all ranks.
///
/// Convolutions run through the Runner, so that the kernels are those of a run; two of a shape in a row as in
/// a residual block where the channels allow it. LogGP: ping-pong between neighbors over message sizes, o
/// through an Exchange, so that it holds the program's own work for a message. Without a second rank, or a
/// second host, links keep the numbers of a typical machine.
Machine measure_machine(const Communicator& comm, const std::shared_ptr<Transport>& transport, Device device,
                        const MeasureOptions& options);

/// Whether a machine has measured every shape of this network in this precision.
bool knows(const Machine& machine, const NetworkWork& network, const std::string& precision);

/// Median seconds of `work`, slowest rank; it runs once to warm up, then at least twice and for about
/// `seconds`. Collective, the same number of calls on all ranks.
double time_median(const Communicator& comm, Device device, double seconds,
                   const std::function<void()>& work);

/// The links part of measure_machine: fills machine.links[transport] and machine.reduction.
void measure_links(Machine& machine, const Communicator& comm, const std::shared_ptr<Transport>& transport,
                   Device device);

}  // namespace tessera
