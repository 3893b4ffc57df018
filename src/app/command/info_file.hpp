// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// Prints what is in an image file: axes, type, range, pixel sizes, how it is packed, what else FILE:/PART names, and
/// a small picture (`picture`: auto, color, text, none). Reads by pieces. Not collective. InputError.
void describe_file(const std::string& path, const std::string& picture);

/// Prints a sweep's table of one column: `key`, then FILE:/PART of all that is in the file. Not collective. InputError.
void print_parts_table(const std::string& path, const std::string& key);

}  // namespace tessera
