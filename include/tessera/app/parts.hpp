// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/domain/operator_plan.hpp"

namespace tessera {

/// Operators and denoisers by the words of a job file, without a run: for programs, and for the Python package.

/// An operator, and what is to be said of the files that it names.
struct NamedOperator {
  std::shared_ptr<OperatorPlan> plan;
  std::vector<std::string> notices, warnings;
};

/// `problem`: YAML of the section problem of a job file, of which `operator` and `seed` count. What the boundary of a
/// kernel is, where nothing says it, is as for measurements: valid. Collective; InputError on all ranks.
NamedOperator plan_operator(const std::string& problem, const ImageSpace& image, const Communicator& comm);

/// A denoiser that stands on blocks of an image.
struct PlacedDenoiser {
  Decomposition decomposition;
  std::shared_ptr<Transport> transport;
  std::unique_ptr<Denoiser> denoiser;
  std::vector<std::string> notices;
};

/// `settings`: the sections denoiser and domain of a job file, YAML; what they leave open is chosen as in a job that
/// denoises. Collective; InputError on all ranks.
PlacedDenoiser place_denoiser(const std::string& settings, const ImageSpace& image, const Communicator& comm);

}  // namespace tessera
