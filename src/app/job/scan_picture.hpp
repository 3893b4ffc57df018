// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// Draws a scan as seen from above (along the axis of rotation) and from the side (across the first view's rays): where
/// sources and detectors stand, the image, what of it all, some and no views see, and the axis. `path`: a picture that
/// holds colors. Distances many times the image's size are drawn shorter, which the picture says. Not collective.
void draw_scan(const std::string& path, const ProjectionGeometry& geometry);

}  // namespace tessera
