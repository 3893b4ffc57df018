// SPDX-License-Identifier: BSD-3-Clause
// What the layers of a network take, measured inside whole passes: features come from where the layer before
// left them, weights from where the last pass left them, threads from the sleep between two layers. A
// convolution alone, again and again on the same pixels, is faster: predictions from it were 5 to 22 % low.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/pass_plan.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/denoise/windows.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/perf/measure.hpp"

namespace tessera {
namespace {

constexpr double kBlock = 0.02;  // seconds: several times the slice of time that a shared core gives a rank
constexpr std::array<std::int64_t, 13> kSides = {16,  32,  64,  96,   128,  192, 256,
                                                 384, 512, 768, 1024, 1536, 2048};
constexpr int kRounds = 2;  // apart in time; the faster one counts, since other work only adds

// Passes over one window, as a denoiser makes them.
class Passes {
 public:
  Passes(const Network& network, const RunnerOptions& how)
      : device_(how.device), channels_(network.channels()), runner_(network, how) {
    if (device_.is_cuda()) {
      graphed_.emplace(std::move(runner_));
      RunnerOptions plain = how;
      plain.graphs = false;
      runner_ = Runner(network, plain);
    }
    seconds_.resize(runner_.plan().steps.size());
  }

  void resize(const Index3& window) {
    const at::TensorOptions options = tensor_options(device_);
    std::vector<std::int64_t> sizes{channels_, window[1], window[2]};
    if (runner_.plan().axes == Axes::volume) sizes.insert(sizes.begin() + 1, window[0]);
    out_ = at::empty(sizes, options);
    sizes.insert(sizes.begin(), 1);
    in_ = at::rand(sizes, options);
  }

  /// Seconds of `count` passes; adds to those of the steps.
  double run(int count) {
    const double start = now();
    if (graphed_) {  // what a pass takes; the steps one by one, below, only share it out
      for (int i = 0; i < count; ++i) out_.copy_(graphed_->run(in_, kSigma)[0]);
      settle(device_);
      const double whole = now() - start;
      pass();
      return whole;
    }
    for (int i = 0; i < count; ++i) pass();
    return now() - start;
  }

  void forget() { std::fill(seconds_.begin(), seconds_.end(), 0.0); }
  /// Of each step since forget(); the way out of the result belongs to the first.
  const std::vector<double>& steps() const { return seconds_; }

 private:
  static constexpr double kSigma = 0.1;

  void pass() {
    std::size_t step = 0;
    double last = now();
    const auto lap = [&](std::size_t s) {
      settle(device_);
      const double time = now();
      seconds_[s] += time - last;
      last = time;
    };
    const at::Tensor result = runner_.run(in_, kSigma, [&] { lap(step++); });
    out_.copy_(result[0]);
    lap(0);
  }

  Device device_;
  std::int64_t channels_;
  Runner runner_;
  std::optional<Runner> graphed_;  // a device's: passes replayed as graphs
  std::vector<double> seconds_;
  at::Tensor in_, out_;
};

// What a pass over a window takes on the slowest rank, and the share of it of each step on all of them.
struct PassTime {
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<double> share;
};

PassTime time_pass(const Communicator& comm, Passes& passes, double seconds) {
  passes.run(1);
  passes.forget();
  std::vector<double> list{passes.run(1)};
  double one = list.front();
  comm.all_reduce({&one, 1}, Reduce::max);
  const int each = std::max(1, static_cast<int>(std::ceil(kBlock / std::max(one, 1e-6))));
  const int blocks = std::clamp(static_cast<int>(seconds / (one * each)), 2, 15);
  if (each > 1) {  // of too short a time to count
    passes.forget();
    list.clear();
  }
  while (static_cast<int>(list.size()) < blocks) list.push_back(passes.run(each) / each);
  std::nth_element(list.begin(), list.begin() + blocks / 2, list.end());
  PassTime t{list[static_cast<std::size_t>(blocks / 2)], passes.steps()};
  comm.all_reduce({&t.seconds, 1}, Reduce::max);
  comm.all_reduce(t.share, Reduce::sum);
  double sum = 0;
  for (const double s : t.share) sum += s;
  for (double& s : t.share) s /= sum;
  return t;
}

}  // namespace

void measure_network(const Communicator& comm, Device device, const Network& network,
                     const MeasureOptions& options, Throughput& into) {
  const NetworkWork work = network_work(network, scalar_type(options.precision), device.is_cuda());
  RunnerOptions how;
  how.type = scalar_type(options.precision);
  how.tf32 = options.precision == Precision::tf32;
  how.device = device;
  Passes passes(network, how);
  TESSERA_EXPECT(passes.steps().size() == work.plan->steps.size(), "a runner of ", passes.steps().size(),
                 " steps (the plan of the model has ", work.plan->steps.size(), ") fuse the same layers");

  const auto window = [&](std::int64_t side) {
    return Index3{work.axes == Axes::volume ? side : 1, side, side};
  };
  std::map<std::int64_t, PassTime> times;  // by side
  for (int round = 0; round < kRounds; ++round)
    for (const std::int64_t wanted : kSides) {
      const std::int64_t unit = longest(work.alignment), side = (wanted + unit - 1) / unit * unit;
      const auto larger = times.lower_bound(side);
      if (times.size() > 2 && larger != times.begin()) {  // the side below says how long; equal on all ranks
        const auto& [last, time] = *std::prev(larger);
        const auto pixels = [&](std::int64_t n) { return static_cast<double>(patch_pixels(n, work.axes)); };
        const double grown = pixels(side) / pixels(last);
        if (time.seconds * grown > options.longest) break;
      }
      passes.resize(window(side));
      PassTime t = time_pass(comm, passes, options.seconds);
      if (t.seconds < times[side].seconds) times[side] = std::move(t);
    }

  // Layers of one shape share a curve, whatever was fused into them: their mean.
  struct Mean {
    double sum = 0;
    int count = 0;
  };
  std::map<std::size_t, std::map<double, Mean>> means;  // by rate
  for (const NetworkWork::Layer& layer : work.layers) {
    const auto found = std::find_if(into.layers.begin(), into.layers.end(),
                                    [&](const LayerRate& r) { return measures(r, layer); });
    const auto index = static_cast<std::size_t>(found - into.layers.begin());
    if (found == into.layers.end())
      into.layers.push_back({layer.op, layer.kernel, layer.in, layer.out, {}, layer.axes});
    for (const auto& [side, time] : times) {
      Mean& mean = means[index][layer.pixels(window(side))];
      mean.sum += time.seconds * time.share[layer.step];
      ++mean.count;
    }
  }
  for (const auto& [index, curve] : means)
    for (const auto& [pixels, mean] : curve)
      into.layers[index].seconds.points[pixels] = std::max(1e-9, mean.sum / mean.count);
}

}  // namespace tessera
