// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "tv/total_variation_step.hpp"

namespace tessera {
namespace {

// |D x| of a picture, summed row by row: the number of threads does not change the sum.
template <class T>
double of_rows(const T* x, std::int64_t height, std::int64_t width, const Index3& lo, const Index3& hi) {
  std::vector<double> sums(static_cast<std::size_t>(hi[1] - lo[1]));
  at::parallel_for(lo[1], hi[1], 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> length(static_cast<std::size_t>(width));
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = x + r * width;
      const T* next = r + 1 < height ? row + width : row;  // no difference behind the last row
      const std::int64_t last = std::min(hi[2], width - 1);
      T* out = length.data();
      for (std::int64_t j = lo[2]; j < last; ++j) {
        const T down = next[j] - row[j], right = row[j + 1] - row[j];
        out[j] = std::sqrt(down * down + right * right);
      }
      if (hi[2] == width) out[width - 1] = std::abs(next[width - 1] - row[width - 1]);
      std::array<double, 8> lanes{};  // one sum alone waits for every addition
      std::int64_t j = lo[2];
      for (; j + 8 <= hi[2]; j += 8)
        for (std::int64_t k = 0; k < 8; ++k) lanes[static_cast<std::size_t>(k)] += double(out[j + k]);
      for (; j < hi[2]; ++j) lanes[0] += double(out[j]);
      sums[static_cast<std::size_t>(r - lo[1])] = std::accumulate(lanes.begin(), lanes.end(), 0.0);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// By tensor operators: volumes, and pictures on a device.
at::Tensor by_operators(const at::Tensor& x, const Box& part) {
  const auto cut = [&](const Index3& lo, const Index3& hi) {
    at::Tensor out = x;
    for (std::int64_t d = 1; d < x.dim(); ++d) {
      const auto axis = static_cast<std::size_t>(3 - x.dim() + d);
      out = out.narrow(d, lo[axis], hi[axis] - lo[axis]);
    }
    return out;
  };
  const at::Tensor here = cut(part.lo(), part.hi());
  at::Tensor squares = at::zeros_like(here);
  for (std::int64_t d = 1; d < x.dim(); ++d) {
    const auto axis = static_cast<std::size_t>(3 - x.dim() + d);
    Index3 lo = part.lo(), hi = part.hi();
    hi[axis] = std::min(hi[axis], x.size(d) - 1);  // differences that exist
    if (hi[axis] <= lo[axis]) continue;
    const at::Tensor from = cut(lo, hi);
    ++lo[axis], ++hi[axis];
    const at::Tensor along = cut(lo, hi).sub(from);
    squares.narrow(d, 0, along.size(d)).addcmul_(along, along);
  }
  return squares.sqrt_().sum(at::kDouble);
}

}  // namespace

at::Tensor tv_value(const at::Tensor& x, const Box& part) {
  if (part.empty()) return at::zeros({}, x.options().dtype(at::kDouble));
  if (!x.is_cpu() || x.dim() != 3) return by_operators(x, part);
  double sum = 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tv_value", [&] {
    const auto* data = x.const_data_ptr<scalar_t>();
    for (std::int64_t c = 0; c < x.size(0); ++c)
      sum += of_rows(data + c * x.size(1) * x.size(2), x.size(1), x.size(2), part.lo(), part.hi());
  });
  return at::zeros({}, x.options().dtype(at::kDouble)).fill_(sum);
}

}  // namespace tessera
