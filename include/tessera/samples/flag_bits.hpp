// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// The bits that names and numbers stand for, together. Names: those of the file's own cards MP_NAME = bit (as LSST has
/// them), of JWST and of HST (WFC3, ACS); any case. Numbers are bits added up, as 5 for 1 and 4. `text`: what the file says.
/// InputError where a name is none.
std::uint64_t flag_bits(const std::vector<std::string>& bits,
                        const std::vector<std::pair<std::string, std::string>>& text);

}  // namespace tessera
