// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "scenes.hpp"
#include "tessera/train/train.hpp"

namespace tessera::training {

/// A crop's points: a square of `crop` pixels, or a cube for a network of volumes.
Index3 crop_size(const TrainOptions& options);
/// `items` of such crops: (N, C, crop, crop), or (N, C, crop, crop, crop).
std::vector<std::int64_t> crops_shape(const TrainOptions& options, std::int64_t items, std::int64_t channels);

/// A clean crop for training: a drawn scene or a photograph's crop, by the shares that the options give.
/// `size`: crop_size(); out: so many values of each channel in [0, 1], planar.
void clean_crop(const TrainOptions& options, const Index3& size, const std::vector<Picture>& pictures,
                Draws& draws, float* out);

/// In which features of such images are computed.
inline at::MemoryFormat channels_last(const at::Tensor& x) {
  return x.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

/// Crops of one step: clean and noisy (crops_shape()), sigma (N); float32.
struct Batch {
  at::Tensor clean, noisy, sigma;
};

/// The crops of this step that `rank` of `ranks` computes: item i belongs to rank i mod ranks. A function of
/// (seed, step, item) alone. Any thread; starts none.
Batch make_batch(const TrainOptions& options, const std::vector<Picture>& pictures, std::int64_t step,
                 int rank, int ranks);

/// The same in memory that `device`, a GPU, reads by itself. Any thread.
Batch pinned(const Batch& batch, at::Device device);
/// The same on `device`; a pinned batch is copied while this thread goes on.
Batch moved(const Batch& batch, at::Device device);

/// Batches of the steps [begin, end), in their order. Worker threads make them ahead, each step's by whoever
/// is free: what a batch holds is a matter of `make` and its step, so results know nothing of the workers.
/// One thread takes.
class Loader {
 public:
  using Make = std::function<Batch(std::int64_t step)>;
  /// At most workers * prefetch batches are made or in the making ahead of the one that is taken next. Without
  /// workers next() makes them. With workers `make` is called in several threads at once.
  Loader(Make make, std::int64_t begin, std::int64_t end, std::int64_t workers, std::int64_t prefetch);

  /// The next step's batch; waits for it. Throws what making it threw.
  Batch next();

 private:
  struct Made {
    Batch batch{};
    std::exception_ptr error{};
  };
  void work(const std::stop_token& stop);

  Make make_;
  std::int64_t next_, claimed_, end_;  // steps: taken next, begun by a worker next, and the end
  std::int64_t ahead_;                 // of claimed_ before next_, at most
  std::mutex mutex_;                   // of the steps above and what is made
  std::condition_variable_any changed_;
  std::map<std::int64_t, Made> made_;  // by step
  std::vector<std::jthread> workers_;  // last: they are asked to stop, and waited for, before all else goes
};

}  // namespace tessera::training
