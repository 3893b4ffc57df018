// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vips/vips.h>

#include <memory>
#include <string>

namespace tessera::io {

struct Unref {
  void operator()(void* object) const { g_object_unref(object); }
};
using VipsPointer = std::unique_ptr<VipsImage, Unref>;

/// Starts libvips once: one thread, no operation cache, no printing.
void start_vips();

/// The first line of libvips' error buffer, which is cleared, and what the system said.
std::string vips_problem();

}  // namespace tessera::io
