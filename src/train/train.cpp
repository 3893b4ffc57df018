// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/train.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numbers>
#include <tuple>

#include "gradients.hpp"
#include "loader.hpp"
#include "optimizer.hpp"
#include "orbits.hpp"
#include "scenes.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/domain/precision.hpp"
#include "tessera/domain/tensor.hpp"
#include "training_curve.hpp"
#include "validation.hpp"

namespace tessera {
namespace {

using training::Batch;
using training::Loader;
using training::Optimizer;
using training::Orbits;
using training::Picture;
using training::TrainingCurve;

/// printf into a string.
template <class... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

constexpr int kTimeIsUp = 85;  // checkpointed, wants to be called again

/// What is trained on, and the key that names it.
const char* words_of(Axes axes) { return axes == Axes::volume ? "volumes" : "pictures"; }
const char* photographs_key(Axes axes) {
  return axes == Axes::volume ? "train.volumes" : "train.photographs";
}

void check(const TrainOptions& o) {
  const Graph graph = make_graph(o.network);
  const std::int64_t unit = graph.alignment()[1];
  TESSERA_VALIDATE(o.crop > 0 && o.crop % unit == 0, "train.crop is ", o.crop, " (", o.network.name,
                   " needs a multiple of ", unit, ") use ", (o.crop / unit + 1) * unit);
  TESSERA_VALIDATE(o.batch > 0 && o.steps >= 0, "train.batch is ", o.batch, ", train.steps is ", o.steps,
                   " (a batch holds at least 1 crop, steps are not negative) correct them");
  constexpr std::int64_t most = 256;
  TESSERA_VALIDATE(0 <= o.workers && o.workers <= most, "train.workers is ", o.workers,
                   " (threads that make batches, at most ", most, "; 0: the training makes them) use 1");
  TESSERA_VALIDATE(1 <= o.prefetch && o.prefetch <= most, "train.prefetch is ", o.prefetch,
                   " (batches that a worker makes ahead, 1 to ", most, ") use 2");
  TESSERA_VALIDATE(o.device == "auto" || o.device == "cpu" || o.device == "cuda", "train.device is ",
                   o.device, " (known: auto, cpu, cuda) use one of them");
  TESSERA_VALIDATE(o.precision == Precision::float32 || o.precision == Precision::bfloat16,
                   "train.precision is ", word(o.precision), " (known: float32, bfloat16) use one of them");
  TESSERA_VALIDATE(0 <= o.sigma.first && o.sigma.first <= o.sigma.second, "train.sigma is [", o.sigma.first,
                   ", ", o.sigma.second, "] (lowest, then highest, not negative) correct it");
  TESSERA_VALIDATE(o.learning_rate > 0 && o.final_learning_rate >= 0, "train.learning_rate is ",
                   o.learning_rate, " (nothing would be learned) use 1e-3");
  TESSERA_VALIDATE(
      o.weight_decay >= 0 && o.learning_rate * o.weight_decay < 1, "train.weight_decay is ", o.weight_decay,
      " (a step shrinks kernels by learning_rate * weight_decay, which is a share ", "below 1) use 0 to 0.1");
  TESSERA_VALIDATE(0 <= o.ema && o.ema < 1, "train.ema is ", o.ema, " (a share below 1) use 0.999");
  TESSERA_VALIDATE(0 <= o.dead_leaves && o.dead_leaves <= 1, "train.dead_leaves is ", o.dead_leaves,
                   " (a share of the crops) use 0 to 1");
  TESSERA_VALIDATE(!o.photographs.empty() || o.dead_leaves == 1, "there are no ",
                   photographs_key(graph.axes()), " (only drawn scenes are left) name folders of ",
                   words_of(graph.axes()), ", or set dead_leaves to 1");
  const JacobianOptions& j = o.jacobian;
  TESSERA_VALIDATE(j.weight >= 0 && j.bound >= 0, "train.jacobian.weight is ", j.weight, ", bound is ",
                   j.bound, " (neither can be negative) use for example 1e-2 and 1");
  TESSERA_VALIDATE(1 <= j.batch && j.batch <= j.orbits, "train.jacobian.batch is ", j.batch, " of ", j.orbits,
                   " orbits (a step visits at least one, and each at most once) use 3 of 12");
  TESSERA_VALIDATE(j.length >= 1 && j.power_iterations >= 1, "train.jacobian.length is ", j.length,
                   ", power_iterations is ", j.power_iterations, " (at least one of each) use 200 and 1");
  TESSERA_VALIDATE(0 < j.sigma.first && j.sigma.first <= j.sigma.second, "train.jacobian.sigma is [",
                   j.sigma.first, ", ", j.sigma.second,
                   "] (lowest, then highest, spread evenly in their logarithm) use [0.002, 0.08]");
  TESSERA_VALIDATE(!o.output.empty(), "train.output is missing (the weights must go somewhere) name a file");
}

/// Whether a first convolution takes image and noise level in, and a last one makes an image.
bool has_head_and_tail(const Network& network) {
  return network.weights.contains("m_head.weight") && network.weights.contains("m_tail.weight");
}

/// Seeded weights with which D(x, sigma) = x + small: the head passes the image on in its first channels, the
/// tail takes it from there, every residual branch begins small. Learning starts at the noisy image.
void begin_near_identity(Network& network) {
  if (!has_head_and_tail(network)) return;
  for (auto& [name, tensor] : network.weights) {
    const bool up = name.starts_with("m_up") && tensor.size(2) == 2;
    if (up || name.ends_with("res.2.weight") || name == "m_tail.weight") tensor.mul_(0.1);
    const bool head = name == "m_head.weight", tail = name == "m_tail.weight";
    if (!head && !tail) continue;
    const std::int64_t channels = std::min(network.channels(), tensor.size(head ? 0 : 1));
    for (std::int64_t c = 0; c < channels; ++c) {
      if (head) tensor.select(0, c).zero_();
      at::Tensor taps = tensor.select(0, c).select(0, c);  // 3 along each axis: the middle one
      while (taps.dim() > 0) taps = taps.select(0, 1);
      taps.fill_(1);
    }
  }
}

/// A color network's weights as the start of a gray one: the same image in all channels, the mean of the
/// outputs.
void take_gray_from_color(const Network& color, Network& gray) {
  for (auto& [name, tensor] : gray.weights) {
    const at::Tensor& from = color.weights.at(name);
    const std::int64_t c = color.channels();
    if (name == "m_head.weight") {
      tensor.narrow(1, 0, 1).copy_(from.narrow(1, 0, c).sum(at::IntArrayRef{1}, /*keepdim=*/true));
      tensor.narrow(1, 1, 1).copy_(from.narrow(1, c, 1));
    } else if (name == "m_tail.weight") {
      tensor.copy_(from.mean(at::IntArrayRef{0}, /*keepdim=*/true));
    } else {
      tensor.copy_(from);
    }
  }
}

Network begin(const TrainOptions& options) {
  Network network = random_network(options.network, options.seed);
  network.sigma_range = options.sigma;
  if (options.start.empty()) {
    begin_near_identity(network);
    return network;
  }
  const Network start = load_network(options.network.name, options.start, 0);
  const bool to_gray = has_head_and_tail(network) && network.channels() == 1 && start.channels() == 3;
  NetworkOptions same = start.options;
  same.channels = network.channels();
  TESSERA_VALIDATE(weight_shapes(make_graph(same)) == weight_shapes(network.graph) &&
                       (to_gray || start.channels() == network.channels()),
                   "train.start ", options.start,
                   " has another shape than train.network (its weights cannot ",
                   "be taken over) give the same widths, blocks and channels");
  if (to_gray)
    take_gray_from_color(start, network);
  else
    network.weights = start.weights;
  return network;
}

double learning_rate(const TrainOptions& o, std::int64_t step) {
  const double rise = std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(o.warmup + 1));
  const double share = std::min(1.0, static_cast<double>(step) / static_cast<double>(o.steps));
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * share));
  return rise * (o.final_learning_rate + (o.learning_rate - o.final_learning_rate) * fall);
}

