// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/physics/local_operator.hpp"

namespace tessera {

using Index2 = std::array<std::int64_t, 2>;  // rows, columns

/// FFT tiles that cover `extent` outputs of a kernel with `overlap` = taps - 1: side per axis, and the
/// outputs that one tile makes.
struct TilePlan {
  Index2 side{};
  Index2 core{};
  Index2 count{};
};
TilePlan choose_tiles(const Index2& extent, const Index2& overlap);

/// What a bank of convolutions computes by such tiles: 1 + kernels transforms of each tile and way.
OperatorWork overlap_save_work(std::span<const LocalOperator* const> group, std::span<const Box> samples,
                               std::int64_t channels);

/// One kernel of a bank and where its samples stand.
struct BankFilter {
  at::Tensor taps;  // (1 or C, h, w), float64, host
  Index2 origin{};
  Anchor anchor;
};

/// Convolves one padded block with several kernels through FFTs of equal tiles: one forward transform of x
/// for all kernels, one inverse per kernel; the adjoint adds in the frequency domain, one inverse for all.
///
/// A tile is transformed with the kernels' reach around its core; only the core, free of wrap-around, is kept
/// (overlap-save). The adjoint transposes every step, so it is exact. Cost does not depend on the taps.
class OverlapSave final : public PlacedOperator {
 public:
  OverlapSave(std::vector<BankFilter> filters, const LocalOperator::Placement& placement);
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override;
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override;

 private:
  struct Cut {               // samples of one filter inside one tile
    Index2 begin{}, end{};   // in y
    Index2 start{}, stop{};  // rows and columns of the tile that they stand on
    bool empty = true;
  };
  Cut cut(std::size_t filter, const Index2& tile) const;
  struct Overlap {  // the part of a tile that lies in the input
    Index2 begin{}, end{}, start{};
    bool whole = false;
  };
  Overlap overlap(const Index2& tile) const;

  std::vector<Anchor> anchors_;
  LocalOperator::Placement placement_;
  Index2 lo_{}, hi_{};  // reach of the whole bank
  Index2 first_{};      // image row and column of the first output
  TilePlan tiles_;
  std::vector<at::Tensor> spectra_;  // (1 or C, side, side / 2 + 1) per filter
  at::Tensor tile_;                  // (C, side, side)
  at::Tensor product_;               // (C, side, side / 2 + 1)
};

}  // namespace tessera
