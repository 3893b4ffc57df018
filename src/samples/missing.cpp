// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/missing.hpp"

#include <ATen/TensorOperators.h>

#include <span>

#include "tessera/core/error.hpp"

namespace tessera {

std::int64_t count_missing(const at::Tensor& values, const Communicator& comm) {
  std::int64_t n = values.isfinite().logical_not_().sum().item().toLong();
  comm.all_reduce(std::span<std::int64_t>(&n, 1), Reduce::sum);
  return n;
}

void refuse_missing(const std::string& path, const at::Tensor& block, const std::string& consequence,
                    const std::string& advice, const Communicator& comm) {
  std::int64_t all = block.numel();
  comm.all_reduce(std::span<std::int64_t>(&all, 1), Reduce::sum);
  const std::int64_t missing = count_missing(block, comm);
  TESSERA_VALIDATE(missing == 0, path, " has ", missing, " of ", all, " values that are not numbers (",
                   consequence, ") ", advice);
}

}  // namespace tessera