void save(const TrainOptions& o, Network& network, const Optimizer& optimizer, const Orbits* orbits,
          const TrainingCurve& curve, std::int64_t step, double seconds) {
  network.weights = optimizer.averaged();
  save_network(network, o.output,
               {{"steps", std::to_string(step)},
                {"seed", std::to_string(o.seed)},
                {"training_seconds", print("%.0f", seconds)},
                {"license", "BSD-3-Clause"}});
  curve.save();
  optimizer.save(o.output + ".state", step, seconds, orbits ? orbits->state() : Optimizer::Tensors{});
}

/// Whether a picture beside the output would be trained on, or validated with, from then on.
bool lies_among_pictures(const TrainOptions& o) {
  namespace fs = std::filesystem;
  std::vector<std::string> folders = o.photographs;
  folders.push_back(o.validate);
  const fs::path own = fs::absolute(o.output).parent_path();
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return fs::exists(folder) && fs::equivalent(folder, own);
  });
}

/// Means over the steps since the last line.
class Recent {
 public:
  explicit Recent(double clock) : clock_(clock) {}
  void add(const TrainRecord& record) {
    ++steps_;
    sum_.loss += record.loss;
    sum_.penalty += record.penalty;
    sum_.norm += record.norm;
    sum_.largest_norm = std::max(sum_.largest_norm, record.largest_norm);
    sum_.step = record.step;
    sum_.learning_rate = record.learning_rate;
  }
  TrainRecord mean() const {
    TrainRecord mean = sum_;
    const auto count = static_cast<double>(std::max<std::int64_t>(1, steps_));
    mean.loss /= count;
    mean.penalty /= count;
    mean.norm /= count;
    return mean;
  }
  double steps_per_second(double clock) const {
    return static_cast<double>(steps_) / std::max(1e-9, clock - clock_);
  }

