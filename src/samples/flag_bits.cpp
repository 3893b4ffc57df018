// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/flag_bits.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"

namespace tessera {
namespace {

using Bits = std::map<std::string, std::uint64_t>;

// jwst-pipeline.readthedocs.io, "Data Quality Flags"; hstcal, wf3dq.h and acsdq.h.
const Bits& telescope_bits() {
  static const Bits bits = [] {
    Bits out;
    const char* const jwst[] = {"DO_NOT_USE",
                                "SATURATED",
                                "JUMP_DET",
                                "DROPOUT",
                                "OUTLIER",
                                "PERSISTENCE",
                                "AD_FLOOR",
                                "CHARGELOSS",
                                "UNRELIABLE_ERROR",
                                "NON_SCIENCE",
                                "DEAD",
                                "HOT",
                                "WARM",
                                "LOW_QE",
                                "RC",
                                "TELEGRAPH",
                                "NONLINEAR",
                                "BAD_REF_PIXEL",
                                "NO_FLAT_FIELD",
                                "NO_GAIN_VALUE",
                                "NO_LIN_CORR",
                                "NO_SAT_CHECK",
                                "UNRELIABLE_BIAS",
                                "UNRELIABLE_DARK",
                                "UNRELIABLE_SLOPE",
                                "UNRELIABLE_FLAT",
                                "OPEN",
                                "ADJ_OPEN",
                                "FLUX_ESTIMATED",
                                "MSA_FAILED_OPEN",
                                "OTHER_BAD_PIXEL",
                                "REFERENCE_PIXEL"};
    std::uint64_t bit = 1;
    for (const char* name : jwst) {
      out[name] = bit;
      bit *= 2;
    }
    out["UNDERSAMP"] = out["CHARGELOSS"];
    const char* const hst[] = {"SOFTERR", "DATALOST", "DETECTORPROB", "DATAMASKED", "HOTPIX", "CTETAIL",
                               "WARMPIX", "BADBIAS",  "SATPIXEL",     "BADFLAT",    "TRAP",   "ATODSAT"};
    bit = 1;
    for (const char* name : hst) {
      out[name] = bit;
      bit *= 2;
    }
    out["DATAREJECT"] = 8192;
    return out;
  }();
  return bits;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

bool number(const std::string& text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::uint64_t flag_bits(const std::vector<std::string>& bits,
                        const std::vector<std::pair<std::string, std::string>>& text) {
  Bits own;
  for (const auto& [key, value] : text)
    if (std::uint64_t bit = 0; upper(key).starts_with("MP_") && number(value, bit) && bit < 52)
      own[upper(key).substr(3)] = std::uint64_t{1} << bit;
  const Bits& names = own.empty() ? telescope_bits() : own;
  std::uint64_t out = 0;
  for (const std::string& said : bits) {
    std::uint64_t value = 0;
    if (number(said, value)) {
      TESSERA_VALIDATE(value > 0 && value < std::uint64_t{1} << 52, "problem.bad.bits has ", said,
                       " (bits are 1, 2, 4, ... added up) write those that are bad");
      out |= value;
      continue;
    }
    const auto found = names.find(upper(said));
    if (found == names.end()) {
      std::vector<std::string> known;
      for (const auto& [name, bit] : names) known.push_back(name);
      const std::string near = nearest(upper(said), known);
      throw InputError(concat("problem.bad.bits names ", said, " (no flag that ",
                              own.empty() ? "JWST or HST has" : "the file's MP_ cards have", ") ",
                              near.empty() ? "write its number" : "did you mean " + near + '?'));
    }
    out |= found->second;
  }
  return out;
}

}  // namespace tessera
