// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tessera/domain/space.hpp"
#include "tessera/domain/state.hpp"

namespace tessera {

/// A number of every iteration that a solver decides by, two iterations later: by then it has arrived without
/// anybody waiting. The same with rests and after a restart, where the numbers under way are all known.
class Lagged {
 public:
  /// This iteration's.
  void push(Deferred number) {
    numbers_[0] = std::exchange(numbers_[1], std::move(number));
    known_[0] = std::exchange(known_[1], 0.0);
  }
  /// In iteration k, before its push: the number of iteration k - 2; 0 where there is none.
  double earlier() const { return numbers_[0].ready() ? numbers_[0].value() : known_[0]; }
  /// What was pushed decides nothing any more.
  void forget() {
    numbers_ = {};
    known_ = {};
  }

  /// When every number has arrived, before state() is written.
  void at_rest() {
    for (std::size_t i = 0; i < 2; ++i)
      if (numbers_[i].ready()) known_[i] = numbers_[i].value();
  }
  std::vector<StateField> state(const std::string& name) {
    return {{.name = name + "_before", .scalar = &known_[0]}, {.name = name, .scalar = &known_[1]}};
  }

 private:
  std::array<Deferred, 2> numbers_;
  std::array<double, 2> known_{};
};

}  // namespace tessera
