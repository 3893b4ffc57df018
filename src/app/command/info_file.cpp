// SPDX-License-Identifier: BSD-3-Clause
#include "command/info_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostSamples = 1LL << 26;   // that are looked at
constexpr std::int64_t kColumns = 64, kRows = 48;  // of the picture
constexpr std::size_t kMostText = 100, kMostParts = 24;

void line(const std::string& key, const std::string& text) {
  std::printf("%-11s %s\n", key.c_str(), text.c_str());
}

std::string counted(std::int64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// Bytes of a file, or of all files of a folder.
double bytes_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_directory(path, none)) return static_cast<double>(fs::file_size(path, none));
  double all = 0;
  for (fs::recursive_directory_iterator at(path, none), end; at != end; at.increment(none))
    if (at->is_regular_file(none)) all += static_cast<double>(at->file_size(none));
  return all;
}

// Means over cells of the middle slice.
struct Small {
  std::int64_t rows = 0, columns = 0, channels = 1;
  std::vector<double> sums, counts;
  Box slice;

  explicit Small(const SourceInfo& info) {
    const std::int64_t z = info.box.extent(0) / 2, h = info.box.extent(1), w = info.box.extent(2);
    slice = info.box.intersect(Box({z, 0, 0}, {z + 1, h, w}));
    const double scale = std::max({static_cast<double>(w) / kColumns, static_cast<double>(h) / kRows, 1.0});
    columns = std::max<std::int64_t>(1, std::llround(static_cast<double>(w) / scale));
    rows = std::max<std::int64_t>(1, std::llround(static_cast<double>(h) / scale));
    channels = info.channels == 3 ? 3 : 1;
    sums.assign(static_cast<std::size_t>(rows * columns * channels), 0);
    counts = sums;
  }
  void add(std::int64_t c, std::int64_t y, std::int64_t x, double v) {
    const auto k = static_cast<std::size_t>((c * rows + y * rows / slice.extent(1)) * columns +
                                            x * columns / slice.extent(2));
    sums[k] += v;
    counts[k] += 1;
  }
};

struct Range {
  double least = HUGE_VAL, most = -HUGE_VAL, sum = 0;
  std::int64_t numbers = 0, looked = 0;
};

// Reads it by pieces; of what is very large some of them, evenly.
Range look_through(ImageSource& source, Small& small) {
  const SourceInfo& info = source.info();
  const std::vector<Box> pieces = source.pieces(info.box, ImageSource::kBandBytes);
  const auto every = static_cast<std::size_t>(
      source.random_access() ? std::max<std::int64_t>(1, info.values() / kMostSamples) : 1);
  Range out;
  std::vector<float> values;
  for (std::size_t k = 0; k < pieces.size(); k += every) {
    beat();
    const Box& box = pieces[k];
    values.resize(static_cast<std::size_t>(box.pixels() * info.channels));
    source.read_floats(box, values.data());
    const float* at = values.data();
    for (std::int64_t c = 0; c < info.channels; ++c)
      for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z)
        for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
          for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x) {
            const auto v = static_cast<double>(*at++);
            if (!std::isfinite(v)) continue;
            ++out.numbers;
            out.sum += v;
            out.least = std::min(out.least, v);
            out.most = std::max(out.most, v);
            if (z == small.slice.lo()[0] && c < small.channels) small.add(c, y, x, v);
          }
    out.looked += std::ssize(values);
  }
  return out;
}

// Two rows of cells are a line of characters, of which the upper and the lower half are colored.
void draw(const Small& small, bool colors) {
  double least = HUGE_VAL, most = -HUGE_VAL;
  std::vector<double> mean(small.sums.size(), 0);
  for (std::size_t k = 0; k < mean.size(); ++k) {
    if (small.counts[k] == 0) continue;
    mean[k] = small.sums[k] / small.counts[k];
    least = std::min(least, mean[k]);
    most = std::max(most, mean[k]);
  }
  if (!(most > least)) return;
  const auto level = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    if (y >= small.rows) return 0;
    const auto k =
        static_cast<std::size_t>((std::min(c, small.channels - 1) * small.rows + y) * small.columns + x);
    return small.counts[k] == 0 ? 0 : static_cast<int>(std::lround(255 * (mean[k] - least) / (most - least)));
  };
  for (std::int64_t y = 0; y < small.rows; y += 2) {
    std::string text;
    for (std::int64_t x = 0; x < small.columns; ++x) {
      if (colors) {
        text += fmt::format("\033[38;2;{};{};{}m\033[48;2;{};{};{}m\u2580", level(0, y, x), level(1, y, x),
                            level(2, y, x), level(0, y + 1, x), level(1, y + 1, x), level(2, y + 1, x));
      } else {
        constexpr std::string_view kShades = " .:-=+*#%@";
        const int both = y + 1 < small.rows ? level(0, y + 1, x) : level(0, y, x);
        text += kShades[static_cast<std::size_t>((level(0, y, x) + both) * 9 / 510)];
      }
    }
    std::printf("%s%s\n", text.c_str(), colors ? "\033[0m" : "");
  }
}

