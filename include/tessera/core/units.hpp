// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// "8 GiB", "512 MiB", "100 MB", "4096" (bytes) -> bytes. InputError with the units it knows.
std::int64_t parse_bytes(std::string_view text);

/// 1234567 -> "1.2 MB", 8589934592 -> "8.6 GB": decimal units, as disks and networks count.
std::string format_bytes(double bytes);

/// 0.0012 -> "1.20 ms", 75 -> "1 min 15 s".
std::string format_seconds(double seconds);

/// The nearest of the known words by edit distance; empty where none is near (more than a third differs).
std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// One word of a shell's command line, to be copied from a message: quoted where it has to be.
std::string shell_word(const std::string& text);

}  // namespace tessera
