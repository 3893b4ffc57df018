// SPDX-License-Identifier: BSD-3-Clause
#include "loader.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include <utility>

#include "tessera/core/error.hpp"
#include "volume_scenes.hpp"

namespace tessera::training {

Index3 crop_size(const TrainOptions& o) {
  return {make_graph(o.network).axes() == Axes::volume ? o.crop : 1, o.crop, o.crop};
}

std::vector<std::int64_t> crops_shape(const TrainOptions& o, std::int64_t items, std::int64_t channels) {
  if (crop_size(o)[0] > 1) return {items, channels, o.crop, o.crop, o.crop};
  return {items, channels, o.crop, o.crop};
}

void clean_crop(const TrainOptions& o, const Index3& size, const std::vector<Picture>& pictures, Draws& draws,
                float* out) {
  const bool drawn = draws.uniform() < o.dead_leaves;
  const bool shrink = draws.uniform() < o.shrink;
  if (drawn && size[0] > 1)
    drawn_volume(o.network.channels, o.crop, draws, out);
  else if (drawn)
    dead_leaves(o.network.channels, o.crop, draws, out);
  else
    photograph_crop(pictures[draws.below(static_cast<std::int64_t>(pictures.size()))], shrink, size, draws,
                    out);
}

Batch make_batch(const TrainOptions& o, const std::vector<Picture>& pictures, std::int64_t step, int rank,
                 int ranks) {
  const at::NoGradGuard off;  // every thread begins with gradients
  const Index3 size = crop_size(o);
  const std::int64_t mine = (o.batch - rank + ranks - 1) / ranks;
  Batch batch{
      at::empty(crops_shape(o, mine, o.network.channels), at::kFloat), {}, at::empty({mine}, at::kFloat)};
  const std::int64_t values = o.network.channels * size[0] * size[1] * size[2];
  batch.noisy = at::empty_like(batch.clean);
  for (std::int64_t k = 0; k < mine; ++k) {
    Draws draws(o.seed, step, k * ranks + rank);
    float* clean = batch.clean.data_ptr<float>() + k * values;
    const double sigma = o.sigma.first + draws.uniform() * (o.sigma.second - o.sigma.first);
    const std::uint64_t noise_seed = static_cast<std::uint64_t>(draws.uniform() * 9007199254740992.0);
    clean_crop(o, size, pictures, draws, clean);
    batch.sigma.data_ptr<float>()[k] = static_cast<float>(sigma);
    const at::Tensor item = batch.noisy.select(0, k);
    item.normal_(0, 1, at::detail::createCPUGenerator(noise_seed));
    // A loop, and not torch's operators: those of large crops would start OpenMP's threads in each worker.
    float* noisy = item.data_ptr<float>();
    for (std::int64_t i = 0; i < values; ++i) noisy[i] = noisy[i] * static_cast<float>(sigma) + clean[i];
  }
  return batch;
}

Batch pinned(const Batch& batch, at::Device device) {
  const c10::DeviceGuard guard(device);  // a new thread's is the first one of the host
  return {batch.clean.pin_memory(), batch.noisy.pin_memory(), batch.sigma.pin_memory()};
}

Batch moved(const Batch& batch, at::Device device) {
  const auto move = [&](const at::Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); };
  return {move(batch.clean), move(batch.noisy), move(batch.sigma)};
}

Loader::Loader(Make make, std::int64_t begin, std::int64_t end, std::int64_t workers, std::int64_t prefetch)
    : make_(std::move(make)), next_(begin), claimed_(begin), end_(end), ahead_(workers * prefetch) {
  for (std::int64_t i = 0; i < workers; ++i)
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto free = [&] { return claimed_ < end_ && claimed_ < next_ + ahead_; };
  while (changed_.wait(lock, stop, free) && !stop.stop_requested()) {
    const std::int64_t step = claimed_++;
    lock.unlock();
    Made made;
    try {
      made.batch = make_(step);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    made_.emplace(step, std::move(made));
    changed_.notify_all();
  }
}

Batch Loader::next() {
  TESSERA_EXPECT(next_ < end_, "a batch of step ", next_, " (the last one was taken) stop at ", end_);
  if (ahead_ == 0) return make_(next_++);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return made_.contains(next_); });
  Made made = std::move(made_.extract(next_++).mapped());
  changed_.notify_all();
  if (made.error) std::rethrow_exception(made.error);
  return std::move(made.batch);
}

}  // namespace tessera::training
