// SPDX-License-Identifier: BSD-3-Clause
#include "tv/total_variation_step.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tessera {
namespace {

// Pixels from which on a second thread saves more than it costs to wake it: 128 x 128 on two threads take
// 0.66 of one's time where threads wait awake and 1.6 times it where they sleep, 64 x 64 four times.
constexpr std::int64_t kWorthAThread = 1 << 13;

at::Tensor part_of(const at::Tensor& t, std::int64_t row_lo, std::int64_t row_hi, std::int64_t column_lo,
                   std::int64_t column_hi) {
  return t.narrow(-2, row_lo, row_hi - row_lo).narrow(-1, column_lo, column_hi - column_lo);
}

// v - strength D^T (rows, columns) on a part.
at::Tensor primal(const at::Tensor& rows, const at::Tensor& columns, const at::Tensor& image, double strength,
                  const TvPart& a) {
  const auto cut = [&](const at::Tensor& t) {
    return part_of(t, a.row_lo, a.row_hi, a.column_lo, a.column_hi);
  };
  at::Tensor x = cut(rows).add(cut(columns)).mul_(strength).add_(cut(image));
  const std::int64_t top = a.row_lo == 0, left = a.column_lo == 0;  // nothing lies before the first pixel
  x.narrow(-2, top, x.size(-2) - top)
      .sub_(part_of(rows, a.row_lo + top - 1, a.row_hi - 1, a.column_lo, a.column_hi), strength);
  x.narrow(-1, left, x.size(-1) - left)
      .sub_(part_of(columns, a.row_lo, a.row_hi, a.column_lo + left - 1, a.column_hi - 1), strength);
  return x;
}

template <class T>
struct Step {
  T* rows;     // q along the rows, one channel
  T* columns;  // q along the columns
  T* p_rows;
  T* p_columns;
  const T* image;
  std::int64_t height, width;
  T strength, rate, momentum;
  TvPart part;

  // x on row r, columns [column_lo, one behind the part).
  void primal_row(std::int64_t r, T* __restrict x) const {
    const T* __restrict q = rows + r * width;
    const T* __restrict above = r > 0 ? q - width : nullptr;
    const T* __restrict c = columns + r * width;
    const T* __restrict v = image + r * width;
    const std::int64_t lo = part.column_lo, hi = std::min(part.column_hi + 1, width);
    for (std::int64_t j = std::max<std::int64_t>(lo, 1); j < hi; ++j)
      x[j] = v[j] + strength * (q[j] + c[j] - c[j - 1]);
    if (lo == 0) x[0] = v[0] + strength * (q[0] + c[0]);
    if (above)
      for (std::int64_t j = lo; j < hi; ++j) x[j] -= strength * above[j];
  }

  // x and next: rows r and r + 1 of the primal image.
  void dual_row(std::int64_t r, const T* __restrict x, const T* __restrict next) const {
    T* __restrict q_row = rows + r * width;
    T* __restrict q_column = columns + r * width;
    T* __restrict p_row = p_rows + r * width;
    T* __restrict p_column = p_columns + r * width;
    const auto pixel = [&](std::int64_t j, T along) {
      const T gr = q_row[j] + rate * (next[j] - x[j]);
      const T gc = q_column[j] + rate * along;
      const T shrink = T(1) / std::sqrt(std::max(T(1), gr * gr + gc * gc));
      const T pr = gr * shrink, pc = gc * shrink;
      q_row[j] = pr + momentum * (pr - p_row[j]);
      q_column[j] = pc + momentum * (pc - p_column[j]);
      p_row[j] = pr;
      p_column[j] = pc;
    };
    const std::int64_t hi = std::min(part.column_hi, width - 1);
    for (std::int64_t j = part.column_lo; j < hi; ++j) pixel(j, x[j + 1] - x[j]);
    if (part.column_hi == width) pixel(width - 1, T(0));
  }

  // Rows [begin, end); `first` is x on row begin, `behind` x on row end where another chunk has it, else
  // null.
  void chunk(std::int64_t begin, std::int64_t end, std::vector<T> first, const T* behind) const {
    std::vector<T> next(static_cast<std::size_t>(width));
    for (std::int64_t r = begin; r < end; ++r) {
      const T* below = next.data();
      if (r + 1 == height) {
        below = first.data();  // no difference behind the last row
      } else if (r + 1 == end && behind) {
        below = behind;
      } else {
        primal_row(r + 1, next.data());  // before row r of q changes
      }
      dual_row(r, first.data(), below);
      first.swap(next);
    }
  }

