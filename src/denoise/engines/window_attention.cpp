// SPDX-License-Identifier: BSD-3-Clause
#include "engines/window_attention.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/attention.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

// Elements of the windows computed at once: what a core's cache holds, or what fills a device.
constexpr std::int64_t kOnHost = std::int64_t{1} << 18, kOnDevice = std::int64_t{1} << 25;

/// Per window: queries and results, keys, values, scores, their largest and sum.
std::int64_t elements(const Node& node, std::int64_t queries, std::int64_t keys) {
  return (queries + 2 * keys) * node.channels + node.heads * queries * (keys + 1);
}

}  // namespace

struct WindowAttention::Span {
  std::int64_t x = 0, y = 0;            // first key in x, first query in y
  std::int64_t count = 0;               // windows
  std::int64_t key = 0, keys = 0;       // first pixel of the window that is there, and how many are
  std::int64_t query = 0, queries = 0;  // the same of the wanted ones

  /// Along one axis, as part() says.
  static std::vector<Span> cut(const Node& node, const Box& have, const Box& wanted, const Box& image,
                               std::size_t axis) {
    std::vector<Span> spans;
    const std::int64_t w = node.window, lo = wanted.lo()[axis], hi = wanted.hi()[axis];
    const Box there = have.intersect(image);
    const std::int64_t first = there.lo()[axis], last = there.hi()[axis];
    for (std::int64_t at = (lo + node.shift) / w * w - node.shift; at < hi; at += w) {
      Span s{.count = 1};
      const std::int64_t from = std::max(at, first), begin = std::max(at, lo);
      s.x = from - have.lo()[axis];
      s.y = begin - lo;
      s.key = from - at;
      s.keys = std::min(at + w, last) - from;
      s.query = begin - at;
      s.queries = std::min(at + w, hi) - begin;
      TESSERA_EXPECT(
          (at >= first || first == image.lo()[axis]) && (at + w <= last || last == image.hi()[axis]),
          "a window from ", at, " of which the pixels from ", first, " to ", last,
          " are there (it does not end with the image) bring its neighbors' pixels along");
      const bool whole = s.keys == w && s.queries == w;
      if (whole && !spans.empty() && spans.back().keys == w && spans.back().queries == w)
        ++spans.back().count;
      else
        spans.push_back(s);
    }
    return spans;
  }
};

WindowAttention::WindowAttention(const Node& node, const at::Tensor& positions)
    : node_(node),
      bias_(position_bias(node, positions)
                .view({node.heads, node.window, node.window, node.window, node.window})) {}

std::int64_t WindowAttention::scratch_elements(const Node& node, std::int64_t rows, std::int64_t columns,
                                               bool on_device) {
  const auto windows = [&](std::int64_t side) { return (side + node.shift + node.window - 1) / node.window; };
  const std::int64_t pixels = std::int64_t{node.window} * node.window;
  const std::int64_t row = windows(columns) * elements(node, pixels, pixels);
  const std::int64_t most = (on_device ? kOnDevice : kOnHost) / std::max<std::int64_t>(row, 1);
  return std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(windows(rows), 1)) * row;
}

at::Tensor WindowAttention::scratch(std::int64_t rows, std::int64_t columns,
                                    const at::TensorOptions& options) const {
  return at::empty({scratch_elements(node_, rows, columns, options.device().is_cuda())}, options);
}

at::Tensor WindowAttention::apply(const at::Tensor& x) const {
  const at::Tensor y = at::empty({x.size(0), node_.channels, x.size(2), x.size(3)},
                                 x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const Box image = Box::image2d(x.size(2), x.size(3));
  part(x, image, image, image, y, scratch(x.size(2), x.size(3), x.options()));
  return y;
}

void WindowAttention::part(const at::Tensor& x, const Box& have, const Box& wanted, const Box& image,
                           const at::Tensor& y, const at::Tensor& scratch) const {
  if (wanted.empty()) return;
  const std::vector<Span> across = Span::cut(node_, have, wanted, image, 2);
  for (std::int64_t item = 0; item < x.size(0); ++item)
    for (const Span& rows : Span::cut(node_, have, wanted, image, 1))
      for (const Span& columns : across) zone(x.select(0, item), rows, columns, y.select(0, item), scratch);
}

void WindowAttention::zone(const at::Tensor& x, const Span& rows, const Span& columns, const at::Tensor& y,
                           const at::Tensor& scratch) const {
  const std::int64_t heads = node_.heads, d = node_.channels / heads, nx = columns.count;
  const std::int64_t keys = rows.keys * columns.keys, queries = rows.queries * columns.queries;
  const std::int64_t row = nx * elements(node_, queries, keys);
  const std::int64_t most = std::clamp<std::int64_t>(scratch.numel() / row, 1, rows.count);
  const at::Tensor bias =  // (heads, rows and columns of queries, of keys)
      bias_.narrow(1, rows.query, rows.queries)
          .narrow(2, columns.query, columns.queries)
          .narrow(3, rows.key, rows.keys)
          .narrow(4, columns.key, columns.keys);
  for (std::int64_t first = 0; first < rows.count; first += most) {
    const std::int64_t ny = std::min(most, rows.count - first), windows = ny * nx;
    std::int64_t at = 0;
    const auto piece = [&](at::IntArrayRef sizes) {
      std::int64_t n = 1;
      for (const std::int64_t s : sizes) n *= s;
      at += n;
      return scratch.narrow(0, at - n, n).view(sizes);
    };
    // (3, heads, d, ny, rows, nx, columns) of x -> (ny, nx, heads, rows, columns, d)
    const at::Tensor in = x.narrow(1, rows.x + first * rows.keys, ny * rows.keys)
                              .narrow(2, columns.x, nx * columns.keys)
                              .view({3, heads, d, ny, rows.keys, nx, columns.keys});
    const auto gather = [&](const at::Tensor& from) {
      const at::Tensor pixels = from.permute({2, 4, 0, 3, 5, 1});
      return piece(pixels.sizes()).copy_(pixels).view({windows * heads, -1, d});
    };
    const at::Tensor q = gather(in[0]
                                    .narrow(3, rows.query - rows.key, rows.queries)
                                    .narrow(5, columns.query - columns.key, columns.queries));
    const at::Tensor k = gather(in[1]), v = gather(in[2]);
    const at::Tensor scores = piece({windows * heads, queries, keys});
    scores.view({windows, heads, rows.queries, columns.queries, rows.keys, columns.keys}).copy_(bias);
    scores.baddbmm_(q, k.transpose(1, 2), /*beta=*/1, /*alpha=*/1 / std::sqrt(static_cast<double>(d)));
    at::Tensor per_query = piece({windows * heads, queries, 1});
    at::amax_out(per_query, scores, {2}, /*keepdim=*/true);
    scores.sub_(per_query).exp_();
    at::sum_out(per_query, scores, {2}, /*keepdim=*/true);
    at::Tensor result = q;  // the queries are done with
    at::bmm_out(result, scores, v);
    result.div_(per_query);
    y.narrow(1, rows.y + first * rows.queries, ny * rows.queries)
        .narrow(2, columns.y, nx * columns.queries)
        .view({heads, d, ny, rows.queries, nx, columns.queries})
        .copy_(result.view({ny, nx, heads, rows.queries, columns.queries, d}).permute({2, 5, 0, 3, 1, 4}));
  }
}

}  // namespace tessera
