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
  std::vector<const Network*> networks;  // whose layers are measured
  Precision precision = Precision::float32;
  double longest = 1.2;  // seconds of the longest pass of a network
  double seconds = 0.1;  // per point, at least two calls
};

/// Measures what the cost model needs, all ranks of the launch busy at once; what a point takes is the
/// slowest rank's median. Collective; takes some ten seconds. The result is equal on all ranks.
///
/// Layers are timed inside whole passes of their network over windows of 16 x 16 pixels and more, see
/// measure_network(). LogGP: ping-pong between neighbors over message sizes, o
/// through an Exchange, so that it holds the program's own work for a message. Without a second rank, or a
/// second host, links keep the numbers of a typical machine.
Machine measure_machine(const Communicator& comm, const std::shared_ptr<Transport>& transport, Device device,
                        const MeasureOptions& options);

/// Median seconds of `work`, slowest rank; it runs once to warm up, then at least twice and for about
/// `seconds`. `before` runs before each call and is not timed. Collective, the same number of calls on all
/// ranks.
double time_median(const Communicator& comm, Device device, double seconds, const std::function<void()>& work,
                   const std::function<void()>& before = {});

/// The network's part of measure_machine: what its layers take inside passes over square windows, up to
/// options.longest; a layer's times add up to those of the passes. Collective; equal on all ranks.
void measure_network(const Communicator& comm, Device device, const Network& network,
                     const MeasureOptions& options, Throughput& into);

/// Waits for the device.
void settle(Device device);

/// The links part of measure_machine: fills machine.links[transport] and machine.reduction.
void measure_links(Machine& machine, const Communicator& comm, const std::shared_ptr<Transport>& transport,
                   Device device);

}  // namespace tessera