 private:
  TrainRecord sum_;
  std::int64_t steps_ = 0;
  double clock_;
};

// A training under way, from its files on.
class Training {
 public:
  /// Reads, and says what is wrong; goes on from a state beside the output. Collective.
  Training(const TrainOptions& options, const Communicator& comm);
  /// To the last step or a stop, whose code is returned. Collective.
  int run();

 private:
  void say(const std::string& line) const {
    if (comm_.rank() != 0 || options_.log_every <= 0) return;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  void say_start(std::size_t small) const;
  // One clock, so that all ranks decide alike.
  double clock() const {
    double clock = now();
    comm_.broadcast(&clock, sizeof clock, 0);
    return clock;
  }
  double seconds(double clock) const { return before_ + clock - start_; }
  std::map<double, double> validate();
  TrainRecord take_step(const Batch& batch, training::GradientSums& sums);
  // What is due after a step: a line, a measurement, a file.
  int after_step(TrainRecord& record);
  void keep(double clock);

  const TrainOptions& options_;
  const Communicator& comm_;
  at::Device device_ = at::kCPU;
  std::vector<Picture> pictures_;
  Network network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Orbits> orbits_;
  std::unique_ptr<TrainingCurve> curve_;
  std::int64_t step_ = 0;
  double before_ = 0;  // seconds of earlier calls
  double start_ = 0, saved_ = 0;
  Recent recent_{0};
};

Training::Training(const TrainOptions& options, const Communicator& comm) : options_(options), comm_(comm) {
  std::size_t small = 0;
  comm.together([&] { check(options); });
  device_ = tensor_options(choose_device(comm, options.device, GpuSharing::allowed).device).device();
  use_ieee_products();
  comm.together([&] {
    network_ = begin(options);
    optimizer_ = std::make_unique<Optimizer>(network_.weights, options, device_);
    if (options.jacobian.weight > 0) orbits_ = std::make_unique<Orbits>(options);
    if (std::filesystem::exists(options.output + ".state"))
      std::tie(step_, before_) =
          optimizer_->load(options.output + ".state", orbits_ ? orbits_->state() : Optimizer::Tensors{});
    curve_ = std::make_unique<TrainingCurve>(options.output + ".curve.csv", step_);
    if (!options.photographs.empty()) {
      const Axes axes = network_.graph.axes();
      pictures_ =
          training::read_pictures(options.photographs, options.exclude, options.network.channels, axes);
      const Index3 size = training::crop_size(options);
      small = std::erase_if(pictures_, [&](const Picture& p) { return !p.holds(size); });
      TESSERA_VALIDATE(!pictures_.empty(), "all ", small, " ", words_of(axes), " of ", photographs_key(axes),
                       " are smaller than ", axes == Axes::volume ? concat(size[0], " x ") : "", size[1],
                       " x ", size[2], " (train.crop) name larger ones, or lower train.crop");
    }
    if (!options.validate.empty())  // found wanting now rather than after hours
      training::read_pictures({options.validate}, {}, options.network.channels, network_.graph.axes());
  });
  say_start(small);
}

// `small`: pictures that were left out.
void Training::say_start(std::size_t small) const {
  for (const std::string& doubt : training::doubts_about(pictures_)) say("note: " + doubt);
  const char* words = words_of(network_.graph.axes());
  if (small > 0) say(concat("note: ", small, " ", words, " are smaller than train.crop and left out"));
  std::int64_t count = 0;
  for (const auto& [name, tensor] : network_.weights) count += tensor.numel();
  say(concat(options_.network.name, ": ", count, " weights, ",
             network_.graph.global() ? concat("global") : concat("halo ", network_.halo()[1]), ", ",
             pictures_.size(), " ", words, ", ", comm_.size(),
             device_.is_cuda() ? " ranks with a GPU" : " ranks", ", steps ", step_, " to ", options_.steps));
}

std::map<double, double> Training::validate() {
  std::map<double, double> psnr;
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    network_.weights = optimizer_->averaged();
    std::string text = print("step %6ld  PSNR", static_cast<long>(step_));
    for (const double sigma : options_.validate_sigma) {
      psnr[sigma] = validation_psnr(network_, options_.validate, sigma, options_.seed);
      text += print("  %.2f dB at %.0f/255", psnr[sigma], 255 * sigma);
    }
    say(text);
    if (step_ > 0 && !lies_among_pictures(options_))
      training::write_preview(network_, options_.validate, options_.validate_sigma, options_.seed,
                              options_.output + ".png");
  });
  return psnr;
}

