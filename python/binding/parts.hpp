// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensors.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/domain/operator_plan.hpp"

namespace tessera::binding {

/// The ranks of an mpi4py communicator, whose handle it is; 0: this process alone.
Communicator ranks_of(std::uintptr_t handle);
/// (C, H, W), or (C, D, H, W) of a volume.
ImageSpace image_of(const std::vector<std::int64_t>& shape);
/// The same axes of a box: [lo, hi) of rows and columns, of a volume of slices too.
nb::list ends_of(const Box& box, bool volume);

/// What Python raised, in a line.
std::string what_of(const nb::python_error& error);
/// Calls what Python wrote, on all ranks of `comm`. What it raises on one ends the call on all of them: that rank raises it as it
/// is, the others an error that names it. Without the interpreter's lock.
void call_together(const Communicator& comm, const std::function<void()>& work);

/// An operator whose apply and adjoint are methods of a Python object, tessera.Operator: on neighborhoods where it says its
/// reach, else of the whole image, on one rank.
std::unique_ptr<OperatorPlan> plan_python(const nb::object& described, const ImageSpace& image,
                                          const Communicator& comm);

/// denoiser.network: python. What it calls is set while a denoiser of it is made.
DenoiserRow python_row();
/// Sets it for this thread, and puts back what was set before at the end.
class CalledDenoiser {
 public:
  explicit CalledDenoiser(nb::object described);
  ~CalledDenoiser();
  CalledDenoiser(const CalledDenoiser&) = delete;
  CalledDenoiser& operator=(const CalledDenoiser&) = delete;

 private:
  Kept before_;
};

void add_operators(nb::module_& m);
void add_denoisers(nb::module_& m);
void add_reconstruct(nb::module_& m);

}  // namespace tessera::binding
