// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/execution.hpp"

namespace tessera {

at::ScalarType scalar_type(Precision precision) {
  return precision == Precision::bfloat16  ? at::kBFloat16
         : precision == Precision::float16 ? at::kHalf
                                           : at::kFloat;
}

ExecutionOptions execution_options(const Execution& e, Device device) {
  ExecutionOptions o;
  o.mode = e.mode;
  o.patch = e.patch.value_or(0);
  o.batch = e.batch.value_or(0);
  o.halo_depth = static_cast<int>(e.halo_depth.value_or(0));
  o.averaging = e.averaging;
  o.planes = e.planes;
  o.turns = e.turns;
  o.type = scalar_type(e.precision);
  o.tf32 = e.precision == Precision::tf32;
  o.device = device;
  return o;
}

}  // namespace tessera
