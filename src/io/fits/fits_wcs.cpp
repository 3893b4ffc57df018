// SPDX-License-Identifier: BSD-3-Clause
#include "fits/fits_wcs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <regex>
#include <string_view>

namespace tessera::io {
namespace {

constexpr std::size_t kCardLength = 80;
constexpr const char* kOfAxis[] = {"CRPIX", "CRVAL", "CTYPE", "CDELT"};

std::vector<std::string> card_lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::optional<double> card_number(const std::string& card) {
  if (card.size() < 11 || card.compare(8, 2, "= ") != 0) return std::nullopt;
  std::string value =
      card.substr(10, card.find('/') == std::string::npos ? std::string::npos : card.find('/') - 10);
  std::replace(value.begin(), value.end(), 'D', 'E');
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  while (*end == ' ') ++end;
  return end == value.c_str() || *end != '\0' || !std::isfinite(number) ? std::nullopt
                                                                        : std::optional(number);
}

// One set of coordinates, the primary ones or those of a letter: their cards by name.
class Coordinates {
 public:
  Coordinates(std::vector<std::string>& cards, std::string letter)
      : cards_(cards), letter_(std::move(letter)) {
    for (std::size_t k = 0; k < cards_.size(); ++k)
      if (const std::string key = card_key(cards_[k]); key.ends_with(letter_))
        at_[key.substr(0, key.size() - letter_.size())] = k;
  }

  void move(const std::array<double, 3>& step, const std::array<double, 3>& first) {
    for (std::size_t a = 0; a < 3; ++a)
      if (const std::string key = fmt::format("CRPIX{}", a + 1); says(a + 1))
        put(key, (number(key).value_or(0) - (first[a] + 1 - step[a])) / step[a]);
    if (step == std::array<double, 3>{1, 1, 1}) return;
    const auto has = [&](const char* word) {
      return std::any_of(at_.begin(), at_.end(), [&](const auto& one) {
        return one.first.starts_with(word) && one.first.find('_') != std::string::npos;
      });
    };
    if (has("CD")) return columns("CD", step, false);
    // CDELT i is of the world's axis i: where the steps differ, PC has them.
    const bool alike = step[0] == step[1], turned = has("PC");
    if (turned && !alike) return columns("PC", step, true);
    for (std::size_t a = 0; a < 3; ++a)
      if (const std::string key = fmt::format("CDELT{}", a + 1); step[a] != 1 && says(a + 1))
        put(key, number(key).value_or(1) * step[a]);
    if (turned && step[2] != step[0]) {  // of the third axis only what lies beside the diagonal is left
      for (int i = 1; i <= 3; ++i)
        for (int j = 1; j <= 3; ++j)
          if (const std::string key = fmt::format("PC{}_{}", i, j); i != j && (i == 3 || j == 3))
            if (const auto old = number(key))
              put(key, *old * step[static_cast<std::size_t>(j - 1)] / step[static_cast<std::size_t>(i - 1)]);
    }
  }

  // Polynomials in pixels from CRPIX, whose values are pixels.
  void move_sip(const std::array<double, 3>& step) {
    static const std::regex term("(A|B|AP|BP)_([0-9])_([0-9])"), most("([AB])_DMAX");
    for (const auto& [key, k] : std::map(at_)) {
      const auto old = card_number(cards_[k]);
      std::smatch part;
      if (!old) continue;
      if (std::regex_match(key, part, term)) {
        const std::size_t own = part[1].str()[0] == 'A' ? 0 : 1;
        put(key,
            *old * std::pow(step[0], std::stoi(part[2])) * std::pow(step[1], std::stoi(part[3])) / step[own]);
      } else if (std::regex_match(key, part, most)) {
        put(key, *old / step[part[1].str() == "A" ? 0 : 1]);
      }
    }
  }

  // IRAF: pixel = LTM times that of the whole detector + LTV.
  void move_section(const std::array<double, 3>& step, const std::array<double, 3>& first) {
    for (std::size_t a = 0; a < 3; ++a) {
      const std::string place = fmt::format("LTV{}", a + 1), size = fmt::format("LTM{}_{}", a + 1, a + 1);
      const auto old = number(place), scale = number(size);
      if (!old && !scale) continue;
      if (old) put(place, (*old - (first[a] + 1 - step[a])) / step[a]);
      if (scale) put(size, *scale / step[a]);
    }
  }