TrainRecord Training::take_step(const Batch& batch, training::GradientSums& sums) {
  std::vector<at::Tensor> gradients;
  TrainRecord record = training::differentiate(options_, network_.graph, batch, *optimizer_, pictures_,
                                               orbits_.get(), step_, sums, gradients, comm_);
  record.learning_rate = learning_rate(options_, step_);
  if (!std::isfinite(record.loss + record.penalty))
    throw RunError(concat("training diverged at step ", step_, " (the loss is ", record.loss + record.penalty,
                          ") lower train.learning_rate"));
  optimizer_->step(gradients, record.learning_rate, step_);
  record.step = ++step_;
  recent_.add(record);
  return record;
}

void Training::keep(double clock) {
  if (orbits_) orbits_->share(comm_);
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    if (options_.may_save) options_.may_save();
    save(options_, network_, *optimizer_, orbits_.get(), *curve_, step_, seconds(clock));
  });
  saved_ = clock;
}

int Training::after_step(TrainRecord& record) {
  const double at = clock();
  const bool time_is_up = options_.seconds > 0 && at - start_ >= options_.seconds;
  const int asked = options_.stop ? options_.stop() : 0;  // who asks has little time: nothing is measured
  const bool ended = step_ == options_.steps;
  const int code = ended ? 0 : asked != 0 ? asked : time_is_up ? kTimeIsUp : 0;
  const bool last = code != 0 || ended;
  const bool spoken = options_.log_every > 0 && (step_ % options_.log_every == 0 || last);
  const bool measured =
      !options_.validate.empty() && (asked == 0 || ended) && (step_ % options_.validate_every == 0 || last);
  TrainRecord row = recent_.mean();
  if (spoken) {
    const double rate = recent_.steps_per_second(at);
    const std::string norm =
        orbits_ ? print("  norm %.3f (largest %.3f)", row.norm, row.largest_norm) : std::string();
    const Index3 size = training::crop_size(options_);
    say(print("step %6ld  loss %.5f%s  rate %.2e  %.2f steps/s  %.3f M%s/s  %s", static_cast<long>(step_),
              row.loss, norm.c_str(), row.learning_rate, rate,
              rate * static_cast<double>(options_.batch * size[0] * size[1] * size[2]) / 1e6,
              size[0] > 1 ? "voxels" : "px", format_seconds(seconds(at)).c_str()));
  }
  if (measured) row.psnr = record.psnr = validate();
  if (spoken || measured || last) {
    curve_->add({row, seconds(at)});
    recent_ = Recent(measured ? now() : at);
  }
  if (last || at - saved_ >= options_.checkpoint_seconds) keep(at);
  if (code != 0)
    say(concat(asked != 0 ? "stopped by a signal" : "the time is up", " after step ", step_,
               ": the state is in ", options_.output, ".state, and the same command goes on"));
  return code;
}

int Training::run() {
  start_ = saved_ = clock();
  recent_ = Recent(start_);
  if (step_ >= options_.steps && !options_.validate.empty()) {  // nothing to learn: only measured
    TrainRecord record;
    record.step = step_;
    record.psnr = validate();
    if (options_.observe) options_.observe(record);
  }
  Loader loader(
      [this](std::int64_t of) {
        const Batch batch = training::make_batch(options_, pictures_, of, comm_.rank(), comm_.size());
        return device_.is_cuda() ? training::pinned(batch, device_) : batch;
      },
      step_, options_.steps, options_.workers, options_.prefetch);
  training::GradientSums sums(optimizer_->parameters(),
                              training::order_of(network_.graph, optimizer_->parameters()), comm_);
  int code = 0;
  if (step_ < options_.steps && options_.stop && (code = options_.stop()) != 0)
    say("stopped by a signal before the first step: nothing to save");
  while (step_ < options_.steps && code == 0) {
    beat();
    TrainRecord record = take_step(training::moved(loader.next(), device_), sums);
    code = after_step(record);
    if (options_.observe) options_.observe(record);
  }
  return code;
}

}  // namespace

int train(const TrainOptions& options, const Communicator& comm) { return Training(options, comm).run(); }

}  // namespace tessera
