// SPDX-License-Identifier: BSD-3-Clause
#include "flight.hpp"

#include <algorithm>
#include <array>

#include "tessera/core/error.hpp"

namespace tessera {

Flight fly(const Machine& machine, TransportKind transport, const ExchangePlan& plan, int rank, double bytes,
           FlightOptions options) {
  const auto links = machine.links.find(transport_on(machine, transport));
  TESSERA_VALIDATE(links != machine.links.end(), "the machine '", machine.name, "' has no transport ",
                   word(transport),
                   " (its messages were not measured) measure it with tessera tune, or set domain.transport");
  const std::vector<Message>& out = options.back ? plan.receives() : plan.sends();
  const std::vector<Message>& in = options.back ? plan.sends() : plan.receives();
  const auto link_to = [&](int peer) -> const Link& {
    const bool near = peer / machine.ranks_per_node == rank / machine.ranks_per_node;
    return near ? links->second.node : links->second.network;
  };
  Flight f;
  double packed = 0, unpacked = 0;
  for (const Message& m : out) {
    f.busy += link_to(m.peer).o;
    packed += static_cast<double>(m.pixels) * bytes;
  }
  std::array<double, 2> rails{0, 0};  // the host's memory or switch, and the network, work side by side
  for (const Message& m : in) {
    const Link& link = link_to(m.peer);
    const double volume = static_cast<double>(m.pixels) * bytes;
    f.busy += link.o;
    double& rail = rails[&link == &links->second.node ? 0 : 1];
    if (rail == 0) rail = link.L;
    rail += link.overlaps ? std::max(link.g, volume * link.G) : link.g;
    if (!link.overlaps) f.busy += volume * link.G;
    unpacked += volume;
  }
  double local = 0;
  if (options.local)
    for (const Piece& piece : plan.local()) local += static_cast<double>(piece.to.pixels()) * bytes;
  f.busy += machine.pack.at(packed) + machine.pack.at(unpacked) + machine.pack.at(local);
  f.transit = std::max(rails[0], rails[1]);
  f.sent = packed;
  return f;
}

}  // namespace tessera
