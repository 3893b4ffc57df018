// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "spectrum_product.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

using Index2 = std::array<std::int64_t, 2>;  // rows, columns

/// The smallest even number >= n whose only prime factors are 2, 3 and 5: what FFT libraries do fast.
std::int64_t fast_size(std::int64_t n);

/// out = spectrum * kernel, or out += it; with the kernel's conjugate for the adjoint. (C, tiles..., rows,
/// columns) and (1 or C, rows, columns), contiguous. `out` may be `spectrum`.
void multiply_spectra(const at::Tensor& out, const at::Tensor& spectrum, const at::Tensor& kernel,
                      Filter filter, Into into);

/// FFT tiles that cover `extent` outputs of a kernel with `overlap` = taps - 1: side per axis, and the
/// outputs that one tile makes.
struct TilePlan {
  Index2 side{};
  Index2 core{};
  Index2 count{};
};
TilePlan choose_tiles(const Index2& extent, const Index2& overlap);

/// Tiles, (rows, columns) of them, that are transformed in one call. On a CPU one, which stays in its cache;
/// on a device, whose calls cost more than their arithmetic, as many as take no more memory than four images
/// of `pixels`, which a data step takes anyway.
Index2 choose_batch(const TilePlan& plan, std::int64_t pixels, bool device);

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
/// (overlap-save). The adjoint transposes every step, so it is exact. Cost does not depend on the taps. A batch
/// of tiles goes through every step together; on a CPU each thread has one, and what overlaps is summed in the
/// order of the tiles, for any number of threads.
class OverlapSave final : public PlacedOperator {
 public:
  /// `batch`: in place of what choose_batch() says.
  OverlapSave(std::vector<BankFilter> filters, const LocalOperator::Placement& placement,
              const Index2& batch = {});
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override;
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override;

 private:
  struct Tiles {  // of one batch
    Index2 first{}, count{};
    std::int64_t number() const { return count[0] * count[1]; }
  };
  struct Cut {               // samples of one filter inside the cores of some tiles
    Index2 begin{}, end{};   // in y
    Index2 start{}, stop{};  // rows and columns of the cores, side by side, that they stand on
    bool empty = true;
  };
  Cut cut(std::size_t filter, const Tiles& tiles) const;
  struct Overlap {           // what some tiles cover together, as far as it lies in the input
    Index2 begin{}, end{};   // in the input
    Index2 start{}, stop{};  // in what they cover
    bool whole = false;
  };
  Overlap overlap(const Tiles& tiles) const;
  struct Room {          // of the batches that one thread takes
    at::Tensor tile;     // (C, covered by a batch)
    at::Tensor product;  // for (C, a batch of tiles, side, side / 2 + 1)
  };
  template <class Work>
  void side_by_side(std::size_t first, std::size_t last, Work work);
  void apply(const Tiles& tiles, Room& room, const at::Tensor& x, std::span<const at::Tensor> y) const;
  at::Tensor adjoint(const Tiles& tiles, Room& room, std::span<const at::Tensor> y) const;
  Index2 covered(const Tiles& tiles) const;
  at::Tensor product_of(const Tiles& tiles, const Room& room) const;
  at::Tensor apart(const at::Tensor& covered) const;
  at::Tensor together(const at::Tensor& tiles) const;
  at::Tensor cores(const at::Tensor& tiles) const;

  std::vector<Anchor> anchors_;
  LocalOperator::Placement placement_;
  Index2 lo_{}, hi_{};  // reach of the whole bank
  Index2 first_{};      // image row and column of the first output
  TilePlan tiles_;
  std::vector<Tiles> batches_;
  std::vector<at::Tensor> spectra_;  // (1 or C, side, side / 2 + 1) per filter
  std::vector<Room> rooms_;
};

}  // namespace tessera
