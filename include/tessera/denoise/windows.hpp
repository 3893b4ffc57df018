// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/comm/exchange_plan.hpp"
#include "tessera/core/box.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/domain/decomposition.hpp"

namespace tessera {

/// A part of a block and the pixels around it that a network needs to compute it exactly.
struct Window {
  Box core;  // what is kept
  Box box;   // what the network sees: the core and its halo, clipped to the padded image, so that the
             // network's own zero padding falls where it does on the whole image
};

/// Cores of at most patch x patch pixels (of volumes patch x patch x patch) that partition `block`, in row order,
/// all of one size but the last of an axis. Their shape is the one for which the windows, halo included, have the fewest pixels: where a
/// block ends at the image's border, strips are cheaper than squares.
/// `patch`, `halo` and the block's edges are multiples of the network's alignment. `planes` above 0: the volume
/// is seen plane by plane, and cores are patch x patch pixels of at most so many planes, shared as evenly as
/// they go.
std::vector<Window> cut_windows(const Box& block, const Box& padded, const Index3& alignment,
                                std::int64_t patch, const Index3& halo, std::int64_t planes = 0);

/// Pixels of a core of this side: its square, of volumes its cube.
std::int64_t patch_pixels(std::int64_t patch, Axes axes);

/// Patches that cut a block of so many pixels into 1, 2, 4, 6, 9, 12 ... (k^2 and k (k + 1)) windows, of a volume
/// into 1, 2, 4, 8, 12, 18, 27 ...; descending, multiples of the alignment, none twice.
std::vector<std::int64_t> patches_for(std::int64_t pixels, std::int64_t alignment, Axes axes = Axes::picture);

/// The block and its halo, clipped: the hull of its windows.
Box window_region(const Box& block, const Box& padded, const Index3& halo);

/// The largest of patches_for() the largest block with which every window of these blocks fits; 0: none. By planes:
/// with a plane at a time.
std::int64_t fitting_patch(const std::vector<Box>& blocks, const Box& padded, const Index3& alignment,
                           const Index3& halo, const std::function<bool(const Box&)>& fits,
                           bool by_planes = false);

/// Bytes that `rank` sends per call of a denoiser on windows with such a halo, by arithmetic alone; float32 images.
std::int64_t network_bytes_sent(const Decomposition& decomposition, const Index3& halo, std::int64_t channels,
                                int rank);

/// Its exchange: own image pixels -> blocks with their halos; the padding at the image's end is filled on the
/// way.
ExchangePlan network_plan(const Decomposition& decomposition, const Index3& halo, int rank);

/// How many pixels one call of a network sees: windows of cores of side `patch`, `batch` of them.
struct CutSize {
  std::int64_t patch = 0, batch = 1;
  bool operator==(const CutSize&) const = default;
};
/// About half of it: fewer windows at once, then smaller ones; the same where nothing smaller is.
CutSize smaller_cut(const CutSize& cut, std::int64_t alignment, Axes axes = Axes::picture);

}  // namespace tessera
