// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::io {

/// From bytes to bytes.
enum class ZarrCodec { gzip, zlib, zstd, blosc, crc32c };
using ZarrBytes = std::vector<std::uint8_t>;

const char* codec_name(ZarrCodec codec);
/// Whether this build has the library of a codec.
bool has_codec(ZarrCodec codec);
/// "zstd (this tessera was built without it) install libzstd-dev, and configure and build again"
std::string codec_advice(ZarrCodec codec);

/// What `stored` was before the codecs were applied in this order: `bytes` of it, else InputError with the name
/// `where`. What a header claims is checked before memory is taken for it, and streams grow as they are read.
ZarrBytes decode(const std::vector<ZarrCodec>& codecs, ZarrBytes stored, std::int64_t bytes,
                 const std::string& where);
/// The way back; `element`: bytes of a sample. RunError where a library refuses.
ZarrBytes encode(const std::vector<ZarrCodec>& codecs, ZarrBytes plain, std::int64_t element);

}  // namespace tessera::io
