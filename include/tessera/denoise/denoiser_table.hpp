// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/options.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

/// Shapes of a weights file by name.
using WeightShapes = std::map<std::string, std::vector<std::int64_t>>;

/// A denoiser of the job file, denoiser.network: all that is known of it. A network has `graph`, anything
/// else `make`.
struct DenoiserRow {
  std::string name;
  bool takes_sigma = true;
  std::vector<Option>
      options{};  // keys denoiser.NAME of its own; of a network: its shape, for random weights

  // Networks.
  std::function<Graph(const NetworkOptions&)> graph{};
  /// Sets the options that the shapes of its weights tell, and leaves the others as they are.
  std::function<void(const WeightShapes&, NetworkOptions&)> infer{};
  /// Options that its weights files name: widths and channels always, of the others those listed here.
  std::vector<std::string> saved{};
  NetworkOptions published{};  // blocks, depth and the like where nothing says so
  bool potential = false;      // it knows one, NetworkOptions::potential
  /// The weights that come with the program, by name, for an image of so many channels; NAME_stable come as well.
  /// None: no weights do.
  std::function<std::string(std::int64_t channels)> shipped{};

  // Others.
  std::function<std::unique_ptr<Denoiser>(const DenoiserContext&, const Options&, at::TensorOptions)> make{};
  bool steady = true;  // each call takes as long as any other; no: it iterates until it is done
  int images = 0, images_of_volume = 0;  // that it keeps beside its input and output
  bool learned =
      false;  // a denoiser of Gaussian noise as networks are: what was measured with those holds for it

  bool network() const { return graph != nullptr; }
  bool like_network() const { return network() || learned; }
};

/// src/denoise/table.cpp: every denoiser that a job may name. A program may add rows before it parses its
/// first job.
std::vector<DenoiserRow>& denoiser_table();
/// InputError with the nearest known name.
const DenoiserRow& find_denoiser(const std::string& name);

/// Keys of networks: denoiser.widths, denoiser.blocks, denoiser.depth.
Option widths_option();
Option blocks_option();
Option depth_option();
/// A network as published. InputError for an unknown name.
NetworkOptions published_network(const std::string& name);
/// A network of the job file with random weights.
NetworkOptions network_options(const DenoiserRow& row, std::int64_t channels, const Options& options);

}  // namespace tessera
