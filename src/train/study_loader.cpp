// SPDX-License-Identifier: BSD-3-Clause
// Do the threads that make batches keep up with the training?
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gradients.hpp"
#include "loader.hpp"
#include "optimizer.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/host.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/precision.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/train/train.hpp"

namespace tessera {
namespace {

using training::Batch;
using training::Loader;
using training::Optimizer;
using training::Picture;

/// Mean seconds of a call, over at least `least` of them and about `seconds`. Not the median: where a queue is
/// between two threads, single calls wait for nothing or for a whole batch.
double mean_seconds(int least, double seconds, const std::function<void()>& work) {
  const double start = now();
  int calls = 0;
  for (; calls < least || now() - start < seconds; ++calls) work();
  return (now() - start) / calls;
}

class LoaderStudy final : public Study {
 public:
  LoaderStudy(const StudyOptions& options, const Communicator& comm)
      : comm_(comm),
        device_(tensor_options(options.device).device()),
        seconds_(4.0 / static_cast<double>(options.scale)) {
    use_ieee_products();
    o_.network = {.name = "drunet", .channels = 3, .widths = {24, 48, 96, 192}, .blocks = 1};  // as shipped
    // Crops shrink by less than the sizes: those of a few pixels say little about larger ones.
    const std::int64_t smaller = options.scale == 1 ? 1 : std::max<std::int64_t>(2, options.scale / 4);
    o_.crop = std::max<std::int64_t>(16, 64 / smaller / 8 * 8);
    o_.photographs = options.images;
    if (o_.photographs.empty()) {
      o_.dead_leaves = 1;
    } else {
      pictures_ = training::read_pictures(o_.photographs, {}, o_.network.channels);
      std::erase_if(pictures_, [&](const Picture& p) { return std::min(p.height, p.width) < o_.crop; });
      TESSERA_VALIDATE(!pictures_.empty(), "all pictures of --image are smaller than ", o_.crop, " x ",
                       o_.crop, " (crops of that size are cut out) name a folder of larger ones");
    }
    std::vector<std::int64_t> batches;
    for (const std::int64_t batch : {4, 16, 64})
      batches.push_back(std::max<std::int64_t>(1, batch / smaller));
    batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
    const std::size_t cores = host_cores().cores.size();
    for (const Precision precision : {Precision::float32, Precision::bfloat16})
      for (const std::int64_t batch : batches)
        for (const std::int64_t workers : {0, 1, 2, 4, 8})
          for (const bool pinned : {false, true}) {
            if (pinned && device_.is_cpu()) continue;
            if (workers <= 2 || static_cast<std::size_t>(workers) <= cores)
              cases_.push_back({precision, batch, workers, pinned});
          }
  }

  std::vector<StudyColumn> columns() const override {
    return {{"precision", ""},
            {"batch", std::int64_t{}},
            {"workers", std::int64_t{}},
            {"pinned", std::int64_t{}},
            {"crop", std::int64_t{}},
            {"dead_leaves", 0.0},
            {"threads", std::int64_t{}},
            {"loader_images_per_second", 0.0},
            {"training_images_per_second", 0.0},
            {"images_per_second", 0.0},
            {"seconds", 0.0},
            {"wait_share", 0.0},
            {"limit", ""}};
  }

  double pictures_per_second(const StudyRow& row) const override {
    return number_of(*this, row, "images_per_second");
  }
  double estimate() override {
    train_alone(cases_.front());
    const double each = alone_ / static_cast<double>(o_.batch);
    optimizer_.reset();
    double seconds = 0;
    for (const Case& c : cases_) seconds += 3 * std::max(seconds_, 4 * each * static_cast<double>(c.batch));
    return seconds;
  }
  std::size_t rows() const override { return cases_.size(); }

  StudyRow next() override {
    const Case& c = cases_[next_++];
    if (!optimizer_ || c.precision != o_.precision || c.batch != o_.batch) train_alone(c);
    const double loading = [&] {
      Loader loader = load(c);
      loader.next();  // the threads have begun, and nothing is made ahead as long as all is taken at once
      return mean_seconds(4, seconds_, [&] { loader.next(); });
    }();
    double waited = 0, spent = 0;
    Loader loader = load(c);
    step(loader.next());
    const double both = mean_seconds(4, seconds_, [&] {
      const double start = now();
      const Batch batch = loader.next();
      waited += now() - start;
      step(batch);
      spent += now() - start;
    });
    const auto images = static_cast<double>(c.batch);
    return {std::string(word(c.precision)),
            c.batch,
            c.workers,
            std::int64_t{c.pinned},
            o_.crop,
            o_.dead_leaves,
            static_cast<std::int64_t>(at::get_num_threads()),
            images / loading,
            images / alone_,
            images / both,
            both,
            waited / spent,
            std::string(loading > alone_ ? "loader" : "training")};
  }

  std::string note() const override {
    return "training alone takes the same batch in every step; limit: the slower of loader and training "
           "alone";
  }

 private:
  struct Case {
    Precision precision;
    std::int64_t batch, workers;
    bool pinned;
  };

  Loader load(const Case& c) const {
    constexpr std::int64_t endless = 1'000'000'000;  // steps
    const auto make = [this, pinned = c.pinned](std::int64_t step) {
      const Batch batch = training::make_batch(o_, pictures_, step, 0, 1);
      return pinned ? training::pinned(batch, device_) : batch;
    };
    return {make, 0, endless, c.workers, o_.prefetch};
  }

  void step(const Batch& batch) {
    std::vector<at::Tensor> gradients;
    training::differentiate(o_, network_.graph, training::moved(batch, device_), *optimizer_, pictures_,
                            nullptr, 0, *sums_, gradients, comm_);
    optimizer_->step(gradients, o_.learning_rate, steps_++);
  }

  void train_alone(const Case& c) {
    o_.precision = c.precision;
    o_.batch = c.batch;
    network_ = random_network(o_.network, o_.seed);
    optimizer_.emplace(network_.weights, o_, device_);
    sums_.emplace(optimizer_->parameters(), training::order_of(network_.graph, optimizer_->parameters()),
                  comm_);
    steps_ = 0;
    const Batch batch = training::make_batch(o_, pictures_, 0, 0, 1);
    step(batch);
    alone_ = mean_seconds(4, seconds_, [&] { step(batch); });
  }

  Communicator comm_;
  at::Device device_;
  double seconds_;  // of each measurement, about
  TrainOptions o_;
  std::vector<Picture> pictures_;
  std::vector<Case> cases_;
  std::size_t next_ = 0;
  Network network_;
  std::optional<Optimizer> optimizer_;
  std::optional<training::GradientSums> sums_;
  std::int64_t steps_ = 0;  // of the optimizer
  double alone_ = 0;        // seconds of a step without the loader, with the precision and batch of o_
};

}  // namespace

std::unique_ptr<Study> make_loader_study(const StudyOptions& options, const Communicator& comm) {
  return std::make_unique<LoaderStudy>(options, comm);
}

}  // namespace tessera
