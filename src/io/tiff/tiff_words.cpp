// SPDX-License-Identifier: BSD-3-Clause
#include "tiff/tiff_words.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

#include "places.hpp"
#include "tessera/core/error.hpp"
#include "tiff/ome_xml.hpp"
#include "tiff/tiff_geo.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kMostPairs = 256;  // of text that goes along with an image

struct TextTag {
  std::uint32_t tag;
  const char* key;
  bool written = true;  // else it would speak of another program
};
constexpr TextTag kTextTags[] = {{TIFFTAG_ARTIST, "Artist"},     {TIFFTAG_COPYRIGHT, "Copyright"},
                                 {TIFFTAG_DATETIME, "DateTime"}, {TIFFTAG_DOCUMENTNAME, "DocumentName"},
                                 {TIFFTAG_MAKE, "Make"},         {TIFFTAG_MODEL, "Model"},
                                 {TIFFTAG_PAGENAME, "PageName"}, {TIFFTAG_SOFTWARE, "Software", false}};
constexpr const char* kDescription = "ImageDescription";

// Lengths: words of files, OME's word, millimeters.
struct Length {
  std::vector<std::string_view> words;
  const char* ome;
  double millimeters;
};
const std::vector<Length>& lengths() {
  static const std::vector<Length> all{
      {{"nm"}, "nm", 1e-6},
      {{"\u00b5m", "\u03bcm", "um", "micron", "microns", "micrometer"}, "\u00b5m", 1e-3},
      {{"mm"}, "mm", 1},
      {{"cm"}, "cm", 10},
      {{"m"}, "m", 1000},
      {{"inch", "in"}, "in", 25.4},
      {{"\u00c5", "A", "angstrom"}, "\u00c5", 1e-7}};
  return all;
}
const Length* length_of(const std::string& unit) {
  for (const Length& one : lengths())
    if (std::find(one.words.begin(), one.words.end(), unit) != one.words.end()) return &one;
  return nullptr;
}

double number_of(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::isfinite(value) && value > 0 ? value : 0;
}

void set(ImageSpace::Axis& axis, double spacing, const std::string& unit) {
  if (!(std::isfinite(spacing) && spacing > 0)) return;
  axis.spacing = spacing;
  axis.unit = unit;
}

// Coefficients of values by stored numbers. 0: a line; 20: none; others are curves. Source: ij.measure.Calibration.
void read_calibration(TiffWords& out, std::string_view kind, std::string_view offset,
                      std::string_view scale) {
  const auto number = [](std::string_view text) -> std::optional<double> {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
    return value;
  };
  const auto c0 = number(offset), c1 = number(scale);
  const double line = number(kind).value_or(0);
  if (line != 0 && line != 20) out.curved = kind;
  if (line == 0 && c0 && c1 && *c1 != 0) out.calibration = {*c0, *c1};
}

// Lines key=value; the resolution is of pixels per `unit` where the tags have no unit of their own.
// Source: ij.io.TiffEncoder, ij.io.FileOpener.
void read_imagej(TiffWords& out, std::string_view text, double x, double y, std::uint16_t kind) {
  const auto value = [&](std::string_view key) {
    for (std::size_t at = text.find(key, 1); at != text.npos; at = text.find(key, at + 1))
      if (const std::size_t first = at + key.size(); text[at - 1] == '\n')
        return text.substr(first, std::min(text.find('\n', first), text.size()) - first);
    return std::string_view();
  };
  read_calibration(out, value("cf="), value("c0="), value("c1="));
  std::string unit(value("unit="));
  if (const std::size_t escaped = unit.find("\\u00B5"); escaped != unit.npos)
    unit.replace(escaped, 6, "\u00b5");
  if (unit.empty() || unit.starts_with("pixel")) return;
  if (kind == RESUNIT_NONE && x > 0 && y > 0) {
    set(out.grid[2], 1 / x, unit);
    set(out.grid[1], 1 / y, unit);
  }
  set(out.grid[0], number_of(value("spacing=")), unit);
}

