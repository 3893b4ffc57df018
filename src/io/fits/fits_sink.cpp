// SPDX-License-Identifier: BSD-3-Clause
#include "fits/fits_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <vector>

#include "fits/fits_wcs.hpp"
#include "fits/fits_words.hpp"
#include "places.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/version.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kBlock = 2880, kCard = 80;

std::string padded(std::string card) {
  card.resize(kCard, ' ');
  return card;
}

std::string whole_card(const std::string& key, std::int64_t value) {
  return padded(fmt::format("{:<8}= {:>20}", key, value));
}
std::string plain_card(const std::string& key, const std::string& value) {
  return padded(fmt::format("{:<8}= {:>20}", key, value));
}

// A text, over as many cards as it takes.
std::string text_cards(const std::string& key, const std::string& text) {
  constexpr std::size_t kMostLetters = 67;  // of a card, with the mark that more follow
  std::string out, line;
  bool first = true;
  const auto end_line = [&](bool more) {
    out += padded(
        fmt::format("{:<8}{} '{:<8}{}'", first ? key : "CONTINUE", first ? "=" : " ", line, more ? "&" : ""));
    line.clear();
    first = false;
  };
  for (const char c : text) {
    const std::string letter = c == '\'' ? "''" : std::string(1, c);
    if (line.size() + letter.size() > kMostLetters) end_line(true);
    line += letter;
  }
  end_line(false);
  return out;
}

// Cards of the observation: what FITS itself had, numbers as numbers, without sections of a detector.
std::string observation(const PlaceTexts& texts) {
  static const std::regex key_form("[A-Z0-9_-]{1,8}"),
      number("[+-]?(0|[1-9][0-9]*)?(\\.[0-9]*)?([ED][+-]?[0-9]+)?"), digits(".*[0-9].*");
  static constexpr const char* kOurOwn[] = {"SIMPLE",   "BITPIX",  "NAXIS",   "EXTEND",  "BZERO",
                                            "BSCALE",   "BLANK",   "END",     "DATAMIN", "DATAMAX",
                                            "TRIMSEC",  "DATASEC", "BIASSEC", "COMMENT", "HISTORY",
                                            "XTENSION", "PCOUNT",  "GCOUNT",  "CONTINUE"};
  std::string out;
  for (const auto& [key, text] : texts) {
    const bool letters = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
    const bool section = (key.ends_with("SEC") && text.starts_with("[")) || key.starts_with("CNPIX");
    if (section || !std::regex_match(key, key_form) || is_wcs_key(key) || !letters ||
        std::find(std::begin(kOurOwn), std::end(kOurOwn), key) != std::end(kOurOwn))
      continue;
    if (text == "T" || text == "F" ||
        (text.size() <= 20 && std::regex_match(text, number) && std::regex_match(text, digits)))
      out += plain_card(key, text);
    else
      out += text_cards(key, text);
  }
  return out;
}

// Where no header of FITS says it: steps along the axes from the first pixel on.
std::string plain_grid(const ImageSpace& space, const PlaceTexts& texts) {
  const std::vector<double> place = numbers_of(texts, kTranslation, 3);
  std::string out;
  for (std::size_t a = 1; a <= (space.box.extent(0) > 1 ? 3U : 2U); ++a) {
    const ImageSpace::Axis& axis = space.grid[3 - a];
    if (!(axis.spacing > 0)) continue;
    static const std::regex sky("(RA--|DEC-|GL|EL).*");  // without the rest they would mislead
    if (axis.name != ImageSpace().grid[3 - a].name && !std::regex_match(axis.name, sky))
      out += text_cards(fmt::format("CTYPE{}", a), axis.name);
    out += padded(number_card(fmt::format("CRPIX{}", a), 1)) +
           padded(number_card(fmt::format("CRVAL{}", a), place.empty() ? 0 : place[3 - a])) +
           padded(number_card(fmt::format("CDELT{}", a), axis.spacing));
    std::string unit = axis.unit == "\u00b5m" || axis.unit == "\u03bcm" ? "um" : axis.unit;
    if (unit == "\u00c5") unit = "Angstrom";
    if (!unit.empty() && std::all_of(unit.begin(), unit.end(), [](char c) { return c >= ' ' && c <= '~'; }))
      out += text_cards(fmt::format("CUNIT{}", a), unit);
  }
  return out;
}

std::vector<std::string> places_of(const PlaceTexts& texts) {
  std::vector<std::string> out;
  for (const auto& [key, wcs] : texts)
    for (std::size_t at = 0; key == kWcs && at < wcs.size();) {
      const std::size_t end = std::min(wcs.find('\n', at), wcs.size());
      const std::string card = wcs.substr(at, end - at);
      const bool letters = std::all_of(card.begin(), card.end(), [](char c) { return c >= ' ' && c <= '~'; });
      if (card.size() <= kCard && letters && is_wcs_key(card_key(card))) out.push_back(padded(card));
      at = end + 1;
    }
  return out;
}

// Three are colors where they have no other names.
bool are_colors(const ImageSpace& space) {
  std::string first;
  for (const std::string& name : space.channel_names)
    first += name.empty() ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return space.channels == 3 && (first.empty() || first == "RGB");
}

