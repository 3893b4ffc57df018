// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/comm/transport_start.hpp"
#include "transport.hpp"

namespace tessera {

using TransportMaker = std::function<std::shared_ptr<Transport>(TransportKind)>;

constexpr double kProbeSeconds = 30;
/// start_transport() over these candidates, the first that works; an exchange may take `limit_seconds`.
/// Collective.
StartedTransport start_first_working(const Communicator& comm, const std::array<int, 3>& grid,
                                     const std::vector<TransportKind>& candidates, const TransportMaker& make,
                                     double limit_seconds = kProbeSeconds);

/// What follows when `chosen` does not work, itself first. Pure.
std::vector<TransportKind> candidates_from(TransportKind chosen, const std::vector<Endpoint>& ranks);

}  // namespace tessera
