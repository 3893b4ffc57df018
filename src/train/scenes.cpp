// SPDX-License-Identifier: BSD-3-Clause
#include "scenes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "tessera/core/box.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::training {
namespace {

namespace fs = std::filesystem;

bool excluded(const fs::path& file, const std::vector<std::string>& exclude) {
  const std::string name = file.stem().string();
  const std::string longer = file.parent_path().filename().string() + "/" + name;
  return std::any_of(exclude.begin(), exclude.end(),
                     [&](const std::string& e) { return e == name || e == longer; });
}

// As for measured data: what is no number, or far outside of the range, would be learned as black or white.
void check_values(const fs::path& file, const std::vector<float>& values, double white) {
  constexpr double kBeyond = 0.5;  // of the range
  std::int64_t missing = 0, beyond = 0;
  float most = -std::numeric_limits<float>::infinity();
  for (const float v : values) {
    missing += !std::isfinite(v);
    beyond += v < -kBeyond * white || v > (1 + kBeyond) * white;
    if (std::isfinite(v)) most = std::max(most, v);
  }
  const std::string advice = ") correct it, or leave it out: train.exclude";
  TESSERA_VALIDATE(missing == 0, file.string(), " has ", missing, " of ", values.size(),
                   " values that are not numbers (they would be learned", advice);
  TESSERA_VALIDATE(beyond * 1000 <= static_cast<std::int64_t>(values.size()), file.string(), " reaches ",
                   most, " (a training picture of real numbers has 0 as black and ", white, " as white",
                   advice);
}

Picture read_picture(const fs::path& file, std::int64_t channels) {
  const std::unique_ptr<ImageSource> source = open_image(file.string());
  const SourceInfo& info = source->info();
  TESSERA_VALIDATE(info.channels == 1 || info.channels == 3, file.string(), " has ", info.channels,
                   " channels (training pictures are gray or RGB) leave it out");
  const std::int64_t pixels = info.box.pixels();
  std::vector<float> planar(info.channels * pixels);
  source->read_floats(info.box, planar.data());
  check_values(file, planar, info.full_scale);
  Picture picture{file.stem().string(), channels, info.box.extent(1), info.box.extent(2), {}};
  picture.values.resize(channels * pixels);
  const auto scale = static_cast<float>(255.0 / info.full_scale);
  const auto byte = [](float value) {
    return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
  };
  for (std::int64_t i = 0; i < pixels; ++i) {
    std::array<float, 3> v{};
    for (std::int64_t c = 0; c < 3; ++c) v[c] = scale * planar[(info.channels == 1 ? 0 : c) * pixels + i];
    if (channels == 1)
      picture.values[i] = byte(info.channels == 1 ? v[0] : 0.299F * v[0] + 0.587F * v[1] + 0.114F * v[2]);
    else
      for (std::int64_t c = 0; c < channels; ++c) picture.values[c * pixels + i] = byte(v[c]);
  }
  return picture;
}

}  // namespace

std::vector<Picture> read_pictures(const std::vector<std::string>& folders,
                                   const std::vector<std::string>& exclude, std::int64_t channels) {
  TESSERA_VALIDATE(channels == 1 || channels == 3, "training images with ", channels,
                   " channels (pictures are gray or RGB) use 1 or 3");
  std::vector<Picture> pictures;
  for (const std::string& folder : folders) {
    std::vector<fs::path> files;
    if (fs::is_regular_file(folder)) {
      files.emplace_back(folder);
    } else {
      TESSERA_VALIDATE(fs::is_directory(folder), "there is no folder ", folder,
                       " (training needs its pictures) correct the path");
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.is_regular_file() && is_picture(entry.path().string())) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    const std::size_t before = pictures.size();
    for (const fs::path& file : files)
      if (!excluded(file, exclude)) pictures.push_back(read_picture(file, channels));
    TESSERA_VALIDATE(pictures.size() > before, folder, " holds no pictures to use (PNG, JPEG, TIFF ... that ",
                     "are not excluded) name another folder");
  }
  return pictures;
}

std::vector<std::string> doubts_about(const std::vector<Picture>& pictures) {
  constexpr int kDim = 32;  // an eighth of white
  std::vector<std::string> doubts;
  const auto doubt = [&](const auto& is_one, const char* what) {
    const std::int64_t n = std::count_if(pictures.begin(), pictures.end(), is_one);
    if (n == 0) return;
    const auto first = std::find_if(pictures.begin(), pictures.end(), is_one);
    doubts.push_back(concat(n, " of ", pictures.size(), " pictures ", what, ", ", first->name,
                            n > 1 ? " for one" : "", " (train.exclude leaves out by name)"));
  };
  const auto ends = [](const Picture& p) { return std::minmax_element(p.values.begin(), p.values.end()); };
  doubt([&](const Picture& p) { return *ends(p).first == *ends(p).second; }, "have one value everywhere");
  doubt([&](const Picture& p) { return *ends(p).first < *ends(p).second && *ends(p).second < kDim; },
        "stay below an eighth of white");
  return doubts;
}

