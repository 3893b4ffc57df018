// SPDX-License-Identifier: BSD-3-Clause
// Mode layer in seconds, by the schedule that a run follows.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <vector>

#include "flight.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/windows.hpp"

namespace tessera {
namespace {

// Of the host, for a convolution that exchanges and is launched kernel by kernel: an estimate, docs/gpu.md.
constexpr double kHostSeconds = 1.1e-4;

/// A convolution that exchanges: seconds of its arithmetic, of them on pixels of others or for the second
/// time, and what of its exchange shows.
struct Term {
  double denoise = 0, redundant = 0, exposed = 0, hidden = 0;
};

// Output pixels of the calls that compute the rim: of a picture opposite strips of one size share one.
std::vector<double> rim_calls(const BlockCut& cut) {
  std::vector<double> calls;
  for (std::size_t i = 0; i < cut.strips.size(); i += 2) {
    const Box &a = cut.strips[i].out, &b = cut.strips[i + 1].out;
    const auto pixels = [](const Box& box) { return static_cast<double>(box.pixels()); };
    if (a.extents() == b.extents() && a.extent(0) == 1) {
      calls.push_back(pixels(a) + pixels(b));
    } else {
      if (!a.empty()) calls.push_back(pixels(a));
      if (!b.empty()) calls.push_back(pixels(b));
    }
  }
  return calls;
}

// `whole`: output pixels of the block and its margin; `seconds` of a call by its output pixels.
Term time_convolution(const Machine& machine, const RimForm& form, const BlockCut& cut, double here,
                      double whole, double out_bytes, const Flight& flight,
                      const std::function<double(double)>& seconds) {
  Term t;
  double rim = 0, rim_pixels = 0, paste = 0;
  for (const double pixels : rim_calls(cut)) {
    rim += seconds(pixels);
    rim_pixels += pixels;
    paste += machine.pack.at(pixels * out_bytes);
  }
  const double inside_pixels = static_cast<double>(cut.inside.pixels());
  if (form.tile > 1) {  // straight into their places
    const double inside = seconds(inside_pixels);
    t.denoise = inside + rim;
    t.redundant = t.denoise * (1 - here / static_cast<double>(cut.all.pixels()));
    t.exposed = flight.exposed(inside);
    t.hidden = flight.hidden(inside);
    return t;
  }
  // The whole block, on which its neighbors are zeros; its rim again, from strips, and put in its place.
  if (machine.processors > 0) {
    // On a stream of its own: the multiprocessors work on both, as if it were one call.
    const double both = seconds((cut.inside.empty() ? 0 : whole) + rim_pixels);
    const double behind = flight.busy + flight.transit + rim;
    t.denoise = both + paste;
    t.exposed = std::max(0.0, behind - both);
    t.hidden = std::min(behind, both) - std::min(rim, both);
  } else {
    const double inside = cut.inside.empty() ? 0 : seconds(whole);
    t.denoise = inside + (cut.inside.empty() ? 1 : machine.strip) * rim + paste;
    t.exposed = flight.exposed(inside);
    t.hidden = flight.hidden(inside);
  }
  t.redundant = std::max(0.0, t.denoise - seconds(here));
  return t;
}

// Layers that change the level see and make blocks: copies without the margin before, and with it behind.
double time_margins(const Machine& machine, const NetworkWork::Layer& layer, const LevelBoxes& from,
                    const LevelBoxes& to, double bytes) {
  const auto size = [&](const Box& box, std::int64_t channels) {
    return static_cast<double>(box.pixels() * channels) * bytes;
  };
  double seconds = 0;
  if (from.region != from.block) seconds += machine.copy.at(2 * size(from.block, layer.in));
  if (to.region != to.block)  // zeros, and the block over them
    seconds += machine.copy.at(size(to.region, layer.out)) + machine.copy.at(2 * size(to.block, layer.out));
  return seconds;
}

// One pass of a rank's layers, each with the exchange that it waits for.
class RankPass {
 public:
  RankPass(const Machine& machine, const NetworkWork& network, const Decomposition& d, const Execution& e,
           int rank, const LayerSchedule& schedule)
      : machine_(machine),
        network_(network),
        d_(d),
        e_(e),
        rank_(rank),
        bytes_(static_cast<double>(element_bytes(e.precision))),
        boxes_(level_boxes(schedule, d, rank)) {}

  // `x`: its exchange, or null.
  void add(const NetworkWork::Layer& layer, const LayerExchange* x) {
    const LevelBoxes& level = boxes_[static_cast<std::size_t>(layer.level)];
    const double pixels = static_cast<double>(level.region.pixels());
    if (const int change = level_change(layer.op); change != 0) {
      const double copies = time_margins(
          machine_, layer, boxes_[static_cast<std::size_t>(layer.level - change)], level, bytes_);
      pass.denoise +=
          layer_seconds(machine_, e_.precision, layer, static_cast<double>(level.block.pixels())) + copies;
      pass.redundant += copies;
    } else if (layer.passed > 0) {
      add_pointwise(layer, x, pixels);
    } else {
      add_convolution(layer, x, level, pixels);
    }
  }