void describe_axes(const SourceInfo& info) {
  const Index3 size = info.box.extents();
  line("image",
       fmt::format("{}, {}{} x {}, {}", counted(info.channels, "channel"),
                   size[0] > 1 ? counted(size[0], "slice") + " of " : "", size[1], size[2], info.type));
  std::vector<std::string> sizes;
  for (std::size_t d = size[0] > 1 ? 0 : 1; d < 3; ++d)
    if (const ImageSpace::Axis& axis = info.grid[d]; axis.spacing > 0)
      sizes.push_back(fmt::format("{} {:g} {}", axis.name, axis.spacing, axis.unit));
  if (!sizes.empty()) line("pixels", fmt::format("{}", fmt::join(sizes, ", ")));
  if (!info.channel_names.empty()) line("channels", fmt::format("{}", fmt::join(info.channel_names, ", ")));
  if (!info.orientation.empty()) line("directions", info.orientation);
}

void describe_image(ImageSource& source, const std::string& picture) {
  const SourceInfo& info = source.info();
  describe_axes(info);
  for (const auto& [key, text] : source.about()) line(key, text);
  Small small(info);
  const Range range = look_through(source, small);
  const std::int64_t missing = range.looked - range.numbers;
  if (range.numbers > 0)
    line("range",
         fmt::format("{:.7g} to {:.7g}, mean {:.5g}{}{}", range.least, range.most,
                     range.sum / static_cast<double>(range.numbers),
                     missing > 0 ? fmt::format("; {} are no numbers", counted(missing, "value")) : "",
                     range.looked < info.values() ? fmt::format("; of {:.2g} % of its values",
                                                                100.0 * static_cast<double>(range.looked) /
                                                                    static_cast<double>(info.values()))
                                                  : ""));
  else
    line("range", "no value is a number");
  if (info.says_scale)
    line("scale", fmt::format("{:g} is 0 and {:g} is 1 inside", info.offset, info.offset + info.full_scale));
  if (info.light.says == StoredLight::Says::curve && !info.light.curve.none())
    line("light", "stored in a curve, by " + info.light.by);
  if (!info.note.empty()) line("note", info.note);
  const Metadata metadata = source.metadata();
  if (!metadata.profile.empty()) line("profile", fmt::format("ICC, {} bytes", metadata.profile.size()));
  for (const auto& [key, text] : metadata.text) {
    std::string shown = text.substr(0, kMostText);
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char c) { return c < ' '; }, ' ');
    line("text", fmt::format("{}: {}{}", key, shown, text.size() > kMostText ? " ..." : ""));
  }
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  if (picture == "color" || picture == "text" || (picture == "auto" && terminal))
    draw(small, picture != "text");
}

}  // namespace

void describe_file(const std::string& path, const std::string& picture) {
  const ImagePath named = image_path(path);
  std::unique_ptr<ImageSource> source;
  std::string several;
  try {
    source = open_image(path);
  } catch (const InputError& e) {
    if (!named.part.empty()) throw;
    several = e.what();
  }
  // One of several: what the file has, and the first that can be read.
  std::vector<std::pair<std::string, std::string>> parts;
  if (named.part.empty() && named.format->list) parts = named.format->list(named.file);
  std::string shown = path;
  for (std::size_t k = 0; !source && k < parts.size(); ++k) try {
      source = open_image(named.file + ":" + parts[k].first);
      shown = named.file + ":" + parts[k].first;
    } catch (const InputError&) {
      continue;
    }
  if (!source && parts.empty()) throw InputError(several);
  line("file", fmt::format("{}, {}, {}", named.file, named.format->name, format_bytes(bytes_of(named.file))));
  if (!several.empty()) line("note", several);
  if (shown != path) line("shown", shown);
  if (source) describe_image(*source, picture);
  for (std::size_t k = 0; k < std::min(parts.size(), kMostParts); ++k)
    line(k == 0 ? "parts" : "", fmt::format("{}:{}  {}", named.file, parts[k].first, parts[k].second));
  if (parts.size() > kMostParts) line("", fmt::format("and {} more", parts.size() - kMostParts));
}

void print_parts_table(const std::string& path, const std::string& key) {
  const ImagePath named = image_path(path);
  const std::string file = std::filesystem::absolute(named.file).lexically_normal().string();
  std::vector<std::pair<std::string, std::string>> parts;
  const std::string below = named.part.empty() ? file : file + named.part;
  bool one = false;
  if (!named.part.empty()) try {
      (void)open_image(path);
      one = true;
    } catch (const InputError&) {
      one = false;  // a well, a group
    }
  if (named.format->list && !one) parts = named.format->list(named.part.empty() ? file : below);
  TESSERA_VALIDATE(!parts.empty(), path, " holds one image (a table is of several) name it in the job");
  std::printf("%s\n", key.c_str());
  for (const auto& [part, about] : parts) {
    std::string cell = file + ":" + named.part + part, yaml, quoted;
    for (const char c : cell) yaml += c == '\'' ? "''" : std::string(1, c);
    for (const char c : concat("'", yaml, "'")) quoted += c == '"' ? "\"\"" : std::string(1, c);
    std::printf("\"%s\"\n", quoted.c_str());
  }
}

}  // namespace tessera
