// SPDX-License-Identifier: BSD-3-Clause
#include "zarr/zarr_codecs.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "tessera/core/error.hpp"
#ifdef TESSERA_BLOSC
#include <blosc.h>
#endif
#ifdef TESSERA_ZSTD
#include <zstd.h>
#endif

namespace tessera::io {
namespace {

constexpr std::size_t kGrow = 1 << 20;

[[noreturn]] void damaged(const std::string& where, const std::string& why) {
  throw InputError(concat("cannot read ", where, " (", why, ": it is damaged or cut) copy it again"));
}

// Castagnoli's polynomial, reflected. Source: RFC 3720, appendix B.4.
std::uint32_t crc32c(const std::uint8_t* bytes, std::size_t count) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t k = 0; k < 256; ++k) {
      std::uint32_t c = k;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0x82f63b78U ^ (c >> 1) : c >> 1;
      out[k] = c;
    }
    return out;
  }();
  std::uint32_t c = 0xffffffffU;
  for (std::size_t k = 0; k < count; ++k) c = table[(c ^ bytes[k]) & 255] ^ (c >> 8);
  return ~c;
}

ZarrBytes without_crc(ZarrBytes stored, const std::string& where) {
  if (stored.size() < 4) damaged(where, "it has no room for its checksum");
  const std::size_t n = stored.size() - 4;
  const std::uint32_t said =
      stored[n] | stored[n + 1] << 8 | stored[n + 2] << 16 | static_cast<std::uint32_t>(stored[n + 3]) << 24;
  if (crc32c(stored.data(), n) != said) damaged(where, "its checksum differs");
  stored.resize(n);
  return stored;
}

// Both formats of zlib's, and gzip members behind each other.
ZarrBytes inflated(const ZarrBytes& stored, std::int64_t most, const std::string& where) {
  z_stream z{};
  if (inflateInit2(&z, 15 + 32) != Z_OK) throw RunError("cannot start zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&z, inflateEnd);
  ZarrBytes out;
  z.next_in = const_cast<Bytef*>(stored.data());
  z.avail_in = static_cast<uInt>(stored.size());
  for (std::size_t done = 0;;) {
    if (done == out.size()) out.resize(std::min(done + kGrow, static_cast<std::size_t>(most) + 1));
    z.next_out = out.data() + done;
    z.avail_out = static_cast<uInt>(out.size() - done);
    const int code = inflate(&z, Z_NO_FLUSH);
    done = out.size() - z.avail_out;
    if (done > static_cast<std::size_t>(most)) damaged(where, "it holds more than its shape needs");
    if (code == Z_STREAM_END) {
      if (z.avail_in > 0 && inflateReset(&z) == Z_OK) continue;
      out.resize(done);
      return out;
    }
    if (code != Z_OK) damaged(where, "gzip cannot unpack it");
  }
}

#ifdef TESSERA_ZSTD
ZarrBytes zstd_decoded(const ZarrBytes& stored, std::int64_t most, const std::string& where) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  if (!stream) throw std::bad_alloc();
  ZarrBytes out;
  ZSTD_inBuffer in{stored.data(), stored.size(), 0};
  std::size_t done = 0, left = 1;
  while (in.pos < in.size || left > 0) {
    if (done == out.size()) out.resize(std::min(done + kGrow, static_cast<std::size_t>(most) + 1));
    ZSTD_outBuffer to{out.data(), out.size(), done};
    const std::size_t before = in.pos;
    left = ZSTD_decompressStream(stream.get(), &to, &in);
    if (ZSTD_isError(left)) damaged(where, "zstd cannot unpack it");
    if (to.pos > static_cast<std::size_t>(most)) damaged(where, "it holds more than its shape needs");
    if (to.pos == done && in.pos == before && in.pos == in.size && left > 0)
      damaged(where, "zstd finds its end too early");
    done = to.pos;
  }
  out.resize(done);
  return out;
}
#endif

#ifdef TESSERA_BLOSC
ZarrBytes blosc_decoded(const ZarrBytes& stored, std::int64_t most, const std::string& where) {
  std::size_t bytes = 0;
  if (stored.size() < BLOSC_MIN_HEADER_LENGTH ||
      blosc_cbuffer_validate(stored.data(), stored.size(), &bytes) != 0)
    damaged(where, "blosc finds no whole header");
  if (bytes > static_cast<std::size_t>(most)) damaged(where, "it holds more than its shape needs");
  ZarrBytes out(bytes);
  if (bytes > 0 && blosc_decompress_ctx(stored.data(), out.data(), out.size(), 1) != static_cast<int>(bytes))
    damaged(where, "blosc cannot unpack it");
  return out;
}
#endif

