// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// Taps of a kernel that stand on one grid: where each one reads, relative to the output, and its weight.
template <class T>
struct Taps {
  std::vector<std::int64_t> offset;
  std::vector<T> weight;
};

/// out[c] = sum over taps k of weight[k] in[offset[k] + c], c < n. Columns are held in registers while the
/// taps go by; every column adds its taps in their order, so that its bits depend on nothing else. For the
/// instruction set of this CPU, chosen when the program starts.
void tap_sum(const float* in, const Taps<float>& taps, float* out, std::int64_t n);
void tap_sum(const double* in, const Taps<double>& taps, double* out, std::int64_t n);

}  // namespace tessera
