// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/box.hpp"

namespace tessera {

/// What a pixel beyond the image is.
/// none: no such pixel is needed (need is clipped to the image). circular: x[i mod n]. reflect: mirrored
/// about the edge pixel, which is not repeated. replicate: the edge pixel. zero: 0. Any width, also wider
/// than the image.
enum class Border { none, circular, reflect, replicate, zero };

/// One box per rank. Owners' boxes are disjoint; needed boxes may overlap and leave the image. Host
/// arithmetic.
class Layout {
 public:
  Layout() = default;
  explicit Layout(std::vector<Box> boxes);

  int ranks() const { return static_cast<int>(boxes_.size()); }
  const Box& box(int rank) const { return boxes_[static_cast<std::size_t>(rank)]; }
  const Box& hull() const { return hull_; }
  /// Every rank's box grown by the reach.
  Layout grow(const Reach& reach) const;
  /// Ranks whose box shares pixels with this one, ascending; found through an index sorted by axis, not by a
  /// scan.
  std::vector<int> overlapping(const Box& box) const;
  friend bool operator==(const Layout& a, const Layout& b) { return a.boxes_ == b.boxes_; }

 private:
  std::vector<Box> boxes_;
  Box hull_;
  std::vector<int> by_height_;  // ranks with pixels, sorted by lo of axis 1
  std::int64_t tallest_ = 0;    // largest extent on axis 1: bounds the search
};

/// A box of needed pixels and the image pixels that they are: pixel to.lo + k is image pixel from + step * k.
/// step is per axis +1 (as it stands), -1 (mirrored) or 0 (one pixel repeated).
struct Piece {
  Box to;
  Index3 from{};
  Index3 step{1, 1, 1};
  int part = 0;  // which of the rank's needed boxes `to` lies in
  /// The image pixels it reads.
  Box source() const;
};

/// What one rank sends to another: the source boxes of the pieces, in this order, each row-major, channel
/// after channel. Receiver and sender list the same pieces in the same order.
struct Message {
  int peer = 0;
  std::vector<Piece> pieces;
  std::int64_t pixels = 0;  // per channel
};

/// Who sends which pixels to whom so that every rank gets its needed box from the owners.
///
/// Covers halo exchange (any width, different on each side, wider than a block, circular with 1 or 2 ranks),
/// redistribution between two decompositions, gather and scatter. Holds no buffers and makes no MPI call:
/// every rank derives its own part from the two layouts, which all ranks know. Cost: the overlaps of one
/// rank's boxes.
class ExchangePlan {
 public:
  ExchangePlan() = default;
  /// `own` holds each image pixel at most once. Pixels of `need` that nobody owns are left alone
  /// (Border::none) or, with Border::zero, set to 0.
  ExchangePlan(const Layout& own, const Layout& need, const Box& image, Border border, int rank);
  /// Several needed boxes per rank, one of each layout, such as the strips along a block's sides; they may
  /// overlap, and a pixel travels once for each. Still one message per peer.
  ExchangePlan(const Layout& own, const std::vector<Layout>& needs, const Box& image, Border border,
               int rank);

  const Box& own() const { return own_; }
  const Box& need() const { return needs_.front(); }
  const std::vector<Box>& needs() const { return needs_; }            // at least one
  const std::vector<Message>& sends() const { return sends_; }        // by peer, ascending, never this rank
  const std::vector<Message>& receives() const { return receives_; }  // by peer, ascending, never this rank
  const std::vector<Piece>& local() const { return local_; }          // from this rank's own box
  const std::vector<Piece>& zeros() const { return zeros_; }          // parts and boxes that are 0
  /// Pixels that leave this rank, per channel; times channels and element size it is the bytes of one run, in
  /// either direction counted at this rank's sends (forward) or receives (transposed).
  std::int64_t pixels_sent() const;
  std::int64_t pixels_received() const;

  /// The same plan with local() as a message of `rank` to itself.
  ExchangePlan through_self(int rank) const;

 private:
  Box own_;
  std::vector<Box> needs_{Box()};
  std::vector<Message> sends_, receives_;
  std::vector<Piece> local_, zeros_;
};

}  // namespace tessera