ZarrBytes one_decoded(ZarrCodec codec, ZarrBytes stored, std::int64_t most, const std::string& where) {
  switch (codec) {
    case ZarrCodec::crc32c:
      return without_crc(std::move(stored), where);
    case ZarrCodec::gzip:
    case ZarrCodec::zlib:
      return inflated(stored, most, where);
#ifdef TESSERA_ZSTD
    case ZarrCodec::zstd:
      return zstd_decoded(stored, most, where);
#endif
#ifdef TESSERA_BLOSC
    case ZarrCodec::blosc:
      return blosc_decoded(stored, most, where);
#endif
    default:
      throw InputError(concat("cannot read ", where, ": it needs ", codec_advice(codec)));
  }
}

ZarrBytes deflated(const ZarrBytes& plain, bool gzip) {
  constexpr int kLevel = 5, kMemory = 8;
  z_stream z{};
  if (deflateInit2(&z, kLevel, Z_DEFLATED, gzip ? 15 + 16 : 15, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw RunError("cannot start zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&z, deflateEnd);
  ZarrBytes out(deflateBound(&z, static_cast<uLong>(plain.size())));
  z.next_in = const_cast<Bytef*>(plain.data());
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  if (deflate(&z, Z_FINISH) != Z_STREAM_END) throw RunError("zlib cannot pack a chunk");
  out.resize(out.size() - z.avail_out);
  return out;
}

ZarrBytes one_encoded(ZarrCodec codec, ZarrBytes plain, [[maybe_unused]] std::int64_t element) {
  if (codec == ZarrCodec::gzip || codec == ZarrCodec::zlib) return deflated(plain, codec == ZarrCodec::gzip);
  if (codec == ZarrCodec::crc32c) {
    const std::uint32_t sum = crc32c(plain.data(), plain.size());
    for (int k = 0; k < 4; ++k) plain.push_back(static_cast<std::uint8_t>(sum >> (8 * k)));
    return plain;
  }
#ifdef TESSERA_BLOSC
  if (codec == ZarrCodec::blosc) {
    ZarrBytes out(plain.size() + BLOSC_MAX_OVERHEAD);
    const int bytes = blosc_compress_ctx(5, element > 1 ? BLOSC_SHUFFLE : BLOSC_NOSHUFFLE,
                                         static_cast<std::size_t>(element), plain.size(), plain.data(),
                                         out.data(), out.size(), BLOSC_LZ4_COMPNAME, 0, 1);
    if (bytes <= 0) throw RunError("blosc cannot pack a chunk");
    out.resize(static_cast<std::size_t>(bytes));
    return out;
  }
#endif
#ifdef TESSERA_ZSTD
  if (codec == ZarrCodec::zstd) {
    ZarrBytes out(ZSTD_compressBound(plain.size()));
    const std::size_t bytes = ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 1);
    if (ZSTD_isError(bytes)) throw RunError("zstd cannot pack a chunk");
    out.resize(bytes);
    return out;
  }
#endif
  throw RunError(concat("cannot pack a chunk by ", codec_advice(codec)));
}

}  // namespace

const char* codec_name(ZarrCodec codec) {
  constexpr const char* kNames[] = {"gzip", "zlib", "zstd", "blosc", "crc32c"};
  return kNames[static_cast<std::size_t>(codec)];
}

bool has_codec(ZarrCodec codec) {
#ifndef TESSERA_BLOSC
  if (codec == ZarrCodec::blosc) return false;
#endif
#ifndef TESSERA_ZSTD
  if (codec == ZarrCodec::zstd) return false;
#endif
  return true;
}

std::string codec_advice(ZarrCodec codec) {
  const std::string name = codec_name(codec);
  return concat(name, " (this tessera was built without it) install lib", name,
                "-dev, and configure and build tessera again");
}

ZarrBytes decode(const std::vector<ZarrCodec>& codecs, ZarrBytes stored, std::int64_t bytes,
                 const std::string& where) {
  // What stands between two codecs may be a little larger than the chunk.
  const std::int64_t most = bytes + bytes / 8 + (1 << 16);
  for (auto codec = codecs.rbegin(); codec != codecs.rend(); ++codec)
    stored = one_decoded(*codec, std::move(stored), codec + 1 == codecs.rend() ? bytes : most, where);
  if (std::ssize(stored) != bytes)
    damaged(where, concat("it holds ", stored.size(), " bytes, its shape needs ", bytes));
  return stored;
}

ZarrBytes encode(const std::vector<ZarrCodec>& codecs, ZarrBytes plain, std::int64_t element) {
  for (const ZarrCodec codec : codecs) plain = one_encoded(codec, std::move(plain), element);
  return plain;
}

}  // namespace tessera::io
