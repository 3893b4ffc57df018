// SPDX-License-Identifier: BSD-3-Clause
// One image in patches: how many at once, and what limits them?
#include <ATen/ops/rand.h>

#include <algorithm>
#include <optional>

#include "study_tools.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/denoise/runner.hpp"

namespace tessera {
namespace {

struct BatchCase {
  std::string network;
  std::int64_t image, patch, batch;
};

class BatchStudy final : public Study {
 public:
  explicit BatchStudy(const StudyOptions& options) : device_(options.device) {
    std::vector<std::string> networks = options.networks;
    if (networks.empty()) networks = {"drunet", "unet", "dncnn"};
    // Patches shrink by half as much as the image: below 32 pixels they say little about larger ones.
    const std::int64_t smaller = options.scale == 1 ? 1 : std::max<std::int64_t>(2, options.scale / 2);
    for (const std::string& network : networks)
      for (const std::int64_t patch : {128, 256, 512})
        for (const std::int64_t batch : {1, 2, 4, 8, 16})
          if (patch / smaller >= 16 || patch == 512)
            cases_.push_back({network, std::max<std::int64_t>(16, 2048 / options.scale),
                              std::max<std::int64_t>(16, patch / smaller / 8 * 8), batch});
  }

  std::vector<StudyColumn> columns() const override {
    return {{"network", ""},
            {"patch", std::int64_t{}},
            {"batch", std::int64_t{}},
            {"peak_bytes", std::int64_t{}},
            {"weight_bytes", std::int64_t{}},
            {"seconds", 0.0},
            {"patches_per_second", 0.0},
            {"image", std::int64_t{}},
            {"images_per_second", 0.0},
            {"flops", 0.0},
            {"arithmetic_share", 0.0},
            {"bandwidth", 0.0},
            {"bandwidth_share", 0.0},
            {"limit", ""}};
  }

  double pictures_per_second(const StudyRow& row) const override {
    return number_of(*this, row, "images_per_second");
  }
  double estimate() override {
    measure_peaks();
    double flops = 0;
    for (const BatchCase& c : cases_) {
      NetworkOptions o;
      o.name = c.network;
      flops += 2 * 2.5 * make_graph(o).macs_per_pixel() * static_cast<double>(c.batch * c.patch * c.patch);
    }
    return flops / (0.7 * arithmetic_);
  }
  std::size_t rows() const override { return cases_.size(); }

  StudyRow next() override {
    measure_peaks();
    const BatchCase& c = cases_[next_++];
    if (c.network != loaded_) {
      runner_.reset();
      before_ = study_memory(device_);
      const Network network = study_network(c.network);
      graph_ = network.graph;
      runner_.emplace(network, RunnerOptions{.device = device_});
      loaded_ = c.network;
    }
    const std::int64_t weights =
        device_.is_cuda() ? study_memory(device_) - before_ : memory_now(MemoryUse::weights);
    const at::Tensor x = at::rand({c.batch, 3, c.patch, c.patch}, study_tensor(device_));
    double seconds = 0;
    runner_->run(x, 0.1);  // the arena has this size from here on
    const std::int64_t peak = study_peak(device_, [&] {
      seconds = study_seconds(device_, 1, device_.is_cuda() ? 0.3 : 0.1, [&] { runner_->run(x, 0.1); });
    });
    const auto pixels = static_cast<double>(c.batch * c.patch * c.patch);
    const double patches =
        static_cast<double>((c.image + c.patch - 1) / c.patch * ((c.image + c.patch - 1) / c.patch));
    const double flops = 2 * graph_.macs_per_pixel() * pixels / seconds;
    const double bytes = bytes_per_pixel(graph_) * pixels / seconds;
    const double a = flops / arithmetic_, b = bytes / bandwidth_;
    // Features that come faster than a copy through memory come from a cache.
    const char* limit = a >= 0.5 && a >= b ? "arithmetic"
                        : b > 1            ? "cache"
                        : b >= 0.5         ? "bandwidth"
                                           : "overhead";
    return {c.network,
            c.patch,
            c.batch,
            peak,
            weights,
            seconds,
            static_cast<double>(c.batch) / seconds,
            c.image,
            static_cast<double>(c.batch) / seconds / patches,
            flops,
            a,
            bytes,
            b,
            std::string(limit)};
  }

  std::string note() const override {
    return concat("shares are of what was measured here: ", arithmetic_ / 1e9, " Gflop/s, ", bandwidth_ / 1e9,
                  " GB/s copied; patches without halos");
  }

 private:
  void measure_peaks() {
    if (arithmetic_ > 0) return;
    arithmetic_ = arithmetic_peak(device_);
    bandwidth_ = copy_bandwidth(device_, std::int64_t{1} << (device_.is_cuda() ? 30 : 27));
  }

  Device device_;
  std::vector<BatchCase> cases_;
  std::size_t next_ = 0;
  std::string loaded_;
  std::int64_t before_ = 0;
  double arithmetic_ = 0, bandwidth_ = 0;
  Graph graph_;
  std::optional<Runner> runner_;
};

}  // namespace

std::unique_ptr<Study> make_batch_study(const StudyOptions& options) {
  return std::make_unique<BatchStudy>(options);
}

}  // namespace tessera
