// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tessera {

enum class Filter { as_is, conjugate };
enum class Into { replace, add };

/// out[c] = x[c] k[c], or out[c] += it, for n complex numbers, real and imaginary parts in turn; with the
/// conjugate of k for an adjoint. For the instruction set of this CPU, chosen when the program starts. The bits
/// depend on a number's place in the row and on nothing else.
void spectrum_product(const float* x, const float* k, float* out, std::int64_t n, Filter filter, Into into);
void spectrum_product(const double* x, const double* k, double* out, std::int64_t n, Filter filter,
                      Into into);

}  // namespace tessera