 private:
  std::optional<double> number(const std::string& key) const {
    const auto found = at_.find(key);
    return found == at_.end() ? std::nullopt : card_number(cards_[found->second]);
  }
  bool says(std::size_t axis) const {
    return std::any_of(std::begin(kOfAxis), std::end(kOfAxis),
                       [&](const char* word) { return at_.count(fmt::format("{}{}", word, axis)) > 0; });
  }
  void put(const std::string& key, double value) {
    const std::string card = number_card(key + letter_, value);
    const auto found = at_.find(key);
    if (found != at_.end()) {
      cards_[found->second] = card;
    } else {
      at_[key] = cards_.size();
      cards_.push_back(card);
    }
  }
  // Of the matrix the columns of the file's axes; `diagonal`: what is not there is 1.
  void columns(const char* name, const std::array<double, 3>& step, bool diagonal) {
    for (std::size_t i = 1; i <= 3; ++i)
      for (std::size_t j = 1; j <= 3; ++j) {
        const std::string key = fmt::format("{}{}_{}", name, i, j);
        const auto old = number(key);
        if (step[j - 1] == 1 || (!old && !(diagonal && i == j && says(j)))) continue;
        put(key, old.value_or(1) * step[j - 1]);
      }
  }

  std::vector<std::string>& cards_;
  std::string letter_;
  std::map<std::string, std::size_t> at_;
};

}  // namespace

std::string card_key(const std::string& card) {
  const std::string key = card.substr(0, std::min<std::size_t>(8, card.size()));
  return key.substr(0, key.find(' '));
}

bool is_wcs_key(const std::string& key) {
  static const std::regex known(
      "(WCSAXES|WCSNAME|LONPOLE|LATPOLE|RADESYS|EQUINOX|SPECSYS|SSYSOBS|SSYSSRC|RESTFRQ|RESTWAV|VELOSYS|"
      "VELANGL|"
      "ZSOURCE|OBSGEO-[XYZBLH]|RADECSYS|EPOCH|"
      "(CRPIX|CRVAL|CTYPE|CUNIT|CDELT|CROTA|CNAME|CRDER|CSYER)[0-9]+|(CD|PC|PV|PS)[0-9]+_[0-9]+)[A-Z]?|"
      "(A|B|AP|BP)_(ORDER|DMAX|[0-9]_[0-9])|LTV[0-9]|LTM[0-9]_[0-9]|WAT[0-9]_[0-9]{3}|WCSDIM");
  return std::regex_match(key, known);
}

std::string moved_wcs(const std::string& text, const std::array<double, 3>& step,
                      const std::array<double, 3>& first) {
  if (step == std::array<double, 3>{1, 1, 1} && first == std::array<double, 3>{}) return text;
  std::vector<std::string> cards = card_lines(text);
  static const std::regex axis("(?:CRPIX|CRVAL|CTYPE|CDELT)[0-9]+([A-Z]?)");
  std::vector<std::string> letters;
  for (const std::string& card : cards) {
    std::smatch part;
    const std::string key = card_key(card);
    if (!std::regex_match(key, part, axis)) continue;
    if (std::find(letters.begin(), letters.end(), part[1].str()) == letters.end())
      letters.push_back(part[1].str());
  }
  for (const std::string& letter : letters) Coordinates(cards, letter).move(step, first);
  Coordinates own(cards, "");
  own.move_sip(step);
  own.move_section(step, first);
  std::string out;
  for (const std::string& card : cards) out += (out.empty() ? "" : "\n") + card;
  return out;
}

std::string wcs_tables(const std::vector<std::string>& cards) {
  static const std::regex table("(CPDIS|CQDIS|D2IMDIS)[0-9]+[A-Z]?");
  for (const std::string& card : cards) {
    const std::string key = card_key(card);
    if (std::regex_match(key, table)) return key;
    if (key.starts_with("CTYPE") && card.find("-TAB") != std::string::npos) return key + " (-TAB)";
  }
  return "";
}

std::string number_card(const std::string& key, double value) {
  char text[32];
  char* const end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string number(text, end);
  std::replace(number.begin(), number.end(), 'e', 'E');
  if (number.find_first_of(".E") == std::string::npos) number += ".0";
  return fmt::format("{:<8}= {:>20}", key, number).substr(0, kCardLength);
}

}  // namespace tessera::io
