// SPDX-License-Identifier: BSD-3-Clause
#include "near_samples.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostAtOnce = std::int64_t{1} << 22;  // numbers of a kind

// Whole slices of a volume, or rows; how many so that not too many numbers are looked at.
std::int64_t step_of(const Box& block, const Box& all, std::int64_t channels) {
  const std::size_t axis = all.extent(0) > 1 ? 0 : 1;
  const std::int64_t each = std::max<std::int64_t>(
                         1, channels * block.pixels() / std::max<std::int64_t>(1, block.extent(axis))),
                     some = std::max<std::int64_t>(1, kMostAtOnce / each);
  return axis == 0 ? some : std::max<std::int64_t>(1, some / NearSamples::kTile) * NearSamples::kTile;
}

// The first sample of a slab along its axis; of rows at a multiple of a tile.
std::int64_t begin_of(const Box& block, const Box& all, std::int64_t step) {
  if (all.extent(0) > 1) return block.lo()[0];
  return block.lo()[1] / NearSamples::kTile * NearSamples::kTile;
}

std::int64_t count_of(const Box& block, const Box& all, std::int64_t channels) {
  if (block.empty()) return 0;
  const std::size_t axis = all.extent(0) > 1 ? 0 : 1;
  const std::int64_t step = step_of(block, all, channels);
  return (block.hi()[axis] - begin_of(block, all, step) + step - 1) / step;
}

Box slab_of(const Box& block, const Box& all, std::int64_t channels, std::int64_t k) {
  if (k >= count_of(block, all, channels)) return {};
  const std::size_t axis = all.extent(0) > 1 ? 0 : 1;
  const std::int64_t step = step_of(block, all, channels), from = begin_of(block, all, step) + k * step;
  Index3 lo = block.lo(), hi = block.hi();
  lo[axis] = std::max(lo[axis], from);
  hi[axis] = std::min(hi[axis], from + step);
  return Box(lo, hi);
}

}  // namespace

NearSamples::NearSamples(std::vector<at::Tensor> kinds, const ProductSpace& layout, std::size_t part,
                         const Communicator& comm, std::function<Box(const Box&)> seen, Border border)
    : kinds_(std::move(kinds)),
      near_(kinds_.size()),
      layout_(layout.layout(part)),
      all_(layout.part(part).box()),
      axes_(layout.part(part).space.axes),
      rank_(comm.rank()),
      seen_of_(std::move(seen)),
      border_(border),
      transport_(make_transport(comm, {}, TransportKind::mpi)),
      channels_(kinds_[0].size(0)) {
  for (at::Tensor& kind : kinds_) kind = kind.contiguous();
  for (int r = 0; r < comm.size(); ++r) slabs_ = std::max(slabs_, count_of(layout_.box(r), all_, channels_));
}

bool NearSamples::next() {
  if (slab_ == slabs_) return false;
  std::vector<Box> needed;
  for (int r = 0; r < layout_.ranks(); ++r) {
    const Box box = slab_of(layout_.box(r), all_, channels_, slab_);
    needed.push_back(box.empty() ? Box() : seen_of_(box));
  }
  own_ = slab_of(layout_.box(rank_), all_, channels_, slab_);
  seen_ = needed[static_cast<std::size_t>(rank_)];
  Exchange exchange(ExchangePlan(layout_, Layout(std::move(needed)), all_, border_, rank_), transport_,
                    channels_, ElementType::float32);
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const auto same =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const at::Tensor& t) { return t.is_same(kinds_[k]); });
    if (const std::ptrdiff_t before = same - kinds_.begin(); before < static_cast<std::ptrdiff_t>(k)) {
      near_[k] = near_[static_cast<std::size_t>(before)];
      continue;
    }
    near_[k] = empty_block(channels_, seen_, at::kFloat, axes_);
    exchange.begin(view(kinds_[k], layout_.box(rank_)), view(near_[k], seen_)).wait();
  }
  if (kinds_.size() > 1) near_[0].masked_fill_(near_[1].eq(0), 0);
  ++slab_;
  return true;
}

}  // namespace tessera
