// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/options.hpp"

namespace tessera {

// What a job may name, as the parser needs it. The rows stand with what they name (solvers/table.cpp,
// src/denoise/table.cpp, src/app/job/operators.cpp); nothing else in the program compares names.

/// A combination of an operator's options that cannot be; `message` follows the key.
struct OptionFault {
  std::string key, message;
};

struct OperatorChoice {
  std::string name;
  std::vector<Option> options{};
  bool kernel = false;     // blurs: has the keys kernel and boundary
  bool pointwise = false;  // A^T A is a product at each pixel: proximal points are in closed form
  bool same_grid =
      false;  // its samples are pixels of an image of the unknown's size (but for boundary valid)
  std::function<std::optional<OptionFault>(const Options&)> check{};  // null: nothing to check
};

struct SolverChoice {
  std::string name;
  std::vector<Option> options{};
  bool penalty = false;   // its step is the penalty of a proximal step; else the length of a gradient step
  bool proximal = false;  // it takes proximal points of the data term
  bool weighs = false;    // lambda acts without a noise level for the denoiser too
  bool bare = false;      // of data alone: no step, no denoiser
  bool counts = false;    // and these are counts: a Poisson likelihood
  bool once = false;      // one pass: nothing to start from, nothing to stop
};

struct DenoiserChoice {
  std::string name;
  std::vector<Option> options{};  // of a network: its shape, for random weights
  bool network = false;
  bool takes_sigma = false;
  bool shipped = false;  // of a network: weights come with the program
};

struct Choices {
  std::vector<OperatorChoice> operators;
  std::vector<SolverChoice> solvers;
  std::vector<DenoiserChoice> denoisers;
};

/// To be said once, before the first job is parsed. Not collective.
void set_choices(Choices choices);
const Choices& choices();

}  // namespace tessera
