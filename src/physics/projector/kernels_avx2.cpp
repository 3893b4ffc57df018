// SPDX-License-Identifier: BSD-3-Clause
// Compiled for AVX2 and FMA, see CMakeLists.txt; called on CPUs that have it.
#include "kernels.hpp"
#ifdef __AVX2__
#include <immintrin.h>

namespace tessera {
namespace {
constexpr int kLanes = 8;
using Vec = __m256;
using Cells = __m256i;  // of which the lowest four bits count
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline Vec all(float x) { return _mm256_set1_ps(x); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
inline Vec positive(Vec a) { return _mm256_max_ps(a, _mm256_setzero_ps()); }
inline Vec distance(Vec a, Vec b) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), _mm256_sub_ps(a, b)); }
// x - floor(x), and floor(x).
inline Vec part_of(Vec x) { return _mm256_sub_ps(x, _mm256_floor_ps(x)); }
inline Cells cell_of(Vec x) { return _mm256_cvttps_epi32(_mm256_floor_ps(x)); }
inline Cells next(Cells c) { return _mm256_add_epi32(c, _mm256_set1_epi32(1)); }
// Of the 16 floats a, b those at these cells.
inline Vec pick(Vec a, Vec b, Cells c) {
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(a, c), _mm256_permutevar8x32_ps(b, c),
                          _mm256_castsi256_ps(_mm256_slli_epi32(c, 28)));
}
inline Vec reciprocal(Vec x) {
  const Vec r = _mm256_rcp_ps(x);
  return _mm256_mul_ps(r, _mm256_fnmadd_ps(x, r, _mm256_set1_ps(2.0F)));
}
}  // namespace
}  // namespace tessera
#include "cone_kernels.hpp"
#include "slice_kernels.hpp"
#include "stack_kernels.hpp"

namespace tessera {
const ProjectorKernelTable& projector_kernels_avx2() {
  static const ProjectorKernelTable table{kStackSlices,       slice_project, slice_gather,
                                          slice_gather_lines, stack_project, stack_weigh,
                                          stack_gather,       cone_project,  cone_gather};
  return table;
}
}  // namespace tessera
#else
namespace tessera {
const ProjectorKernelTable& projector_kernels_avx2() {
  static const ProjectorKernelTable none{};
  return none;
}
}  // namespace tessera
#endif
