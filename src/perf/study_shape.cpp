// SPDX-License-Identifier: BSD-3-Clause
// Memory and time over the image's width: does a size that nothing divides cost more?
#include <ATen/ops/rand.h>

#include <algorithm>
#include <optional>

#include "study_tools.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/denoise/memory_model.hpp"
#include "tessera/denoise/runner.hpp"

namespace tessera {
namespace {

struct ShapeCase {
  std::string network;
  std::int64_t step, height, width;
};

class ShapeStudy final : public Study {
 public:
  explicit ShapeStudy(const StudyOptions& options) : device_(options.device) {
    std::vector<std::string> networks = options.networks;
    if (networks.empty()) networks = {"drunet", "unet", "dncnn"};
    // Scaled sizes stay real ones: 1024 / 8 in steps of 64 / 8 and of 68 / 8, rounded down to whole pixels.
    for (const std::string& network : networks)
      for (const std::int64_t step : {64, 68})
        for (std::int64_t width = 1024; width <= 2048; width += step)
          cases_.push_back({network, step, std::max<std::int64_t>(8, 2048 / options.scale),
                            std::max<std::int64_t>(8, width / options.scale)});
  }

  std::vector<StudyColumn> columns() const override {
    return {{"network", ""},
            {"step", std::int64_t{}},
            {"height", std::int64_t{}},
            {"width", std::int64_t{}},
            {"padded_width", std::int64_t{}},
            {"peak_bytes", std::int64_t{}},
            {"weight_bytes", std::int64_t{}},
            {"model_bytes", std::int64_t{}},
            {"least_bytes", std::int64_t{}},
            {"model_error", 0.0},
            {"seconds", 0.0},
            {"pixels_per_second", 0.0}};
  }

  double pictures_per_second(const StudyRow& row) const override {
    return 1 / number_of(*this, row, "seconds");
  }
  double estimate() override {
    const double peak = arithmetic_peak(device_);
    double flops = 0;
    for (const ShapeCase& c : cases_)
      flops += 2 * kRuns * study_network_macs(c.network) * static_cast<double>(c.height * c.width);
    return flops / (0.7 * peak);
  }
  std::size_t rows() const override { return cases_.size(); }

  StudyRow next() override {
    const ShapeCase& c = cases_[next_++];
    if (c.network != loaded_) {
      runner_.reset();
      model_.reset();
      before_ = study_memory(device_);
      const Network network = study_network(c.network);
      alignment_ = network.alignment()[1];
      runner_.emplace(network, RunnerOptions{.device = device_});
      model_.emplace(network, at::kFloat, true, device_);
      loaded_ = c.network;
    }
    // Padded once, at the end, as every image is.
    const std::int64_t height = round_up(c.height, alignment_), width = round_up(c.width, alignment_);
    const std::int64_t weights =
        device_.is_cuda() ? study_memory(device_) - before_ : memory_now(MemoryUse::weights);
    const at::Tensor x = at::rand({1, 3, height, width}, study_tensor(device_));
    runner_->run(x, 0.1);  // the arena has this size from here on
    const std::int64_t others =
        study_memory(device_) - (device_.is_cuda() ? 0 : memory_now(MemoryUse::activations));
    const std::int64_t peak = study_peak(device_, [&] { runner_->run(x, 0.1); });
    const double seconds =
        study_seconds(device_, 1, device_.is_cuda() ? 0.3 : 0, [&] { runner_->run(x, 0.1); });
    const std::int64_t model = model_->bytes(1, {1, height, width});
    const double error = static_cast<double>(peak - others) / static_cast<double>(model) - 1;
    return {c.network, c.step,  c.height,
            c.width,   width,   peak,
            weights,   model,   model_->least_bytes(1, {1, height, width}),
            error,     seconds, static_cast<double>(c.height * c.width) / seconds};
  }

  std::string note() const override {
    return "model_error: features and scratch, measured over modeled, less 1; peak_bytes holds weights and "
           "image too";
  }

 private:
  static constexpr double kRuns = 4;
  static double study_network_macs(const std::string& name) {
    NetworkOptions o;
    o.name = name;
    return make_graph(o).macs_per_pixel();
  }

  Device device_;
  std::vector<ShapeCase> cases_;
  std::size_t next_ = 0;
  std::string loaded_;
  std::int64_t alignment_ = 1, before_ = 0;
  std::optional<Runner> runner_;
  std::optional<MemoryModel> model_;
};

}  // namespace

std::unique_ptr<Study> make_shape_study(const StudyOptions& options) {
  return std::make_unique<ShapeStudy>(options);
}

}  // namespace tessera
