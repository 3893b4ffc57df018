// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/model.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "flight.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/denoise/windows.hpp"

namespace tessera {
namespace {

constexpr double kAlike = 0.05;  // relative; a median error of 6 %, part of which choices of one job share

// What makes two ranks cost the same: size of the block, and how far its sides are from the border.
using Kind = std::array<std::int64_t, 9>;

Kind kind_of(const Decomposition& d, std::int64_t halo, int rank) {
  const Box b = d.padded_block(rank), p = d.padded();
  if (b.empty()) return {};
  const auto near = [&](std::int64_t distance) { return std::min(distance, halo); };
  return {b.extent(0),
          b.extent(1),
          b.extent(2),
          near(b.lo()[0] - p.lo()[0]),
          near(p.hi()[0] - b.hi()[0]),
          near(b.lo()[1] - p.lo()[1]),
          near(p.hi()[1] - b.hi()[1]),
          near(b.lo()[2] - p.lo()[2]),
          near(p.hi()[2] - b.hi()[2])};
}

// The rank whose block reaches farthest: the slowest but for what borders save, enough to rank choices.
int busiest(const std::vector<Decomposition>& cuts, const Index3& halo) {
  int best = 0;
  std::int64_t most = -1;
  for (int r = 0; r < cuts[0].ranks(); ++r) {
    std::int64_t pixels = 0;
    for (const Decomposition& d : cuts)
      pixels += d.padded_block(r).grow({halo, halo}).intersect(d.padded()).pixels();
    if (pixels > most) {
      most = pixels;
      best = r;
    }
  }
  return best;
}

// Planes that go through the network at once; 0: it sees the image itself.
std::int64_t planes_at_once(const NetworkWork& network, const Decomposition& d, const Execution& e,
                            bool gpu) {
  if (e.planes.empty()) return 0;
  if (e.batch) return *e.batch;
  std::int64_t most = 1;  // pixels of a window in a plane
  for (int r = 0; r < d.ranks(); ++r) {
    const Box block = d.padded_block(r);
    const Index3 sides = window_region(block, d.padded(), network.halo).extents();
    const std::int64_t core = e.patch.value_or(longest(block.extents())) + 2 * longest(network.halo);
    most = std::max(most, std::min(core, sides[1]) * std::min(core, sides[2]));
  }
  return usual_batch(most, gpu);
}

// The windows of one rank: passes, and the part of them that needs no halo.
struct Windows {
  double seconds = 0, redundant = 0, inside = 0;
  double features = 0;  // bytes of the largest pass
};

Windows window_times(const Machine& machine, const NetworkWork& network, const Decomposition& d,
                     const Execution& e, int rank) {
  Windows t;
  const Box block = d.padded_block(rank), own = d.block(rank);
  if (block.empty()) return t;
  const std::int64_t patch = e.patch.value_or(longest(block.extents()));
  const std::int64_t planes = planes_at_once(network, d, e, machine.processors > 0);
  // Windows of one shape, and how many there are.
  using Shape = std::tuple<bool, Index3, Index3, Index3>;  // inside; extents, first and last pixel kept
  std::map<Shape, std::int64_t> groups;
  for (const Window& w : cut_windows(block, d.padded(), network.alignment, patch, network.halo, planes))
    if (const Box core = w.core.intersect(own); !core.empty())
      ++groups[{own.contains(w.box), w.box.extents(), core.lo() - w.box.lo(), core.hi() - w.box.lo()}];
  for (const auto& [shape, count] : groups) {
    const auto& [inside, size, lo, hi] = shape;
    const auto seen = [&](Index3 from, Index3 to) {  // by the network: by planes one of them
      if (planes > 0) to[0] = from[0] + 1;
      return Box(from, to);
    };
    const Box window = seen({0, 0, 0}, size), core = seen(lo, hi);
    const std::int64_t batch =
        planes > 0 ? size[0] : std::max<std::int64_t>(1, std::min(e.batch.value_or(1), count));
    const std::int64_t windows = planes > 0 ? size[0] * count : count;
    const auto times = [&](const Box& all, const Box& kept) {
      double seconds = static_cast<double>(windows / batch) *
                       pass_seconds(machine, network, e.precision, all, kept, batch);
      if (windows % batch > 0)
        seconds += pass_seconds(machine, network, e.precision, all, kept, windows % batch);
      return seconds * passes(e.averaging, e.turns);
    };
    const double seconds = times(window, core);
    t.seconds += seconds;
    t.redundant += std::max(0.0, seconds - times(core, core));
    if (inside) t.inside += seconds;
    t.features = std::max(t.features, static_cast<double>(network.memory->bytes(batch, window.extents())));
  }
  return t;
}

void add_denoiser(const Machine& machine, const NetworkWork& network, const Decomposition& whole,
                  std::int64_t channels, const Execution& e, bool gpu, int rank, Prediction& p) {
  double features = 0;
  for (const Decomposition& d : plane_cuts(whole, e.planes)) {  // one after the other
    if (e.mode == ExecutionMode::layer) {
      const LayerTimes t = layer_times(machine, network, d, e, rank);
      p.denoise += t.denoise;
      p.redundant += t.redundant;
      p.exposed += t.exposed;
      p.hidden += t.hidden;
      p.sent += t.sent;
      features = std::max(features, static_cast<double>(network.memory->layer_bytes(
                                        d, rank, static_cast<int>(e.halo_depth.value_or(1)))));
      continue;
    }
    const Windows t = window_times(machine, network, d, e, rank);
    p.denoise += t.seconds;
    p.redundant += t.redundant;
    features = std::max(features, t.features);
    if (d.ranks() > 1 || d.image() != d.padded()) {
      const Flight f = fly(machine, e.transport, network_plan(d, network.halo, rank), rank,
                           4.0 * static_cast<double>(channels));
      p.exposed += f.exposed(t.inside);
      p.hidden += f.hidden(t.inside);
      p.sent += f.sent;
    }
  }
  p.memory += features + weight_memory(network, e.precision, gpu);
}

void add_data_step(const Machine& machine, const DataWork& data, const Decomposition& d,
                   TransportKind transport, int rank, Prediction& p) {
  const DataTraffic traffic = data_traffic(d, data, rank);
  const double repeats = traffic.iterative() ? 1 + data.inner : 1;
  const double values = static_cast<double>(data.image.values(d.block(rank)));
  p.data += machine.state.at(values) * state_images(data.solver) / state_images(kTimedSolver);
  p.data += repeats * data_seconds(machine, data, d, traffic.prox, rank);
  for (const PlannedExchange& e : traffic.exchanges) {
    const double bytes = static_cast<double>(e.channels * e.element_bytes);
    const int there = e.accumulates ? e.adjoints : e.applies, back = e.accumulates ? e.applies : e.adjoints;
    if (there > 0) p.exposed += there * repeats * fly(machine, transport, e.plan, rank, bytes).exposed(0);
    if (back > 0)
      p.exposed += back * repeats * fly(machine, transport, e.plan, rank, bytes, {.back = true}).exposed(0);
  }
  if (traffic.iterative()) {
    p.data += repeats * machine.copy.at(values * 4 * 10);       // its vector updates and products
    p.reduce += 2 * repeats * machine.reduction.at(d.ranks());  // which wait
  }
  p.sent += static_cast<double>(traffic.bytes_sent());
}

Index3 halo_of(const NetworkWork* network, const Execution& e) {
  return !network || e.mode == ExecutionMode::layer ? Index3{} : network->halo;
}

Prediction predict_rank(const Machine& machine, const NetworkWork* network, const DataWork& data,
                        const Decomposition& d, const Execution& e, int rank) {
  Prediction p;
  p.execution = e;
  p.ranks = d.ranks();
  p.data_bytes = static_cast<double>(data_memory(d, data, halo_of(network, e), e.planes, rank));
  p.memory = p.data_bytes + data_moment(data, d, rank);
  if (network) add_denoiser(machine, *network, d, data.image.planes(), e, machine.processors > 0, rank, p);
  add_data_step(machine, data, d, e.transport, rank, p);
  if (d.ranks() > 1) {
    // One reduction rides along with an iteration; only what is longer than that is waited for.
    const double whole = machine.reduction.at(d.ranks()), beside = p.seconds();
    p.reduce += std::max(0.0, whole - beside);
    p.hidden += std::min(whole, beside);
  }
  return p;
}

}  // namespace

double weight_memory(const NetworkWork& network, Precision precision, bool on_device) {
  const bool sixteen = element_bytes(precision) == 2;
  if (on_device) return network.weights * (sixteen ? 2.2 : 4.4);
  return sixteen ? network.weights * 6.4 : network.weights * 4 + network.packed;
}

std::map<int, int> representatives(const Decomposition& d, std::int64_t halo) {
  std::map<int, int> chosen;
  std::map<Kind, int> seen;
  for (int r = 0; r < d.ranks(); ++r) {
    if (d.ranks() <= kEveryRank) {
      chosen[r] = 1;
    } else {
      const auto [kind, fresh] = seen.try_emplace(kind_of(d, halo, r), r);
      ++chosen[kind->second];
    }
  }
  return chosen;
}

Prediction predict(const Machine& machine, const NetworkWork* network, const DataWork& data,
                   const Decomposition& d, const Execution& e) {
  const std::int64_t halo = longest(halo_of(network, e));
  Prediction slowest;
  double sent = 0, memory = 0, data_bytes = 0;
  for (const auto& [rank, count] : representatives(d, std::max<std::int64_t>(halo, 64))) {
    const Prediction p = predict_rank(machine, network, data, d, e, rank);
    sent += p.sent * count;
    memory = std::max(memory, p.memory);
    data_bytes = std::max(data_bytes, p.data_bytes);
    if (p.seconds() >= slowest.seconds()) slowest = p;
  }
  slowest.sent = sent;
  slowest.memory = memory;
  slowest.data_bytes = data_bytes;
  return slowest;
}

std::string limiting_term(const Prediction& one, const Prediction& many) {
  const double share = static_cast<double>(one.ranks) / many.ranks;
  const bool same = one.ranks == many.ranks;
  const auto lost = [&](double now, double before) { return same ? now : now - before * share; };
  const std::array<std::pair<double, const char*>, 5> terms = {
      {{lost(many.denoise - many.redundant, one.denoise - one.redundant),
        same ? "arithmetic" : "smaller calls, uneven blocks"},
       {lost(many.redundant, one.redundant), "halo work"},
       {lost(many.data, one.data), "data step"},
       {lost(many.exposed, one.exposed), "communication"},
       {lost(many.reduce, one.reduce), "reduction"}}};
  return std::max_element(terms.begin(), terms.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

namespace {

// Bytes of features on the rank that needs most of them.
double largest_features(const NetworkWork& network, const std::vector<Decomposition>& cuts,
                        const Execution& e, std::int64_t side, bool gpu) {
  double most = 0;
  for (const Decomposition& d : cuts) {
    const std::int64_t planes = planes_at_once(network, d, e, gpu);
    Box block, window;
    int rank = 0;
    for (int r = 0; r < d.ranks(); ++r) {
      const Box b = d.padded_block(r);
      if (b.pixels() > block.pixels()) {
        block = b;
        rank = r;
      }
      if (e.mode == ExecutionMode::layer || b.empty()) continue;
      for (const Window& w :
           cut_windows(b, d.padded(), network.alignment, e.patch.value_or(side), network.halo, planes))
        if (w.box.pixels() > window.pixels()) window = w.box;
    }
    Index3 sides = window.extents();
    const std::int64_t items = planes > 0 ? std::exchange(sides[0], 1) : e.batch.value_or(1);
    most = std::max(most, static_cast<double>(e.mode == ExecutionMode::layer
                                                  ? network.memory->layer_bytes(
                                                        d, rank, static_cast<int>(e.halo_depth.value_or(1)))
                                                  : network.memory->bytes(items, sides)));
  }
  return most;
}

}  // namespace

std::vector<Prediction> rank_executions(const Machine& machine, const NetworkWork& network,
                                        const DataWork& data, const Decomposition& d, const Execution& wanted,
                                        double feature_memory) {
  const std::int64_t a = longest(network.alignment);
  const bool by_planes = !wanted.planes.empty(), gpu = machine.processors > 0;
  const std::vector<Decomposition> cuts = plane_cuts(d, wanted.planes);
  std::int64_t side = a, pixels = 1, planes = 1;  // of a block, by planes of one of its planes
  for (const Decomposition& cut : cuts)
    for (int r = 0; r < d.ranks(); ++r) {
      Index3 sides = cut.padded_block(r).extents();
      if (by_planes) planes = std::max(planes, std::exchange(sides[0], std::min<std::int64_t>(1, sides[0])));
      side = std::max(side, longest(sides));
      pixels = std::max(pixels, sides[0] * sides[1] * sides[2]);
    }
  const auto wants = [&](ExecutionMode mode) {
    return wanted.mode == mode || wanted.mode == ExecutionMode::automatic;
  };
  std::vector<Execution> candidates;
  if (wants(ExecutionMode::whole) && d.ranks() == 1 && !wanted.patch) {
    Execution e = wanted;
    e.mode = ExecutionMode::whole;
    e.batch = e.halo_depth = std::nullopt;
    candidates.push_back(e);
  }
  if (wants(ExecutionMode::patch) && !network.global) {
    Execution e = wanted;
    e.mode = ExecutionMode::patch;
    e.halo_depth.reset();
    constexpr std::int64_t kMostWindows = 1024;
    std::vector<std::int64_t> patches = patches_for(pixels, a, network.axes);
    if (wanted.patch) patches = {std::min(*wanted.patch, side)};
    std::int64_t looked_at =
        0;  // windows of the patch before: a third more at least, each a step less memory
    for (const std::int64_t patch : patches) {
      const std::int64_t core = patch_pixels(patch, network.axes), windows = (pixels + core - 1) / core;
      if (!wanted.patch && windows > 1 && (core < 64 * 64 || windows > kMostWindows)) break;
      if (3 * windows < 4 * looked_at) continue;
      looked_at = windows;
      if (d.ranks() == 1 && windows == 1 && wanted.mode == ExecutionMode::automatic && !wanted.patch)
        continue;
      e.patch = patch;
      for (const std::int64_t batch : {1, 2, 4, 8, 16, 32}) {
        e.batch = wanted.batch.value_or(batch);
        if (wanted.batch ? batch > 1 : batch > (by_planes ? planes : windows)) break;
        candidates.push_back(e);
      }
    }
  }
  if (wants(ExecutionMode::layer) && !wanted.patch && d.ranks() > 1) {
    Execution e = wanted;
    e.mode = ExecutionMode::layer;
    e.batch.reset();
    for (const std::int64_t depth : {1, 2, 3, 4}) {
      if (depth > 1 && network.axes == Axes::volume) break;  // each exchange serves one layer
      e.halo_depth = wanted.halo_depth.value_or(depth);
      candidates.push_back(e);
      if (wanted.halo_depth) break;
    }
  }
  const int slowest = busiest(cuts, network.halo);
  std::vector<Prediction> ranked;
  for (const Execution& candidate : candidates) {
    if (feature_memory > 0 && largest_features(network, cuts, candidate, side, gpu) > feature_memory)
      continue;
    ranked.push_back(predict_rank(machine, &network, data, d, candidate, slowest));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Prediction& x, const Prediction& y) { return x.seconds() < y.seconds(); });
  // What the model cannot tell apart: the one that computes least twice comes first.
  const auto close = std::find_if(ranked.begin(), ranked.end(), [&](const Prediction& p) {
    return p.seconds() > (1 + kAlike) * ranked.front().seconds();
  });
  const auto least = std::min_element(ranked.begin(), close, [](const Prediction& x, const Prediction& y) {
    return x.redundant < y.redundant;
  });
  if (least != close) std::rotate(ranked.begin(), least, least + 1);
  return ranked;
}

}  // namespace tessera