Draws::Draws(std::uint64_t seed, std::int64_t step, std::int64_t item, std::uint32_t use)
    : random_(seed, RandomStream::training, use, static_cast<std::uint32_t>(step)), item_(item) {}

std::int64_t Draws::below(std::int64_t n) {
  if (n < 1) throw ContractError(concat("a draw below ", n, " (there is none) ask for at least one"));
  return std::min(n - 1, static_cast<std::int64_t>(uniform() * static_cast<double>(n)));
}

void photograph_crop(const Picture& picture, bool shrink, std::int64_t side, Draws& draws, float* out) {
  if (shrink && (picture.height < 2 * side || picture.width < 2 * side)) shrink = false;
  const std::int64_t span = shrink ? 2 * side : side;
  const std::int64_t row = draws.below(picture.height - span + 1);
  const std::int64_t column = draws.below(picture.width - span + 1);
  const std::int64_t turn = draws.below(8);
  for (std::int64_t c = 0; c < picture.channels; ++c) {
    const std::uint8_t* plane = picture.values.data() + c * picture.height * picture.width;
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t k = 0; k < side; ++k) {
        std::int64_t a = turn & 1 ? side - 1 - i : i, b = turn & 2 ? side - 1 - k : k;
        if (turn & 4) std::swap(a, b);
        float value = 0;
        if (shrink) {
          const std::uint8_t* p = plane + (row + 2 * a) * picture.width + column + 2 * b;
          value = 0.25F * static_cast<float>(p[0] + p[1] + p[picture.width] + p[picture.width + 1]);
        } else {
          value = plane[(row + a) * picture.width + column + b];
        }
        *out++ = value / 255.0F;
      }
  }
}

void dead_leaves(std::int64_t channels, std::int64_t side, Draws& draws, float* out) {
  const std::int64_t fine = 2 * side;
  std::vector<float> color(channels * fine * fine, 0.5F);
  std::vector<bool> covered(fine * fine, false);
  const double smallest = 3.0, largest = static_cast<double>(fine);
  std::int64_t open = fine * fine;
  // From the front backward; after so many leaves only specks are left, they stay gray.
  for (int leaf = 0; leaf < 2000 && open > 0; ++leaf) {
    const double u = draws.uniform();
    const double inverse =
        1 / (smallest * smallest) + u * (1 / (largest * largest) - 1 / (smallest * smallest));
    const double radius = 1 / std::sqrt(inverse);  // density ~ r^-3
    const double y = draws.uniform() * (fine + 2 * radius) - radius;
    const double x = draws.uniform() * (fine + 2 * radius) - radius;
    // Mostly luminance, some chroma, a slope across the leaf.
    const double light = draws.uniform(), angle = 6.283185307179586 * draws.uniform();
    const double slope = (draws.uniform() - 0.5) * 0.5 / radius;
    std::array<float, 3> base{};
    for (std::int64_t c = 0; c < channels; ++c)
      base[c] = static_cast<float>(light + (channels == 1 ? 0.0 : 0.4 * (draws.uniform() - 0.5)));
    const auto first_row = static_cast<std::int64_t>(std::max(0.0, std::ceil(y - radius)));
    const auto last_row =
        static_cast<std::int64_t>(std::min<double>(static_cast<double>(fine - 1), y + radius));
    for (std::int64_t i = first_row; i <= last_row; ++i) {
      const double dy = static_cast<double>(i) - y;
      const double half = std::sqrt(std::max(0.0, radius * radius - dy * dy));
      const auto begin = static_cast<std::int64_t>(std::max(0.0, std::ceil(x - half)));
      const auto end = static_cast<std::int64_t>(std::min<double>(static_cast<double>(fine - 1), x + half));
      for (std::int64_t k = begin; k <= end; ++k) {
        if (covered[i * fine + k]) continue;
        covered[i * fine + k] = true;
        --open;
        const double ramp = slope * (std::cos(angle) * dy + std::sin(angle) * (static_cast<double>(k) - x));
        for (std::int64_t c = 0; c < channels; ++c)
          color[(c * fine + i) * fine + k] = std::clamp(base[c] + static_cast<float>(ramp), 0.0F, 1.0F);
      }
    }
  }
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t k = 0; k < side; ++k) {
        const float* p = color.data() + (c * fine + 2 * i) * fine + 2 * k;
        *out++ = 0.25F * (p[0] + p[1] + p[fine] + p[fine + 1]);
      }
}

}  // namespace tessera::training
