// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera {

std::int64_t parse_bytes(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 9> units = {{{"", 1.0},
                                                                                {"B", 1.0},
                                                                                {"kB", 1e3},
                                                                                {"MB", 1e6},
                                                                                {"GB", 1e9},
                                                                                {"KiB", 0x1p10},
                                                                                {"MiB", 0x1p20},
                                                                                {"GiB", 0x1p30},
                                                                                {"TiB", 0x1p40}}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  while (!unit.empty() && unit.back() == ' ') unit.remove_suffix(1);
  const auto* known =
      std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.first == unit; });
  TESSERA_VALIDATE(
      error == std::errc{} && known != units.end() && number >= 0 && number * known->second < 0x1p62, "'",
      std::string(text),
      "' is no amount of memory (wanted a number and a unit) write for example '8 GiB', "
      "'512 MiB' or '100 MB'");
  return static_cast<std::int64_t>(std::llround(number * known->second));
}

std::string format_bytes(double bytes) {
  static constexpr std::array<const char*, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t u = 0;
  while (std::abs(bytes) >= 999.95 && u + 1 < units.size()) {
    bytes /= 1000.0;
    ++u;
  }
  return u == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[u]);
}

std::string format_seconds(double s) {
  if (!std::isfinite(s)) return "?";
  if (s <= 0) return "0 s";
  if (s < 1e-3) return fmt::format("{:.1f} us", s * 1e6);
  if (s < 1.0) return fmt::format("{:.1f} ms", s * 1e3);
  if (s < 60.0) return fmt::format("{:.1f} s", s);
  const auto whole = static_cast<std::int64_t>(std::llround(s));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 2;  // only what a slip of the finger explains
  for (const std::string& candidate : known) {
    // Letters that changed places with their neighbors are one slip.
    std::vector<std::size_t> row(candidate.size() + 1), before, last;  // of one letter less, and of two
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      last = std::exchange(before, row);
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const bool same = word[i - 1] == candidate[j - 1];
        row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && word[i - 1] == candidate[j - 2] && word[i - 2] == candidate[j - 1])
          row[j] = std::min(row[j], last[j - 2] + 1);
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:@%,";
  // Other scripts' letters are no signs of a shell's.
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c & 0x80) != 0 || kPlain.find(c) != std::string_view::npos;
  });
  if (plain) return text;
  if (text.find_first_of("$`\"\\!") == std::string::npos)
    return '"' + text + '"';  // messages have ' around commands
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace tessera
