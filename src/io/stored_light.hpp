// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tessera/core/tone_curve.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {

/// The tone curve of an ICC profile's gray or green channel: none where it is linear, srgb where a table follows
/// sRGB's, else a power. Nothing where the profile has no such curve (a table of another color space, PQ, HLG).
/// Source: ICC.1:2022, 9.2.30 and 10.6, 10.18.
std::optional<ToneCurve> profile_curve(std::span<const std::uint8_t> profile);

/// What the chunks of a PNG before its samples say, the first of cICP, iCCP (the profile as its reader unpacked it),
/// sRGB and gAMA; sRGB by convention where it has none; nothing, and its name, of PQ and HLG. Not collective. Source: W3C PNG (2025), 4.3.
StoredLight png_light(const InputFile& file, std::span<const std::uint8_t> profile);

}  // namespace tessera::io
