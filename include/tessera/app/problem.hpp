// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/app/geometry.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/domain/distributed_operator.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

/// The job's data on this rank: truth, operator, measurement.
struct Problem {
  std::shared_ptr<DistributedOperator> A;
  Measurement y, weights;  // weights empty: 1 everywhere
  at::Tensor truth;        // undefined without one
  std::vector<std::string> notices;
};

/// Reads or simulates. Collective. Clean data are computed in double, part by part, so that the noise
/// (Poisson counts too) does not depend on the ranks.
Problem make_problem(const Geometry& g, const Communicator& comm,
                     const std::shared_ptr<Transport>& transport);

/// This rank's block of a picture, .npy or HDF5 image, in internal range. Collective.
at::Tensor read_block(const std::string& path, const Geometry& g, const Communicator& comm);

/// This rank's block of problem.truth.scene, which is in internal range.
at::Tensor scene_block(const Geometry& g, const Communicator& comm);

/// The job's solver section with step, sigma and lambda settled. `noise`: that of a sample of weight 1, 0: not
/// known; L: Lipschitz constant of the data term's gradient. InputError.
SolverOptions solver_options(const Geometry& g, double noise, double L);

/// solver.start. Collective.
at::Tensor starting_image(const Geometry& g, const Problem& problem, DataTerm& data,
                          const Communicator& comm);

}  // namespace tessera
