// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "exchange_programs.hpp"

namespace tessera::test {

/// Calls run(program, to, from) for all that a plan of one rank moves: its local pieces there and back, and the
/// same as messages to itself, in both packings. `x` is laid out as xs, `y` as ys; `packed` holds a message.
template <class X, class Y, class Packed, class Run>
void run_programs(const ExchangePlan& plan, const pack::Shape& xs, const pack::Shape& ys,
                  std::int64_t channels, X& x, Y& y, Packed& packed, Run run) {
  run(pack::forward_steps(plan, xs, {ys}, channels, false, Packing::planes).local, y, x);
  run(pack::transposed_steps(plan, {ys}, xs, channels, false, Packing::planes).local, x, y);
  const ExchangePlan self = plan.through_self(0);
  for (const Packing packing : {Packing::planes, Packing::pixels}) {
    const pack::Steps forward = pack::forward_steps(self, xs, {ys}, channels, false, packing);
    run(forward.pack, packed, x);
    run(forward.unpack, y, packed);
    const pack::Steps back = pack::transposed_steps(self, {ys}, xs, channels, false, packing);
    run(back.pack, packed, y);
    run(back.unpack, x, packed);
  }
}

}  // namespace tessera::test
