// SPDX-License-Identifier: BSD-3-Clause
// Mode layer in seconds, by the schedule that a run follows.
#include <array>
#include <map>

#include "flight.hpp"
#include "layer_schedule.hpp"

namespace tessera {

LayerTimes layer_times(const Machine& machine, const NetworkWork& network, const Decomposition& d,
                       const Execution& e, int rank) {
  LayerTimes t;
  const Box block = d.padded_block(rank);
  const double bytes = static_cast<double>(precision_bytes(e.precision));
  const LayerSchedule schedule =
      make_layer_schedule(*network.plan, static_cast<int>(std::max<std::int64_t>(1, e.depth)));
  if (d.image() != d.padded()) {
    const Flight f = fly(machine, e.transport, network_plan(d, 0, rank), rank,
                         4.0 * static_cast<double>(network.channels));
    t.exposed += f.exposed(0);
    t.sent += f.sent;
  }

  std::map<std::array<std::int64_t, 3>, ExchangePlan> plans;
  const auto plan_of = [&](const LayerExchange& x) -> const ExchangePlan& {
    const std::array<std::int64_t, 3> key{x.level, x.reach, x.margin};
    const auto found = plans.find(key);
    if (found != plans.end()) return found->second;
    return plans.emplace(key, LayerLayouts(d, x.level, x.reach, x.margin).plan(rank)).first->second;
  };

  LayerTimes pass;
  auto next = schedule.exchanges.begin();
  for (const NetworkWork::Layer& layer : network.layers) {
    const LayerExchange* x =
        next != schedule.exchanges.end() && next->step == layer.step ? &*next++ : nullptr;
    if (block.empty()) continue;
    const Box here = at_level(block, layer.level), padded = at_level(d.padded(), layer.level);
    const std::int64_t m = schedule.margin[static_cast<std::size_t>(layer.level)];
    const Box region = here.grow({{0, m, m}, {0, m, m}}).intersect(padded);
    const double pixels = static_cast<double>(region.pixels());
    if (layer.passed > 0) {
      pass.denoise += machine.call + machine.copy.at(pixels * layer.passed * bytes);
      continue;
    }
    const double whole = convolution_seconds(machine, e.precision, layer, pixels);
    const double beyond = 1 - static_cast<double>(here.pixels()) / pixels;
    if (!x) {
      pass.denoise += whole;
      pass.redundant += whole * beyond;
      continue;
    }
    // The block on which its neighbors are zeros, while the halo travels; then the rim again, from strips.
    const std::array<Strip, 4> strips = cut_strips(here, padded, x->reach, x->margin);
    const bool only_strips = strips[0].out.contains(here);
    double rim = 0;
    for (const Strip& strip : strips) {
      if (strip.out.empty()) continue;
      const double out = static_cast<double>(strip.out.pixels());
      rim += (only_strips ? 1.0 : machine.strip) * convolution_seconds(machine, e.precision, layer, out) +
             machine.pack.at(out * static_cast<double>(layer.out) * bytes);
    }
    const double inside = only_strips ? 0 : whole;
    pass.denoise += inside + rim;
    pass.redundant += only_strips ? 0 : rim + inside * beyond;
    const Flight f = fly(machine, e.transport, plan_of(*x), rank, bytes * static_cast<double>(x->channels));
    pass.exposed += f.exposed(inside);
    pass.hidden += f.hidden(inside);
    pass.sent += f.sent;
  }
  const double turns = e.turns;
  t.denoise = turns * pass.denoise;
  t.redundant = turns * pass.redundant;
  t.exposed += turns * pass.exposed;
  t.hidden = turns * pass.hidden;
  t.sent += turns * pass.sent;
  return t;
}

}  // namespace tessera
