// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/network.hpp"

namespace tessera {

/// A network run on whole images (one rank); on windows with exact halos, one exchange per call; or layer by
/// layer on whole blocks, a thin halo for each convolution. Gray images through a color network are
/// replicated and averaged. A network for pictures runs on a volume's planes (options.planes, which a volume
/// needs then): the mean over their kinds, halos in the planes alone, planes in batches. Automatic: the whole
/// image, or block, as one window where memory allows, else the fewest windows that fit. InputError where the mode cannot work (whole on more than one rank), equal on all
/// ranks. The blocks must be cut on the network's alignment (planes_alignment).
std::unique_ptr<Denoiser> make_network_denoiser(Network network, const ExecutionOptions& options,
                                                const DenoiserContext& context);

/// InputError where the network is for volumes and the image a picture, and where planes are named of what is
/// not seen by planes. make_network_denoiser() asks it too.
void refuse_axes(const Network& network, const ImageSpace& image, const Planes& planes);
/// Whether a network for pictures sees a volume plane by plane.
bool by_planes(const Network& network, const ImageSpace& image);

/// InputError where windows are asked for (patch, batch: 0 where not) of a network that attends to the whole
/// image. make_network_denoiser() asks it too.
void refuse_windows(const Network& network, ExecutionMode mode, std::int64_t patch, std::int64_t batch);

}  // namespace tessera
