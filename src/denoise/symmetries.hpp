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

/// One of the 8 symmetries of the square: a transposition (bit 2), then flips of rows (1) and columns (0) of
/// the last two axes: of volumes, within their slices.
at::Tensor turn(const at::Tensor& x, int symmetry);
at::Tensor turn_back(const at::Tensor& y, int symmetry);
/// Where a part of x lies in turn(x, symmetry); `whole`: all of x, from 0.
Box turn(const Box& part, const Box& whole, int symmetry);

/// The symmetries that one call averages over.
class Symmetries {
 public:
  explicit Symmetries(Averaging averaging) : averaging_(averaging) {}
  std::vector<int> next();
  /// For Denoiser::state().
  std::vector<StateField> state();

 private:
  Averaging averaging_;
  std::int64_t calls_ = 0;
};

/// For Denoiser::notice().
std::string gray_notice(std::int64_t image_channels, std::int64_t network_channels);

}  // namespace tessera
