// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/core/box.hpp"

namespace tessera {

/// Rows and columns [lo, hi) of the stored arrays.
struct TvPart {
  std::int64_t row_lo = 0, row_hi = 0, column_lo = 0, column_hi = 0;
};

/// One accelerated projected gradient step of the dual problem on a part of the stored arrays.
///
/// state (4 C, h, w): the extrapolated dual field q, rows then columns, and the last projected one p,
/// likewise; image (C, h, w). x = v - strength D^T q;  p' = P(q + D x / (8 strength)), P: onto |p| <= 1 at
/// every pixel; q' = p' + momentum (p' - p). D: forward differences, 0 behind the last pixel. Where the part
/// touches an edge of the arrays, that edge is one of the image; elsewhere one more row and column of q and
/// image is read. In place.
void tv_step(at::Tensor& state, const at::Tensor& image, double strength, double momentum,
             const TvPart& part);
/// The same with tensor operators: for devices.
void tv_step_operators(at::Tensor& state, const at::Tensor& image, double strength, double momentum,
                       const TvPart& part);

/// v - strength D^T p on a part: the primal image.
at::Tensor tv_primal(const at::Tensor& state, const at::Tensor& image, double strength, const TvPart& part);

/// sum over the part of |D x|, a 0-dim float64; x (C, [d,] h, w) is read one element behind the part.
at::Tensor tv_value(const at::Tensor& x, const Box& part);

/// The same of volumes: state (6 C, d, h, w), components along depth, rows and columns; x = v - strength D^T
/// q, p' = P(q + D x / (12 strength)). `part` in indices of the stored arrays.
void tv_step_volume(at::Tensor& state, const at::Tensor& image, double strength, double momentum,
                    const Box& part);
at::Tensor tv_primal_volume(const at::Tensor& state, const at::Tensor& image, double strength,
                            const Box& part);

}  // namespace tessera