  void run() const {
    const std::int64_t count = part.row_hi - part.row_lo, pixels = count * (part.column_hi - part.column_lo);
    const std::int64_t chunks =
        std::clamp<std::int64_t>(std::min(count / 16, pixels / kWorthAThread), 1, at::get_num_threads());
    const auto start = [&](std::int64_t k) { return part.row_lo + count * k / chunks; };
    std::vector<std::vector<T>> first(static_cast<std::size_t>(chunks),
                                      std::vector<T>(static_cast<std::size_t>(width)));
    for (std::int64_t k = 0; k < chunks; ++k) primal_row(start(k), first[static_cast<std::size_t>(k)].data());
    at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k)
        chunk(start(k), start(k + 1), first[static_cast<std::size_t>(k)],
              k + 1 < chunks ? first[static_cast<std::size_t>(k + 1)].data() : nullptr);
    });
  }
};

}  // namespace

void tv_step(at::Tensor& state, const at::Tensor& image, double strength, double momentum,
             const TvPart& part) {
  if (part.row_lo >= part.row_hi || part.column_lo >= part.column_hi) return;
  const std::int64_t channels = image.size(0), height = image.size(1), width = image.size(2);
  const std::int64_t plane = height * width;
  AT_DISPATCH_FLOATING_TYPES(image.scalar_type(), "tv_step", [&] {
    auto* s = state.mutable_data_ptr<scalar_t>();
    const auto* v = image.const_data_ptr<scalar_t>();
    for (std::int64_t c = 0; c < channels; ++c)
      Step<scalar_t>{s + c * plane,
                     s + (channels + c) * plane,
                     s + (2 * channels + c) * plane,
                     s + (3 * channels + c) * plane,
                     v + c * plane,
                     height,
                     width,
                     static_cast<scalar_t>(strength),
                     static_cast<scalar_t>(1 / (8 * strength)),
                     static_cast<scalar_t>(momentum),
                     part}
          .run();
  });
}

void tv_step_operators(at::Tensor& state, const at::Tensor& image, double strength, double momentum,
                       const TvPart& a) {
  if (a.row_lo >= a.row_hi || a.column_lo >= a.column_hi) return;
  const std::int64_t channels = image.size(0), height = image.size(1), width = image.size(2);
  const auto field = [&](std::int64_t k) { return state.narrow(0, k * channels, channels); };
  const TvPart wide{a.row_lo, std::min(a.row_hi + 1, height), a.column_lo, std::min(a.column_hi + 1, width)};
  const at::Tensor x = primal(field(0), field(1), image, strength, wide);
  const std::int64_t rows = a.row_hi - a.row_lo, columns = a.column_hi - a.column_lo;
  const at::Tensor here = x.narrow(-2, 0, rows).narrow(-1, 0, columns);
  at::Tensor along_rows = at::zeros_like(here), along_columns = at::zeros_like(here);
  const std::int64_t r = x.size(-2) - 1, c = x.size(-1) - 1;  // differences that exist
  along_rows.narrow(-2, 0, r).copy_(part_of(x, 1, r + 1, 0, columns).sub(part_of(x, 0, r, 0, columns)));
  along_columns.narrow(-1, 0, c).copy_(part_of(x, 0, rows, 1, c + 1).sub(part_of(x, 0, rows, 0, c)));

  const auto cut = [&](std::int64_t k) {
    return part_of(field(k), a.row_lo, a.row_hi, a.column_lo, a.column_hi);
  };
  along_rows.mul_(1 / (8 * strength)).add_(cut(0));
  along_columns.mul_(1 / (8 * strength)).add_(cut(1));
  const at::Tensor length = along_rows.square().addcmul_(along_columns, along_columns).clamp_min_(1).sqrt_();
  along_rows.div_(length);
  along_columns.div_(length);
  cut(0).copy_(along_rows.mul(1 + momentum).sub_(cut(2), momentum));
  cut(1).copy_(along_columns.mul(1 + momentum).sub_(cut(3), momentum));
  cut(2).copy_(along_rows);
  cut(3).copy_(along_columns);
}

at::Tensor tv_primal(const at::Tensor& state, const at::Tensor& image, double strength, const TvPart& part) {
  const std::int64_t channels = image.size(0);
  return primal(state.narrow(0, 2 * channels, channels), state.narrow(0, 3 * channels, channels), image,
                strength, part);
}

}  // namespace tessera
