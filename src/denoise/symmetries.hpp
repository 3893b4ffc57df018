// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/pass_plan.hpp"
#include "tessera/domain/state.hpp"

namespace tessera {

/// One of the 48 symmetries of the cube, of which the first 8 are those of the square: rotations of (depth, rows,
/// columns) by symmetry / 16, the exchange of rows and columns (bit 2), then flips of columns (bit 0), rows (1) and
/// depth (3). The image's axes are the last ones of x; pictures have no depth.
at::Tensor turn(const at::Tensor& x, int symmetry);
at::Tensor turn_back(const at::Tensor& y, int symmetry);
/// Where a part of x lies in turn(x, symmetry); `whole`: all of x, from 0.
Box turn(const Box& part, const Box& whole, int symmetry);
/// Those that take every axis to one of its kind, turns.all() of them, 0 (nothing) first.
std::vector<int> symmetries_of(const Turns& turns);

/// The symmetries that one call averages over.
class Symmetries {
 public:
  Symmetries(Averaging averaging, const Turns& turns);
  std::vector<int> next();
  /// For Denoiser::state().
  std::vector<StateField> state();

 private:
  bool cycle_;
  std::vector<int> list_;  // of a call, or of the cycle
  std::int64_t calls_ = 0;
};

/// For Denoiser::notice().
std::string gray_notice(std::int64_t image_channels, std::int64_t network_channels);

}  // namespace tessera
