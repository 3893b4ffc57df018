// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/choices.hpp"

#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

Choices& stored() {
  static Choices all;
  return all;
}

}  // namespace

void set_choices(Choices choices) { stored() = std::move(choices); }

const Choices& choices() {
  TESSERA_EXPECT(!stored().solvers.empty(), "no solver is known (set_choices() comes before the first job)");
  return stored();
}

}  // namespace tessera
