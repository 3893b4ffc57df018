// SPDX-License-Identifier: BSD-3-Clause
// What a device's memory, links and launches give, as shares of the best of their kind.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "kernel_table.hpp"
#include "study_tools.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/cuda_graph.hpp"
#include "tessera/denoise/layer_engines.hpp"
#include "tessera/denoise/side_stream.hpp"

namespace tessera {
namespace {

constexpr int kLaunches = 200;        // small kernels in a row
constexpr std::int64_t kSide = 4096;  // of the block whose convolutions are asked about

struct KernelsCase {
  std::string kind, variant;
  std::int64_t step = 1;  // of a copy: every so manieth element is read
  bool best = false;      // the one that the others of its kind are compared with
};

class KernelsStudy final : public Study {
 public:
  explicit KernelsStudy(const StudyOptions& options) : device_(options.device) {
    elements_ = (std::int64_t{1} << 26) / std::min<std::int64_t>(options.scale, 16);
    cases_.push_back({"copy", "coalesced", 1, true});
    for (const std::int64_t step : {2, 4, 16, 64}) cases_.push_back({"copy", concat("every ", step), step});
    if (device_.is_cuda()) {
      cases_.push_back({"to the device", "pinned", 1, true});
      cases_.push_back({"to the device", "pageable"});
      cases_.push_back({"to the host", "pinned", 1, true});
      cases_.push_back({"to the host", "pageable"});
      cases_.push_back({"two small passes", "two streams", 1, true});
      cases_.push_back({"two small passes", "one stream"});
      cases_.push_back({"launch", "graph", 1, true});
    }
    cases_.push_back({"launch", "one by one", 1, !device_.is_cuda()});
  }

  std::vector<StudyColumn> columns() const override {
    return {{"kind", ""},     {"variant", ""},    {"bytes", std::int64_t{}},
            {"seconds", 0.0}, {"bandwidth", 0.0}, {"share", 0.0}};
  }
  double estimate() override { return static_cast<double>(cases_.size()); }
  std::size_t rows() const override { return cases_.size(); }

  StudyRow next() override {
    const at::NoGradGuard no_grad;
    const KernelsCase& c = cases_[next_++];
    std::int64_t bytes = 0;
    const double seconds = c.kind == "copy"     ? copy(c.step, bytes)
                           : c.kind == "launch" ? launch(c.variant == "graph")
                           : c.kind == "two small passes"
                               ? passes(c.variant == "two streams", bytes)
                               : transfer(c.kind == "to the device", c.variant == "pinned", bytes);
    // Per byte, where bytes move, so that a strided copy is compared with as many bytes of a coalesced one.
    const double cost = bytes > 0 ? seconds / static_cast<double>(bytes) : seconds;
    if (c.best) best_ = cost;
    return {c.kind, c.variant, bytes, seconds, bytes > 0 ? 1 / cost : 0.0, best_ / cost};
  }

  std::string note() const override {
    return "bytes: read and written, those that are wanted; launch: seconds of one kernel on one element; "
           "share: of the first row of its kind\n\n" +
           kernel_table() + "\n\n" + layers();
  }

 private:
  // cuDNN's kernels are known to cuDNN alone: what it says of them where they would run.
  std::string layers() const {
    if (!device_.is_cuda()) return "the network's layers: cuDNN is asked where there is a GPU";
    const NetworkOptions drunet{.name = "drunet", .channels = 3};
    return concat("drunet, color, ", kSide, " x ", kSide, ", bfloat16, by cuDNN's favorite engine:\n",
                  engine_table(layer_engines(drunet, Precision::bfloat16, kSide, kSide)));
  }

  double time(const std::function<void()>& work) const { return study_seconds(device_, 5, 0.2, work); }

  // As many elements in every case, from a source `step` times as large.
  double copy(std::int64_t step, std::int64_t& bytes) const {
    const std::int64_t n = elements_ / 64;
    const at::Tensor from = at::zeros({n * step}, study_tensor(device_)).view({n, step}).select(1, 0);
    const at::Tensor to = at::empty({n}, study_tensor(device_));
    bytes = 8 * n;
    return time([&] { to.copy_(from); });
  }

  double transfer(bool up, bool pinned, std::int64_t& bytes) const {
    const at::Tensor there = at::zeros({elements_}, study_tensor(device_));
    const at::Tensor here = at::zeros({elements_}, at::TensorOptions(at::kFloat).pinned_memory(pinned));
    bytes = 4 * elements_;
    return time([&] { (up ? there : here).copy_(up ? here : there, /*non_blocking=*/pinned); });
  }

  // Passes too small to fill the device: beside each other they take the time of one.
  double passes(bool beside, std::int64_t& bytes) const {
    const at::Tensor a = at::zeros({1 << 18}, study_tensor(device_)), b = at::zeros({1 << 18}, a.options());
    bytes = 2 * 8 * a.numel();
    SideStream other(device_);
    return time([&] {
             other.fork();
             for (int i = 0; i < kLaunches / 2; ++i) {
               at::relu(a);
               std::optional<SideStream::Scope> scope;
               if (beside) scope.emplace(other);
               at::relu(b);
             }
             other.join();
           }) /
           (kLaunches / 2);
  }

  double launch(bool graph) const {
    const at::Tensor x = at::zeros({1, 1, 1, 1}, study_tensor(device_));  // four axes, as graphs want them
    const auto many = [](const at::Tensor& in) {
      at::Tensor y = at::relu(in);
      for (int i = 1; i < kLaunches; ++i) y.relu_();
      return y;
    };
    if (!graph) return time([&] { many(x); }) / kLaunches;
    GraphedPasses passes(device_, x.options());
    const auto replay = [&] {
      passes.run(x, 0, [&](const at::Tensor& in, const at::Tensor&) { return many(in); });
    };
    replay();  // as it is
    replay();  // captured
    TESSERA_VALIDATE(passes.captured() == 1, "the study captured no CUDA graph (", passes.complaint(),
                     ") look whether another program profiles this one");
    return time(replay) / kLaunches;
  }

  Device device_;
  std::vector<KernelsCase> cases_;
  std::size_t next_ = 0;
  std::int64_t elements_ = 0;
  double best_ = 0;
};

}  // namespace

std::unique_ptr<Study> make_kernels_study(const StudyOptions& options) {
  return std::make_unique<KernelsStudy>(options);
}

}  // namespace tessera
