// SPDX-License-Identifier: BSD-3-Clause
// The data step's exchanges and memory, for tessera check and for the cost model.
#include <algorithm>

#include "tessera/domain/fourier.hpp"
#include "tessera/perf/model.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

namespace {
constexpr std::int64_t kBytes = 4;  // float32 state
}

int state_images(const std::string& solver) { return find_solver(solver).images + 2; }

DataTraffic data_traffic(const Decomposition& decomposition, const DataWork& data, int rank) {
  const bool splitting = takes_prox(find_solver(data.solver).data_step);
  DataTraffic traffic;
  if (splitting && data.op->pointwise()) return traffic;
  const auto transforms = [&](const Layout& blocks, const Box& box) {
    auto plans = DistributedFourier::plans(blocks, box, rank);
    for (std::size_t i = 0; i < plans.size(); ++i)
      traffic.parts.push_back({std::move(plans[i]), i == 1 || i == 2 ? 2 * kBytes : kBytes, false});
  };
  const Box& image = decomposition.image();
  const std::vector<Convolution> circular = data.weighted ? std::vector<Convolution>() : data.op->circular();
  const bool whole = !circular.empty() && std::all_of(circular.begin(), circular.end(),
                                                      [](const Convolution& c) { return c.factor == 1; });
  if (splitting && whole) {
    traffic.kind = DataTraffic::Kind::fourier;
    transforms(decomposition.layout(), image);
    return traffic;
  }
  for (ExchangePlan& plan : data.op->exchanges(decomposition, rank))
    traffic.parts.push_back({std::move(plan), kBytes, true});
  traffic.kind = DataTraffic::Kind::gradient;
  if (!splitting) return traffic;
  const std::int64_t f = circular.empty() ? 1 : circular[0].factor;
  if (circular.size() == 1 && image.extent(1) % f == 0 && image.extent(2) % f == 0) {
    traffic.kind = DataTraffic::Kind::coarse;
    const MeasurementLayout samples = data.op->layout(decomposition, 1);
    transforms(samples.layout(0), samples.part(0).box);
    return traffic;
  }
  traffic.kind = DataTraffic::Kind::conjugate_gradients;
  if (data.op->convolutional()) transforms(decomposition.layout(), image);  // preconditioned
  return traffic;
}

std::int64_t DataTraffic::bytes_sent(std::int64_t channels) const {
  std::int64_t sum = 0;
  for (const Part& p : parts)
    sum += channels * p.bytes * (p.plan.pixels_sent() + (p.transposed ? p.plan.pixels_received() : 0));
  return sum;
}

std::int64_t data_memory(const Decomposition& d, const DataWork& data, std::int64_t channels,
                         std::int64_t halo, int rank) {
  const MeasurementLayout layout = data.op->layout(d, channels);
  const Reach reach = data.op->reach();
  const Box block = d.block(rank);
  std::int64_t samples = 0;
  for (std::size_t i = 0; i < layout.parts(); ++i)
    samples += layout.block(i, rank).pixels() * layout.part(i).channels;
  const std::int64_t window =
      d.padded_block(rank).grow({{0, halo, halo}, {0, halo, halo}}).intersect(d.padded()).pixels();
  return kBytes * (channels * block.pixels() * (state_images(data.solver) + (data.truth ? 1 : 0)) +
                   2 * samples + channels * block.grow(reach).pixels() + channels * window);
}

}  // namespace tessera
