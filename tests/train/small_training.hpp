// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/train/train.hpp"

namespace tessera::test {

/// A folder that is empty at first and gone at the end. It holds files only: remove_all() cannot be used, the
/// torch wheel exports one of its own that crashes.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(std::filesystem::current_path() / ("train_" + name)) {
    std::filesystem::create_directories(path_);
    clear();
  }
  ~Folder() {
    clear();
    std::filesystem::remove(path_);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  void clear() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) files.push_back(entry.path());
    for (const std::filesystem::path& file : files) std::filesystem::remove(file);
  }

  std::filesystem::path path_;
};

/// Seconds of training: a narrow network on drawn scenes.
inline TrainOptions small(const std::string& output) {
  TrainOptions options;
  options.network = {.name = "drunet", .channels = 1, .widths = {4, 6}, .blocks = 1};
  options.output = output;
  options.device = "cpu";  // what is compared to the last bit
  options.dead_leaves = 1;
  options.crop = 16;
  options.batch = 8;
  options.steps = 60;
  options.warmup = 5;
  options.learning_rate = 5e-3;
  options.ema = 0.9;
  options.log_every = 0;
  options.sigma = {0.1, 0.2};
  return options;
}

/// The same for volumes.
inline TrainOptions small_volumes(const std::string& output) {
  TrainOptions options = small(output);
  options.network.name = "drunet3d";
  options.crop = 8;
  return options;
}

inline double largest_difference(const Network& a, const Network& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a.weights)
    largest = std::max(largest, tensor.sub(b.weights.at(name)).abs().max().item<double>());
  return largest;
}

}  // namespace tessera::test
