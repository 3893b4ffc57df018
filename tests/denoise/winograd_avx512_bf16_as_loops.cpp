// SPDX-License-Identifier: BSD-3-Clause
// Takes the place of the library's kernels in the programs that are linked with it.
#include "avx512_as_loops.hpp"
#define __AVX512BF16__ 1
#include "winograd/winograd_avx512_bf16.cpp"
