// SPDX-License-Identifier: BSD-3-Clause
// What a precision costs and gains: time, memory, and PSNR on pictures.
#include <ATen/TensorOperators.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/replication_pad2d.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "study_tools.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/runner.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/physics/noise.hpp"

namespace tessera {
namespace {

constexpr double kSigma = 0.1;

double psnr(const at::Tensor& a, const at::Tensor& b) {
  return -10 *
         std::log10(at::mse_loss(a.to(at::kCPU, at::kDouble), b.to(at::kCPU, at::kDouble)).item().toDouble());
}

class PrecisionStudy final : public Study {
 public:
  PrecisionStudy(const StudyOptions& options, const Communicator& comm)
      : device_(options.device), images_(options.images), comm_(comm), scale_(options.scale) {
    precisions_ = {Precision::float32, Precision::bfloat16, Precision::float16};
    if (device_.is_cuda()) precisions_.insert(precisions_.begin() + 1, Precision::tf32);
    TESSERA_VALIDATE(!images_.empty(), "study precision has no picture (PSNR needs one) give --image FILE");
    for (const std::string& image : images_) image_source_info(image, comm_);  // all there, before any is run
    network_ = load_network("drunet", options.weights.empty() ? "drunet_small_color" : options.weights, 3);
  }

  std::vector<StudyColumn> columns() const override {
    return {{"image", ""},
            {"height", std::int64_t{}},
            {"width", std::int64_t{}},
            {"precision", ""},
            {"seconds", 0.0},
            {"pixels_per_second", 0.0},
            {"speedup", 0.0},
            {"peak_bytes", std::int64_t{}},
            {"weight_bytes", std::int64_t{}},
            {"psnr_noisy", 0.0},
            {"psnr", 0.0},
            {"psnr_change", 0.0}};
  }
  double pictures_per_second(const StudyRow& row) const override {
    return 1 / number_of(*this, row, "seconds");
  }
  double estimate() override {
    double flops = 0;
    for (const std::string& image : images_)
      flops += 2 * network_.graph.macs_per_pixel() *
               static_cast<double>(image_source_info(image, comm_).box.pixels());
    return 3.0 * static_cast<double>(precisions_.size()) * flops / (0.5 * arithmetic_peak(device_));
  }
  std::size_t rows() const override { return images_.size() * precisions_.size(); }

  StudyRow next() override {
    const std::string& path = images_[next_ / precisions_.size()];
    const Precision p = precisions_[next_ % precisions_.size()];
    if (next_++ % precisions_.size() == 0) read(path);
    const std::int64_t height = clean_.size(1), width = clean_.size(2), a = network_.alignment()[1];

    const std::int64_t before = device_.is_cuda() ? study_memory(device_) : memory_now(MemoryUse::weights);
    Runner runner(network_, {.type = scalar_type(p), .tf32 = p == Precision::tf32, .device = device_});
    const std::int64_t weights =
        (device_.is_cuda() ? study_memory(device_) : memory_now(MemoryUse::weights)) - before;
    const at::Tensor x = at::replication_pad2d(noisy_.unsqueeze(0), {0, round_up(width, a) - width, 0,
                                                                     round_up(height, a) - height})
                             .to(study_tensor(device_));
    at::Tensor y;
    double seconds = 0;
    const std::int64_t peak = study_peak(
        device_, [&] { seconds = study_seconds(device_, 2, 0.3, [&] { y = runner.run(x, kSigma); }); });
    const double reached = psnr(y[0].narrow(1, 0, height).narrow(2, 0, width), clean_);
    if (p == Precision::float32) exact_ = {seconds, reached};
    return {std::filesystem::path(path).filename().string(),
            height,
            width,
            std::string(word(p)),
            seconds,
            static_cast<double>(height * width) / seconds,
            exact_.seconds / seconds,
            peak,
            weights,
            psnr(noisy_, clean_),
            reached,
            reached - exact_.psnr};
  }

  std::string note() const override {
    return concat("noise and sigma ", kSigma, "; speedup and psnr_change against float32");
  }

 private:
  // The picture, or its middle where sizes are scaled down, as color in [0, 1], and its noisy form.
  void read(const std::string& path) {
    const SourceInfo info = image_source_info(path, comm_);
    at::Tensor t = empty_block(info.channels, info.box, at::kFloat);
    read_image(path, Layout({info.box}), view(t, info.box), comm_);
    t = t.div_(info.full_scale);
    const auto middle = [&](int axis) {
      const std::int64_t n = t.size(axis), kept = std::min(n, std::max<std::int64_t>(16, 2048 / scale_));
      t = t.narrow(axis, (n - kept) / 2, kept);
    };
    middle(1);
    middle(2);
    TESSERA_VALIDATE(info.channels == 1 || info.channels == 3, path, " has ", info.channels,
                     " channels (the study takes gray or color) give another picture");
    clean_ = t.expand({3, -1, -1}).contiguous();
    const at::Tensor exact = clean_.to(at::kDouble);
    const Box box = Box::image2d(clean_.size(1), clean_.size(2));
    add_noise(exact, {.gaussian = kSigma}, 0, 0, box, box);
    noisy_ = exact.to(at::kFloat);
  }

  Device device_;
  std::vector<std::string> images_;
  Communicator comm_;
  std::int64_t scale_;
  Network network_;
  std::vector<Precision> precisions_;
  std::size_t next_ = 0;
  at::Tensor clean_, noisy_;
  struct {
    double seconds = 0, psnr = 0;
  } exact_;
};

}  // namespace

std::unique_ptr<Study> make_precision_study(const StudyOptions& options, const Communicator& comm) {
  return std::make_unique<PrecisionStudy>(options, comm);
}

}  // namespace tessera
