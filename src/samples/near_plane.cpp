// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "sharp_areas.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {

NearPlanes::NearPlanes(const at::Tensor& y, const at::Tensor& marks, const ProductSpace& layout,
                       std::size_t part, const Communicator& comm, std::int64_t beyond)
    : channels_(y.size(0)) {
  const Layout own = layout.layout(part), need = own.grow(ImageSpace::in_plane(beyond));
  frame_ = layout.part(part).box();
  block_ = own.box(comm.rank());
  around_ = need.box(comm.rank());
  const at::Tensor mine = at::cat({y.masked_fill(marks.eq(0), 0), marks}, 0).contiguous();
  near_ = empty_block(2 * channels_, around_, at::kFloat, layout.part(part).space.axes);
  near_.zero_();
  Exchange exchange(ExchangePlan(own, need, frame_, Border::zero, comm.rank()),
                    make_transport(comm, {}, TransportKind::mpi), 2 * channels_, ElementType::float32);
  exchange.begin(view(mine, block_), view(near_, around_)).wait();
  if (!block_.empty()) slices_ = block_.extent(0);
}

NearPlane NearPlanes::plane(std::int64_t channel, std::int64_t slice) const {
  NearPlane out{.frame = frame_, .block = block_, .around = around_, .values = {}, .counted = {}};
  if (block_.empty()) return out;
  const std::int64_t size = around_.extent(1) * around_.extent(2);
  const float* const v = near_.const_data_ptr<float>();
  const auto from = [&](std::int64_t c) { return v + (c * slices_ + slice) * size; };
  out.values.assign(from(channel), from(channel) + size);
  out.counted.resize(static_cast<std::size_t>(size));
  const float* const m = from(channels_ + channel);
  std::transform(m, m + size, out.counted.begin(), [](float c) { return c != 0 ? 1 : 0; });
  return out;
}

std::vector<NearPlane> planes_of(const at::Tensor& y, const at::Tensor& marks, const ProductSpace& layout,
                                 std::size_t part, const Communicator& comm) {
  const NearPlanes near(y, marks, layout, part, comm);
  std::vector<NearPlane> out;
  for (std::int64_t c = 0; c < near.channels(); ++c) out.push_back(near.plane(c, 0));
  return out;
}

}  // namespace tessera
