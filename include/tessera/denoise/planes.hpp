// SPDX-License-Identifier: BSD-3-Clause
// A volume through a network for pictures: plane by plane, in one or more orientations.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/execution.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/domain/decomposition.hpp"

namespace tessera {

/// The planes in which a volume has about the same spacing along rows and columns: a network for pictures has
/// seen square pixels. Where no spacing is known, all; where it differs along every axis, those in which it
/// differs least. Pure.
Planes default_planes(const ImageSpace& image);

/// What averaging may do with an image that a network of its own axes sees: axes of about the same spacing may change
/// places. Of a picture, rows and columns whatever their spacing. Pure.
Turns default_turns(const ImageSpace& image);

/// What blocks of a volume are cut on, so that planes of each kind are cut on the network's alignment; that
/// alignment where there are no planes.
Index3 planes_alignment(const Index3& alignment, const Planes& planes);

/// One kind of planes after the other as a volume whose first axis goes across them, in the order of
/// Planes::list(); the decomposition as it is where there are no planes. What a network exchanges, computes and
/// keeps is the same on it as on a picture, whose depth is 1. Pure.
std::vector<Decomposition> plane_cuts(const Decomposition& decomposition, const Planes& planes);

/// Planes that go through a network at once where nothing says so, each a window of so many pixels: as many as
/// fill the machine.
std::int64_t usual_batch(std::int64_t window_pixels, bool on_device);

/// A view of a block (C, D, H, W) with the axis across these planes first: (C, across, rows, columns).
at::Tensor turned(const at::Tensor& block, Plane plane);

/// The mean over the planes of what `parts` (one each, in the order of Planes::list()) give on turned blocks.
std::unique_ptr<Denoiser> make_planes_denoiser(const Planes& planes,
                                               std::vector<std::unique_ptr<Denoiser>> parts);

}  // namespace tessera
