// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>
#include <vector>

namespace tessera::io {

/// Cards of a FITS header that say where its pixels lie, as they stand there, one a line: a text that goes along with an
/// image (kWcs). Axes 1, 2 and 3 are columns, rows and slices. Source: FITS 4.0, section 8; Shupe et al., SIP, 2005.

/// Whether a keyword is one of them: of any coordinates (CRPIX1, CD1_2A), of SIP, or of a part of a detector (LTV1).
bool is_wcs_key(const std::string& key);
/// The same world for pixels that are others: pixel k of axis a was `step[a] k + first[a]`, counted from 0.
std::string moved_wcs(const std::string& cards, const std::array<double, 3>& step,
                      const std::array<double, 3>& first);
/// What of it lies outside of these cards, in tables: "CPDIS1"; or empty.
std::string wcs_tables(const std::vector<std::string>& cards);

std::string card_key(const std::string& card);
/// A card of 80 characters with a number, as short as it can be read back.
std::string number_card(const std::string& key, double value);

}  // namespace tessera::io
