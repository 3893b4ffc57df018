// SPDX-License-Identifier: BSD-3-Clause
#include "exchange_programs.hpp"

#include <algorithm>
#include <vector>

namespace tessera::pack {
namespace {

/// A piece's source box, row-major, in a packed buffer: channel after channel, or pixel after pixel.
struct Packed {
  Box box;
  std::int64_t offset = 0;
  std::int64_t channel_stride = 0;
  Index3 stride{};

  Packed(const Box& source, std::int64_t at, std::int64_t channels, Packing packing)
      : box(source), offset(at), channel_stride(packing == Packing::planes ? source.pixels() : 1) {
    const std::int64_t pixel = packing == Packing::planes ? 1 : channels;
    stride = {source.extent(1) * source.extent(2) * pixel, source.extent(2) * pixel, pixel};
  }
};

Cell cell_of(std::int64_t offset, std::int64_t channel_stride, const Index3& stride, std::int64_t channels,
             const Index3& extents) {
  return {offset,
          {channel_stride, stride[0], stride[1], stride[2]},
          {channels, extents[0], extents[1], extents[2]},
          0,
          0};
}

Cell cell_of(const Shape& array, const Box& box, std::int64_t channels) {
  return cell_of(array.offset(box.lo()), array.channel_stride, array.stride, channels, box.extents());
}

/// Reads, for each needed pixel of a piece, its image pixel.
Term reading_source(const Piece& piece, std::int64_t offset_of_from, std::int64_t channel_stride,
                    const Index3& stride) {
  Term t;
  t.offset = offset_of_from;
  t.stride[0] = channel_stride;
  for (std::size_t d = 0; d < 3; ++d) t.stride[d + 1] = stride[d] * piece.step[d];
  return t;
}

/// Reads, for each pixel of a piece's source box, the needed pixels that are it.
Term reading_target(const Piece& piece, const std::vector<Shape>& needs) {
  const Shape& need = needs[static_cast<std::size_t>(piece.part)];
  Term t;
  t.offset = need.offset(piece.to.lo());
  t.stride[0] = need.channel_stride;
  for (std::size_t d = 0; d < 3; ++d) {
    if (piece.step[d] == 0) {
      t.repeat[d] = piece.to.extent(d);
      t.repeat_stride[d] = need.stride[d];
    } else {
      t.stride[d + 1] = need.stride[d] * piece.step[d];
      if (piece.step[d] < 0) t.offset += need.stride[d] * (piece.to.extent(d) - 1);
    }
  }
  return t;
}

/// Calls visit(piece, packed) for all pieces of a list of messages, with their places in the packed buffer.
template <class Visit>
void for_each_packed(const std::vector<Message>& messages, std::int64_t channels, Packing packing,
                     Visit visit) {
  std::int64_t at = 0;
  for (const Message& m : messages)
    for (const Piece& piece : m.pieces) {
      const Packed packed(piece.source(), at, channels, packing);
      visit(piece, packed);
      at += packed.box.pixels() * channels;
    }
}

bool is_identity(const Piece& piece) { return piece.from == piece.to.lo() && piece.step == Index3{1, 1, 1}; }

/// A box of own pixels that a term adds to.
struct Target {
  Box box;
  Term term;
};

/// Cuts overlapping targets into disjoint cells whose terms keep the list's order: each own pixel is summed
/// by one thread, in one order.
void overlay(const std::vector<Target>& targets, const std::vector<std::size_t>& active, std::size_t axis,
             Index3 lo, Index3 hi, const Shape& own, std::int64_t channels, Program& out) {
  if (axis == 3) {
    std::vector<Term> terms;
    for (const std::size_t i : active) {
      Term t = targets[i].term;
      for (std::size_t d = 0; d < 3; ++d) t.offset += (lo[d] - targets[i].box.lo()[d]) * t.stride[d + 1];
      terms.push_back(t);
    }
    out.append(cell_of(own, {lo, hi}, channels), terms);
    return;
  }
  std::vector<std::int64_t> cuts;
  for (const std::size_t i : active) {
    cuts.push_back(targets[i].box.lo()[axis]);
    cuts.push_back(targets[i].box.hi()[axis]);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    std::vector<std::size_t> inside;
    for (const std::size_t i : active)
      if (targets[i].box.lo()[axis] <= cuts[k] && cuts[k] < targets[i].box.hi()[axis]) inside.push_back(i);
    if (inside.empty()) continue;
    lo[axis] = cuts[k];
    hi[axis] = cuts[k + 1];
    overlay(targets, inside, axis + 1, lo, hi, own, channels, out);
  }
}

Program accumulate(const std::vector<Target>& targets, const Shape& own, std::int64_t channels) {
  Program out;
  out.mode = Mode::add;
  std::vector<std::size_t> all(targets.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  overlay(targets, all, 0, {}, {}, own, channels, out);
  return out;
}

}  // namespace

Steps forward_steps(const ExchangePlan& plan, const Shape& own, const std::vector<Shape>& needs,
                    std::int64_t channels, bool aliased, Packing packing) {
  Steps steps;
  const auto needed = [&](const Piece& piece) {
    return cell_of(needs[static_cast<std::size_t>(piece.part)], piece.to, channels);
  };
  for_each_packed(plan.sends(), channels, packing, [&](const Piece&, const Packed& p) {
    Term t;
    t.offset = own.offset(p.box.lo());
    t.stride[0] = own.channel_stride;
    for (std::size_t d = 0; d < 3; ++d) t.stride[d + 1] = own.stride[d];
    steps.pack.append(cell_of(p.offset, p.channel_stride, p.stride, channels, p.box.extents()), {t});
  });
  for (const Piece& piece : plan.local())
    if (!(aliased && is_identity(piece)))
      steps.local.append(needed(piece),
                         {reading_source(piece, own.offset(piece.from), own.channel_stride, own.stride)});
  for (const Piece& zero : plan.zeros()) steps.local.append(needed(zero), {});
  for_each_packed(plan.receives(), channels, packing, [&](const Piece& piece, const Packed& p) {
    const Index3 k = piece.from - p.box.lo();
    const std::int64_t from = p.offset + k[0] * p.stride[0] + k[1] * p.stride[1] + k[2] * p.stride[2];
    steps.unpack.append(needed(piece), {reading_source(piece, from, p.channel_stride, p.stride)});
  });
  return steps;
}

Steps transposed_steps(const ExchangePlan& plan, const std::vector<Shape>& needs, const Shape& own,
                       std::int64_t channels, bool aliased, Packing packing) {
  Steps steps;
  for_each_packed(plan.receives(), channels, packing, [&](const Piece& piece, const Packed& p) {
    steps.pack.append(cell_of(p.offset, p.channel_stride, p.stride, channels, p.box.extents()),
                      {reading_target(piece, needs)});
  });
  std::vector<Target> targets;
  for (const Piece& piece : plan.local())
    if (!(aliased && is_identity(piece))) targets.push_back({piece.source(), reading_target(piece, needs)});
  steps.local = accumulate(targets, own, channels);
  targets.clear();
  for_each_packed(plan.sends(), channels, packing, [&](const Piece&, const Packed& p) {
    Term t;
    t.offset = p.offset;
    t.stride[0] = p.channel_stride;
    for (std::size_t d = 0; d < 3; ++d) t.stride[d + 1] = p.stride[d];
    targets.push_back({p.box, t});
  });
  steps.unpack = accumulate(targets, own, channels);
  return steps;
}

}  // namespace tessera::pack
