// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "tessera/app/geometry.hpp"
#include "tessera/perf/model.hpp"

namespace tessera {

/// Conjugate gradients that a proximal step is taken for, where its limit is higher: about what
/// preconditioned ones need in the middle of a schedule.
inline constexpr std::int64_t kInnerIterations = 20;

/// A job in the terms of the cost model.
struct Modelled {
  std::vector<std::unique_ptr<LocalOperator>> parts;
  std::optional<NetworkWork> network;
  DataWork data;  // refers to parts: a Modelled moves, and is not copied
  Modelled() = default;
  Modelled(const Modelled&) = delete;
  Modelled& operator=(const Modelled&) = delete;
};

/// Collective (kernels and masks are read). Without a network (tv, none) the data step alone.
std::unique_ptr<Modelled> model_job(const Geometry& g, const Communicator& comm, bool gpu);

/// What the job leaves open. `features`: bytes that features may take, 0 for any.
Freedom job_freedom(const Geometry& g, const Machine& machine, double features);

}  // namespace tessera
