// SPDX-License-Identifier: BSD-3-Clause
// Compiled for AVX-512, see CMakeLists.txt; called on CPUs that have it.
#include "kernels.hpp"
#ifdef __AVX512F__
#include <immintrin.h>

namespace tessera {
namespace {
constexpr int kLanes = 16;
using Vec = __m512;
using Cells = __m512i;  // of which the lowest five bits count
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline Vec all(float x) { return _mm512_set1_ps(x); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
inline Vec positive(Vec a) { return _mm512_max_ps(a, _mm512_setzero_ps()); }
inline Vec distance(Vec a, Vec b) { return _mm512_abs_ps(_mm512_sub_ps(a, b)); }
// x - floor(x), and floor(x).
inline Vec part_of(Vec x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF); }
inline Cells cell_of(Vec x) {
  return _mm512_castps_si512(
      _mm512_add_round_ps(x, _mm512_set1_ps(12582912.0F), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
}
inline Cells next(Cells c) { return _mm512_add_epi32(c, _mm512_set1_epi32(1)); }
// Of the 32 floats a, b those at these cells.
inline Vec pick(Vec a, Vec b, Cells c) { return _mm512_permutex2var_ps(a, c, b); }
inline Vec reciprocal(Vec x) {
  const Vec r = _mm512_rcp14_ps(x);
  return _mm512_mul_ps(r, _mm512_fnmadd_ps(x, r, _mm512_set1_ps(2.0F)));
}
}  // namespace
}  // namespace tessera
#include "cone_kernels.hpp"
#include "slice_kernels.hpp"
#include "stack_kernels.hpp"

namespace tessera {
const ProjectorKernelTable& projector_kernels_avx512() {
  static const ProjectorKernelTable table{kStackSlices,       slice_project, slice_gather,
                                          slice_gather_lines, stack_project, stack_weigh,
                                          stack_gather,       cone_project,  cone_gather};
  return table;
}
}  // namespace tessera
#else
namespace tessera {
const ProjectorKernelTable& projector_kernels_avx512() {
  static const ProjectorKernelTable none{};
  return none;
}
}  // namespace tessera
#endif
