// SPDX-License-Identifier: BSD-3-Clause
// The data step's exchanges and memory, for tessera check and for the cost model.
#include <algorithm>

#include "tessera/domain/fourier.hpp"
#include "tessera/perf/model.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

namespace {
constexpr std::int64_t kBytes = 4;  // float32 state

DataTraffic::Kind traffic_kind(const Decomposition& decomposition, const DataWork& data) {
  using Kind = DataTraffic::Kind;
  const bool splitting = takes_prox(find_solver(data.solver).data_step);
  if (!splitting) return Kind::gradient;
  if (data.op->pointwise()) return Kind::none;
  const std::vector<Convolution> circular = data.weighted ? std::vector<Convolution>() : data.op->circular();
  const auto fine = [](const Convolution& c) { return c.factor == 1; };
  if (!circular.empty() && std::all_of(circular.begin(), circular.end(), fine)) return Kind::fourier;
  const Box& image = decomposition.image();
  const std::int64_t f = circular.empty() ? 1 : circular[0].factor;
  if (circular.size() == 1 && image.extent(1) % f == 0 && image.extent(2) % f == 0) return Kind::coarse;
  return Kind::conjugate_gradients;
}

// Bytes that a proximal step keeps: transforms, and what conjugate gradients and their preconditioner have.
double prox_memory(const Decomposition& d, const DataWork& data, std::int64_t channels, double samples,
                   int rank) {
  const double image = static_cast<double>(channels * d.block(rank).pixels());
  // A spectrum; with others also rows of the image and of its spectrum.
  const double transform = d.ranks() == 1 ? 1 : 3;
  switch (traffic_kind(d, data)) {
    case DataTraffic::Kind::none:
    case DataTraffic::Kind::gradient:
      return 0;
    case DataTraffic::Kind::fourier:
      return kBytes * image * (transform + 0.5 / static_cast<double>(channels));
    case DataTraffic::Kind::coarse:
      return kBytes * samples * (transform + 0.5 / static_cast<double>(channels));
    case DataTraffic::Kind::conjugate_gradients:
      break;
  }
  const double kinds = data.weighted ? 1 : 1 / static_cast<double>(channels);  // channels that see the same
  return kBytes * image * (3 + (data.op->convolutional() ? transform + 2 * kinds : 0));
}

}  // namespace

int state_images(const std::string& solver) { return find_solver(solver).images + 2; }

DataTraffic data_traffic(const Decomposition& decomposition, const DataWork& data, int rank) {
  DataTraffic traffic;
  traffic.kind = traffic_kind(decomposition, data);
  const auto transforms = [&](const Layout& blocks, const Box& box) {
    auto plans = DistributedFourier::plans(blocks, box, rank);
    for (std::size_t i = 0; i < plans.size(); ++i)
      traffic.parts.push_back({std::move(plans[i]), i == 1 || i == 2 ? 2 * kBytes : kBytes, false});
  };
  const auto exchanges = [&] {
    for (ExchangePlan& plan : data.op->exchanges(decomposition, rank))
      traffic.parts.push_back({std::move(plan), kBytes, true});
  };
  switch (traffic.kind) {
    case DataTraffic::Kind::none:
      break;
    case DataTraffic::Kind::gradient:
      exchanges();
      break;
    case DataTraffic::Kind::fourier:
      transforms(decomposition.layout(), decomposition.image());
      break;
    case DataTraffic::Kind::coarse: {
      exchanges();
      const MeasurementLayout samples = data.op->layout(decomposition, 1);
      transforms(samples.layout(0), samples.part(0).box);
      break;
    }
    case DataTraffic::Kind::conjugate_gradients:
      exchanges();
      if (data.op->convolutional())
        transforms(decomposition.layout(), decomposition.image());  // preconditioned
      break;
  }
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
  // What the denoiser's windows are cut from: the image itself where it is all here and aligned.
  const bool itself = d.ranks() == 1 && d.image() == d.padded();
  const std::int64_t window =
      itself ? 0
             : d.padded_block(rank).grow({{0, halo, halo}, {0, halo, halo}}).intersect(d.padded()).pixels();
  const std::int64_t seen = data.op->exchanges(d, rank).empty() ? 0 : block.grow(reach).pixels();
  return kBytes *
             (channels * block.pixels() * (state_images(data.solver) + (data.truth ? 1 : 0) + data.prior) +
              2 * samples + channels * seen + channels * window) +
         static_cast<std::int64_t>(prox_memory(d, data, channels, static_cast<double>(samples), rank));
}

}  // namespace tessera