void read_ome(TiffWords& out, std::string_view xml) {
  std::size_t at = 0;
  const std::string_view pixels = next_element(xml, "Pixels", at);
  constexpr const char* kAxes[] = {"Z", "Y", "X"};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::string key = concat("PhysicalSize", kAxes[d]);
    const std::string_view unit = attribute(pixels, key + "Unit");
    // OME's schema says which unit it is where none is written.
    set(out.grid[d], number_of(attribute(pixels, key)), unit.empty() ? "\u00b5m" : xml_meant(unit));
  }
  const std::string_view inside = xml.substr(0, xml.find("Pixels>", at));  // up to its end
  bool named = false;
  for (std::string_view e = next_element(inside, "Channel", at); !e.empty();
       e = next_element(inside, "Channel", at)) {
    out.channel_names.push_back(xml_meant(attribute(e, "Name")));
    named = named || !out.channel_names.back().empty();
  }
  if (!named) out.channel_names.clear();
  at = 0;
  for (std::string_view e = next_element(xml, "M", at); !e.empty() && out.metadata.text.size() < kMostPairs;
       e = next_element(xml, "M", at)) {
    const std::string_view text = xml.substr(at + 1, xml.find('<', at) - at - 1);
    if (const std::string_view key = attribute(e, "K"); !key.empty())
      out.metadata.text.emplace_back(xml_meant(key), xml_meant(text));
  }
}

std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// Pixels of an axis per unit of the resolution tags, as they hold it.
float per_unit(const ImageSpace::Axis& axis, const Length& unit, bool inches) {
  return static_cast<float>((inches ? 25.4 : 10) / (axis.spacing * unit.millimeters));
}

bool is_tag(const std::string& key) {
  return is_geo(key) || std::any_of(std::begin(kTextTags), std::end(kTextTags),
                                    [&](const TextTag& t) { return t.written && key == t.key; });
}

// What OME has a place for.
std::string ome_description(const ImageRecord& r) {
  const ImageSpace& s = r.space;
  std::string out = concat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?><OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/"
      "2016-06\"><Image ID=\"Image:0\"><Pixels ID=\"Pixels:0\" DimensionOrder=\"XYCZT\" Type=\"",
      r.bits == 8    ? "uint8"
      : r.bits == 16 ? "uint16"
                     : "float",
      "\" SizeX=\"", s.box.extent(2), "\" SizeY=\"", s.box.extent(1), "\" SizeC=\"", s.channels,
      "\" SizeZ=\"", s.box.extent(0), "\" SizeT=\"1\"");
  constexpr const char* kAxes[] = {"Z", "Y", "X"};
  for (std::size_t d = 0; d < 3; ++d)
    if (const Length* const unit = length_of(s.grid[d].unit); unit && s.grid[d].spacing > 0)
      out += concat(" PhysicalSize", kAxes[d], "=\"", shortest(s.grid[d].spacing), "\" PhysicalSize",
                    kAxes[d], "Unit=\"", unit->ome, '"');
  out += ">";
  if (s.channel_names.empty())
    out += concat("<Channel ID=\"Channel:0:0\" SamplesPerPixel=\"", s.channels, "\"/>");
  for (std::size_t c = 0; c < s.channel_names.size(); ++c)
    out += concat("<Channel ID=\"Channel:0:", c, "\" Name=\"", xml_written(s.channel_names[c]), "\"/>");
  out += "<TiffData/></Pixels></Image>";
  std::string pairs;
  for (const auto& [key, text] : r.metadata.text)
    if (!is_tag(key)) pairs += concat("<M K=\"", xml_written(key), "\">", xml_written(text), "</M>");
  if (!pairs.empty())
    out += concat("<StructuredAnnotations><MapAnnotation ID=\"Annotation:0\"><Value>", pairs,
                  "</Value></MapAnnotation></StructuredAnnotations>");
  return out + "</OME>";
}

// Whether tags hold what there is to be said, apart from those of the resolution.
bool tags_suffice(const ImageRecord& r) {
  if (!r.space.channel_names.empty()) return false;
  return std::all_of(r.metadata.text.begin(), r.metadata.text.end(),
                     [](const auto& pair) { return is_tag(pair.first) || pair.first == kDescription; });
}

}  // namespace

