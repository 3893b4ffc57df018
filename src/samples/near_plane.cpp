// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "sharp_areas.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {

std::vector<NearPlane> planes_of(const at::Tensor& y, const at::Tensor& marks, const ProductSpace& layout,
                                 std::size_t part, const Communicator& comm) {
  const Layout own = layout.layout(part), need = own.grow(ImageSpace::in_plane(NearPlane::kBeyond));
  const Box block = own.box(comm.rank()), around = need.box(comm.rank());
  const std::int64_t channels = y.size(0);
  const at::Tensor mine = at::cat({y.masked_fill(marks.eq(0), 0), marks}, 0).contiguous();
  const at::Tensor near = empty_block(2 * channels, around, at::kFloat, layout.part(part).space.axes);
  near.zero_();
  Exchange exchange(ExchangePlan(own, need, layout.part(part).box(), Border::zero, comm.rank()),
                    make_transport(comm, {}, TransportKind::mpi), 2 * channels, ElementType::float32);
  exchange.begin(view(mine, block), view(near, around)).wait();
  std::vector<NearPlane> out;
  const std::int64_t size = block.empty() ? 0 : around.extent(1) * around.extent(2);
  const float* const v = near.const_data_ptr<float>();
  for (std::int64_t c = 0; c < channels; ++c) {
    NearPlane plane{
        .frame = layout.part(part).box(), .block = block, .around = around, .values = {}, .counted = {}};
    plane.values.assign(v + c * size, v + (c + 1) * size);
    plane.counted.resize(static_cast<std::size_t>(size));
    std::transform(v + (channels + c) * size, v + (channels + c + 1) * size, plane.counted.begin(),
                   [](float m) { return m != 0 ? 1 : 0; });
    out.push_back(std::move(plane));
  }
  return out;
}

}  // namespace tessera
