// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <string>

#include "support/groups.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera::test {

/// What is the same on every rank of the launch and takes long, a whole image's result above all: made by the first
/// one, for seven would share few cores, and sent to the others. A CPU tensor. Collective over the launch.
template <class Make>
at::Tensor once(Make make) {
  const Communicator world = Communicator::world();
  at::Tensor made;
  std::string failure;
  std::array<std::int64_t, 8> form{};  // type, dimensions, sizes
  if (world.rank() == 0) try {
      made = make().contiguous();
      form[0] = static_cast<std::int64_t>(made.scalar_type());
      form[1] = made.dim();
      for (std::int64_t d = 0; d < made.dim(); ++d) form.at(static_cast<std::size_t>(2 + d)) = made.size(d);
    } catch (const std::exception& e) {
      failure = e.what();
    }
  meet(world);  // asleep, which a broadcast's wait is not
  failure = world.broadcast(failure, 0);
  if (!failure.empty()) throw std::runtime_error("the first rank: " + failure);
  world.broadcast(form.data(), sizeof form, 0);
  if (world.rank() != 0)
    made = at::empty(at::IntArrayRef(form.data() + 2, static_cast<std::size_t>(form[1])),
                     static_cast<at::ScalarType>(form[0]));
  world.broadcast(made.mutable_data_ptr(), static_cast<std::int64_t>(made.nbytes()), 0);
  return made;
}

}  // namespace tessera::test
