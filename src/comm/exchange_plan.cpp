// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/exchange_plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "border.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

/// The part of a piece whose source lies in `box`; empty `to` where there is none.
Piece with_source_in(const Piece& piece, const Box& box) {
  const Box common = piece.source().intersect(box);
  if (common.empty()) return {};
  Index3 lo{}, hi{}, from{};
  for (std::size_t d = 0; d < 3; ++d) {
    if (piece.step[d] == 0) {
      lo[d] = piece.to.lo()[d];
      hi[d] = piece.to.hi()[d];
      from[d] = piece.from[d];
    } else {
      from[d] = piece.step[d] > 0 ? common.lo()[d] : common.hi()[d] - 1;
      lo[d] = piece.to.lo()[d] + (from[d] - piece.from[d]) * piece.step[d];
      hi[d] = lo[d] + common.extent(d);
    }
  }
  return {Box{lo, hi}, from, piece.step, piece.part};
}

/// The part of a piece whose needed pixels lie in `box`; empty `to` where there is none.
Piece with_target_in(const Piece& piece, const Box& box) {
  Piece part{piece.to.intersect(box), piece.from, piece.step, piece.part};
  for (std::size_t d = 0; d < 3; ++d) {
    part.from[d] += piece.step[d] * (part.to.lo()[d] - piece.to.lo()[d]);
    if (part.to.extent(d) == 1) part.step[d] = 1;  // one pixel has no direction: one form only
  }
  return part;
}

/// Calls visit(piece) for every part of `hull` that the border rule maps onto the image by one affine map.
template <class Visit>
void for_each_mapped(const Box& hull, int part, const Box& image, Border border, Visit visit) {
  if (hull.empty() || image.empty()) return;
  std::vector<border::Segment> cuts[3];
  for (std::size_t d = 0; d < 3; ++d)
    cuts[d] = border::segments(hull.lo()[d], hull.hi()[d], image.lo()[d], image.hi()[d], border);
  for (const auto& a : cuts[0])
    for (const auto& b : cuts[1])
      for (const auto& c : cuts[2])
        visit(Piece{Box{{a.lo, b.lo, c.lo}, {a.hi, b.hi, c.hi}},
                    {a.from, b.from, c.from},
                    {a.step, b.step, c.step},
                    part});
}

/// `box` without `hole`, as disjoint boxes.
void subtract(const Box& box, const Box& hole, std::vector<Box>& out) {
  const Box common = box.intersect(hole);
  if (common.empty()) {
    out.push_back(box);
    return;
  }
  Index3 lo = box.lo(), hi = box.hi();
  for (std::size_t d = 0; d < 3; ++d) {  // slabs below and above the hole, axis after axis
    Index3 below_hi = hi, above_lo = lo;
    below_hi[d] = common.lo()[d];
    above_lo[d] = common.hi()[d];
    if (lo[d] < below_hi[d]) out.emplace_back(lo, below_hi);
    if (above_lo[d] < hi[d]) out.emplace_back(above_lo, hi);
    lo[d] = common.lo()[d];
    hi[d] = common.hi()[d];
  }
}

using Pieces = std::map<int, std::vector<Piece>>;  // by peer

std::vector<Message> messages(Pieces&& pieces) {
  std::vector<Message> out;
  out.reserve(pieces.size());
  for (auto& [peer, list] : pieces) {
    Message m{peer, std::move(list), 0};
    for (const Piece& p : m.pieces) m.pixels += p.source().pixels();
    out.push_back(std::move(m));
  }
  return out;
}

std::int64_t total(const std::vector<Message>& list) {
  std::int64_t pixels = 0;
  for (const Message& m : list) pixels += m.pixels;
  return pixels;
}

}  // namespace

Box Piece::source() const {
  if (to.empty()) return {};
  Index3 lo{}, hi{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t last = from[d] + step[d] * (to.extent(d) - 1);
    lo[d] = std::min(from[d], last);
    hi[d] = std::max(from[d], last) + 1;
  }
  return {lo, hi};
}

ExchangePlan::ExchangePlan(const Layout& own, const Layout& need, const Box& image, Border border, int rank)
    : ExchangePlan(own, std::vector<Layout>{need}, image, border, rank) {}

ExchangePlan::ExchangePlan(const Layout& own, const std::vector<Layout>& needs, const Box& image,
                           Border border, int rank)
    : own_(own.box(rank)) {
  TESSERA_EXPECT(!needs.empty(), "an exchange plan without a need (nothing to plan) give empty boxes");
  needs_.clear();
  for (const Layout& need : needs) {
    TESSERA_EXPECT(own.ranks() == need.ranks(), "exchange plan between ", own.ranks(), " owners and ",
                   need.ranks(), " ranks that need (one box per rank in both) pad with empty boxes");
    needs_.push_back(need.box(rank));
  }
  TESSERA_EXPECT(own.overlapping(own_.intersect(image)).size() <= 1, "the box of rank ", rank,
                 " shares pixels with another owner (each pixel has one owner) pass disjoint boxes");
  Pieces sends, receives;

  const Box mine = own_.intersect(image);
  for (int part = 0; part < static_cast<int>(needs.size()); ++part) {
    const Layout& need = needs[static_cast<std::size_t>(part)];
    for_each_mapped(need.box(rank), part, image, border, [&](const Piece& mapped) {
      const Box source = mapped.source();
      for (const int owner : own.overlapping(source))
        receives[owner].push_back(
            with_target_in(with_source_in(mapped, own.box(owner).intersect(image)), need.box(rank)));
    });
    for_each_mapped(need.hull(), part, image, border, [&](const Piece& mapped) {
      const Piece owned = with_source_in(mapped, mine);
      for (const int peer : need.overlapping(owned.to))
        if (peer != rank) sends[peer].push_back(with_target_in(owned, need.box(peer)));
    });
  }

  if (const auto self = receives.find(rank); self != receives.end()) {
    local_ = std::move(self->second);
    receives.erase(self);
  }
  sends_ = messages(std::move(sends));
  receives_ = messages(std::move(receives));

  for (int part = 0; part < static_cast<int>(needs_.size()); ++part) {
    const Box& need = needs_[static_cast<std::size_t>(part)];
    if (border != Border::zero || need.empty()) continue;
    std::vector<Box> rest{need};
    const auto fill = [&rest, part](const std::vector<Piece>& pieces) {
      for (const Piece& p : pieces) {
        if (p.part != part) continue;
        std::vector<Box> left;
        for (const Box& b : rest) subtract(b, p.to, left);
        rest = std::move(left);
      }
    };
    fill(local_);
    for (const Message& m : receives_) fill(m.pieces);
    for (const Box& zero : rest) zeros_.push_back({zero, {}, {1, 1, 1}, part});
  }
}

ExchangePlan ExchangePlan::through_self(int rank) const {
  ExchangePlan plan = *this;
  if (local_.empty()) return plan;
  const Message self = messages({{rank, local_}}).front();
  for (auto* list : {&plan.sends_, &plan.receives_})
    list->insert(std::find_if(list->begin(), list->end(), [rank](const Message& m) { return m.peer > rank; }),
                 self);
  plan.local_.clear();
  return plan;
}

std::int64_t ExchangePlan::pixels_sent() const { return total(sends_); }
std::int64_t ExchangePlan::pixels_received() const { return total(receives_); }

}  // namespace tessera
