// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/comm/array.hpp"
#include "tessera/scene/scene.hpp"

namespace tessera {

/// The pixels of a box of a scene, float32 on the host, by all threads. Not collective.
void render_scene(const Scene& scene, const ArrayView& block);

}  // namespace tessera