  LayerTimes pass;

 private:
  const ExchangePlan& plan_of(const LayerExchange& x) {
    const std::array<std::int64_t, 4> key{x.level, x.reach, x.margin, x.rim.tile};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    return plans_.emplace(key, LayerLayouts(d_, x).plan(rank_)).first->second;
  }
  Flight flight(const LayerExchange& x) {
    return fly(machine_, e_.transport, plan_of(x), rank_, bytes_ * static_cast<double>(x.channels));
  }

  void add_pointwise(const NetworkWork::Layer& layer, const LayerExchange* x, double pixels) {
    const double seconds = layer_seconds(machine_, e_.precision, layer, pixels);
    pass.denoise += seconds;
    if (!x) return;
    const Flight f = flight(*x);
    pass.exposed += f.exposed(seconds);
    pass.hidden += f.hidden(seconds);
    pass.sent += f.sent;
  }

  void add_convolution(const NetworkWork::Layer& layer, const LayerExchange* x, const LevelBoxes& level,
                       double pixels) {
    const Box &here = level.block, &region = level.region;
    const double whole = convolution_seconds(machine_, e_.precision, layer, pixels);
    const double beyond = 1 - static_cast<double>(here.pixels()) / pixels;
    if (!x) {
      pass.denoise += whole;
      pass.redundant += whole * beyond;
      return;
    }
    const Flight f = flight(*x);
    const BlockCut cut = cut_block(here, at_level(d_.padded(), layer.level, network_.axes), *x);
    const double written = static_cast<double>(layer.out) * bytes_;
    const Term term = time_convolution(
        machine_, x->rim, cut, static_cast<double>(here.pixels()), pixels, written, f,
        [&](double n) { return n > 0 ? convolution_seconds(machine_, e_.precision, layer, n) : 0.0; });
    const double zeros =  // where the result has more margin than this convolution computes
        x->rim.tile > 1 && cut.all != region ? machine_.copy.at(pixels * written) : 0;
    pass.denoise += term.denoise + zeros;
    pass.redundant += term.redundant + zeros;
    pass.exposed += term.exposed;
    pass.hidden += term.hidden;
    pass.sent += f.sent;
  }

  const Machine& machine_;
  const NetworkWork& network_;
  const Decomposition& d_;
  const Execution& e_;
  int rank_;
  double bytes_;
  std::vector<LevelBoxes> boxes_;
  std::map<std::array<std::int64_t, 4>, ExchangePlan> plans_;
};

}  // namespace

LayerTimes layer_times(const Machine& machine, const NetworkWork& network, const Decomposition& d,
                       const Execution& e, int rank) {
  LayerTimes t;
  const LayerSchedule schedule =
      make_layer_schedule(*network.plan, static_cast<int>(e.halo_depth.value_or(1)), scalar_type(e.precision),
                          machine.processors > 0);
  if (d.image() != d.padded()) {
    const Flight f = fly(machine, e.transport, network_plan(d, {}, rank), rank,
                         4.0 * static_cast<double>(network.channels));
    t.exposed += f.exposed(0);
    t.sent += f.sent;
  }
  RankPass layers(machine, network, d, e, rank, schedule);
  auto next = schedule.exchanges.begin();
  for (const NetworkWork::Layer& layer : network.layers) {
    const LayerExchange* x =
        next != schedule.exchanges.end() && next->step == layer.step ? &*next++ : nullptr;
    if (!d.padded_block(rank).empty()) layers.add(layer, x);
  }
  LayerTimes& pass = layers.pass;
  const bool streamed = transport_on(machine, e.transport) == TransportKind::nccl;
  if (machine.processors > 0 && d.ranks() > 1 &&
      !(streamed && schedule.sums.empty()))  // no graph holds these
    pass.denoise = std::max(pass.denoise, kHostSeconds * static_cast<double>(schedule.exchanges.size()));
  if (d.ranks() > 1)  // sums over all pixels, which are waited for
    pass.exposed += static_cast<double>(schedule.sums.size()) * machine.reduction.at(d.ranks());
  const double turns = passes(e.averaging, e.turns);
  t.denoise = turns * pass.denoise;
  t.redundant = turns * pass.redundant;
  t.exposed += turns * pass.exposed;
  t.hidden = turns * pass.hidden;
  t.sent += turns * pass.sent;
  return t;
}

}  // namespace tessera