// The axis of the channels, beside the coordinates of the others: counted from 1, where nothing else is said of it.
std::string channel_axis(const ImageSpace& space, int axis, std::vector<std::string>& places) {
  const auto said = [&](const std::string& start) {
    return std::any_of(places.begin(), places.end(),
                       [&](const std::string& card) { return card_key(card).starts_with(start); });
  };
  for (std::string& card : places)  // of the others alone
    if (card_key(card) == "WCSAXES")
      card = whole_card("WCSAXES", std::max<std::int64_t>(axis, std::atoi(&card[10])));
  std::string out;
  const auto add = [&](const std::string& key, const std::string& card) {
    if (!said(key)) out += padded(card);
  };
  // Of a matrix what is not there is 0.
  const std::string step =
      said("CD1_") || said("CD2_") ? fmt::format("CD{}_{}", axis, axis) : fmt::format("CDELT{}", axis);
  add(fmt::format("CTYPE{}", axis),
      text_cards(fmt::format("CTYPE{}", axis), are_colors(space) ? "RGB" : "CHANNEL"));
  for (const std::string& key : {fmt::format("CRPIX{}", axis), fmt::format("CRVAL{}", axis), step})
    add(key, number_card(key, 1));
  for (std::size_t c = 0; c < space.channel_names.size(); ++c)
    if (const std::string& name = space.channel_names[c];
        std::all_of(name.begin(), name.end(), [](char l) { return l >= ' ' && l <= '~'; }))
      out += text_cards(fmt::format("CHAN{}", c + 1), name);
  return out;
}

class FitsSink final : public ImageSink {
 public:
  FitsSink(const std::string& path, const ImageRecord& record)
      : path_(path),
        part_(temporary_name(path + ".part")),
        record_(record),
        file_(part_, OutputFile::Use::make, path) {
    const std::string head = header();
    file_.append(head.data(), std::ssize(head));
    first_ = std::ssize(head);
  }
  ~FitsSink() override {
    std::error_code none;
    std::filesystem::remove(part_, none);
  }
  FitsSink(const FitsSink&) = delete;
  FitsSink& operator=(const FitsSink&) = delete;

  void write(const Box& band, const float* planar) override {
    const Box& whole = record_.space.box;
    const Index3 at = band.lo() - whole.lo();
    const std::int64_t element = record_.bits / 8;
    bytes_.resize(static_cast<std::size_t>(band.pixels() * element));
    for (std::int64_t c = 0; c < record_.space.channels; ++c) {
      std::uint8_t* to = bytes_.data();
      for (std::int64_t k = 0; k < band.pixels(); ++k, to += element, ++planar) {
        std::uint32_t word = std::bit_cast<std::uint32_t>(*planar);
        if (record_.bits == 16)
          word = whole_number(*planar, 16) ^ 0x8000U;  // less 32768, of two's complement
        if (record_.bits == 8) word = whole_number(*planar, 8);
        for (std::int64_t b = 0; b < element; ++b)
          to[b] = static_cast<std::uint8_t>(word >> (8 * (element - 1 - b)));
      }
      const std::int64_t row = (c * whole.extent(0) + at[0]) * whole.extent(1) + at[1];
      file_.write(first_ + row * whole.extent(2) * element, bytes_.data(), std::ssize(bytes_));
    }
  }

  void finish() override {
    const std::int64_t data = record_.space.values() * (record_.bits / 8);
    constexpr auto kWhole = static_cast<std::int64_t>(kBlock);
    file_.resize(first_ + (data + kWhole - 1) / kWhole * kWhole);
    file_.close();
    write_whole(path_, [&](const std::string& temporary) { std::filesystem::rename(part_, temporary); });
  }

 private:
  std::string header() const {
    const ImageSpace& space = record_.space;
    std::vector<std::int64_t> axes{space.box.extent(2), space.box.extent(1)};
    if (space.box.extent(0) > 1) axes.push_back(space.box.extent(0));
    if (space.channels > 1) axes.push_back(space.channels);
    std::string out = plain_card("SIMPLE", "T") +
                      whole_card("BITPIX", record_.bits == 32 ? -32 : record_.bits) +
                      whole_card("NAXIS", std::ssize(axes));
    for (std::size_t k = 0; k < axes.size(); ++k) out += whole_card(fmt::format("NAXIS{}", k + 1), axes[k]);
    if (record_.bits == 16) out += whole_card("BZERO", 32768) + whole_card("BSCALE", 1);
    PlaceTexts texts = record_.metadata.text;
    move_place(texts, space);
    std::vector<std::string> places = places_of(texts);
    std::string channels;
    if (space.channels > 1) {
      channels = channel_axis(space, static_cast<int>(axes.size()), places);
      std::erase_if(texts, [](const auto& text) { return is_channel_key(text.first); });
    }
    for (const std::string& card : places) out += card;
    if (places.empty()) out += plain_grid(space, texts);
    out += channels;
    out +=
        observation(texts) + padded(fmt::format("COMMENT written by tessera {}", version())) + padded("END");
    out.resize((out.size() + kBlock - 1) / kBlock * kBlock, ' ');
    return out;
  }

  std::string path_, part_;
  ImageRecord record_;
  OutputFile file_;
  std::int64_t first_ = 0;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace

std::unique_ptr<ImageSink> create_fits(const std::string& path, const ImageRecord& record,
                                       const Communicator& comm) {
  return std::make_unique<FitsSink>(path, record);
}

}  // namespace tessera::io