TiffWords tiff_words(const TiffFile& file, const std::string& description) {
  TiffWords out;
  TIFF* const t = file.get();
  for (const TextTag& one : kTextTags)
    if (const std::string text = file.text(one.tag); !text.empty())
      out.metadata.text.emplace_back(one.key, text);
  for (auto& pair : geo_texts(t)) out.metadata.text.push_back(std::move(pair));
  std::uint32_t count = 0;
  const std::uint8_t* profile = nullptr;
  if (TIFFGetField(t, TIFFTAG_ICCPROFILE, &count, &profile))
    out.metadata.profile.assign(profile, profile + count);
  float x = 0, y = 0;
  std::uint16_t kind = RESUNIT_INCH;
  TIFFGetFieldDefaulted(t, TIFFTAG_RESOLUTIONUNIT, &kind);
  const bool both = TIFFGetField(t, TIFFTAG_XRESOLUTION, &x) && TIFFGetField(t, TIFFTAG_YRESOLUTION, &y);
  if (both && x > 0 && y > 0 && (kind == RESUNIT_INCH || kind == RESUNIT_CENTIMETER)) {
    const char* const unit = kind == RESUNIT_INCH ? "inch" : "cm";
    set(out.grid[2], 1 / static_cast<double>(x), unit);
    set(out.grid[1], 1 / static_cast<double>(y), unit);
  }
  std::size_t at = 0;
  if (description.starts_with("ImageJ="))
    read_imagej(out, description, x, y, kind);
  else if (!next_element(description, "OME", at).empty())
    read_ome(out, description);
  else if (!description.empty() && !description.starts_with('{'))
    out.metadata.text.emplace_back(kDescription, description);
  return out;
}

void set_tiff_words(TIFF* tiff, const ImageRecord& record, bool first_page) {
  const ImageSpace& space = record.space;
  const Metadata& data = record.metadata;
  if (!data.profile.empty())
    TIFFSetField(tiff, TIFFTAG_ICCPROFILE, static_cast<std::uint32_t>(data.profile.size()),
                 data.profile.data());
  bool exact = true;  // what the resolution tags say
  const Length *const x = length_of(space.grid[2].unit), *const y = length_of(space.grid[1].unit);
  if (x && y && space.grid[2].spacing > 0 && space.grid[1].spacing > 0) {
    const bool inches = x->ome == std::string_view("in");
    const std::array<float, 2> per{per_unit(space.grid[2], *x, inches), per_unit(space.grid[1], *y, inches)};
    const bool fits = std::all_of(per.begin(), per.end(), [](float v) { return v > 1e-6F && v < 4e9F; });
    if (fits) {
      TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, inches ? RESUNIT_INCH : RESUNIT_CENTIMETER);
      TIFFSetField(tiff, TIFFTAG_XRESOLUTION, static_cast<double>(per[0]));
      TIFFSetField(tiff, TIFFTAG_YRESOLUTION, static_cast<double>(per[1]));
    }
    const std::string_view unit = inches ? "in" : "cm";
    exact = fits && x->ome == unit && y->ome == unit &&
            1 / static_cast<double>(per[0]) == space.grid[2].spacing &&
            1 / static_cast<double>(per[1]) == space.grid[1].spacing;
  }
  if (!first_page) return;
  Texts places = data.text;
  move_place(places, space);
  set_geo_tags(tiff, places);
  for (const auto& [key, text] : data.text)
    for (const TextTag& one : kTextTags)
      if (one.written && key == one.key) TIFFSetField(tiff, one.tag, text.c_str());
  const bool deep = space.grid[0].spacing > 0 && length_of(space.grid[0].unit) && space.box.extent(0) > 1;
  if (!exact || deep || !tags_suffice(record)) {
    ImageRecord there = record;
    there.metadata.text = places;
    TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, ome_description(there).c_str());
    return;
  }
  for (const auto& [key, text] : data.text)
    if (key == kDescription) TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, text.c_str());
}

}  // namespace tessera::io
