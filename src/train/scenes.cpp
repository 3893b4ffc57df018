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

constexpr const char* kAdvice = ") correct it, or leave it out: train.exclude";

// As for measured data: what is no number would be learned as black or white.
void check_numbers(const fs::path& file, const std::vector<float>& values) {
  const std::int64_t missing =
      std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  TESSERA_VALIDATE(missing == 0, file.string(), " has ", missing, " of ", values.size(),
                   " values that are not numbers (they would be learned", kAdvice);
}

/// File values of black and white.
struct Ends {
  double black = 0, white = 1;
};

// And so would what lies far outside of the range.
void check_range(const fs::path& file, const std::vector<float>& values, const Ends& ends) {
  constexpr double kBeyond = 0.5;  // of the range
  const double slack = kBeyond * (ends.white - ends.black);
  const std::int64_t beyond = std::count_if(values.begin(), values.end(), [&](float v) {
    return v < ends.black - slack || v > ends.white + slack;
  });
  TESSERA_VALIDATE(beyond * 1000 <= static_cast<std::int64_t>(values.size()), file.string(), " reaches ",
                   *std::max_element(values.begin(), values.end()),
                   " (a training picture of real numbers has ", ends.black, " as black and ", ends.white,
                   " as white", kAdvice);
}

/// Whether a file of this name may hold a volume.
bool is_volume(const std::string& path) {
  const ImageFormat* format = find_format(path);
  return format && format->open && (format->volumes || !is_picture(path));
}

/// The path that names all pages of a TIFF.
std::string volume_path(const std::string& path) {
  const ImagePath parts = image_path(path);
  return parts.part.empty() && parts.format->parts && is_picture(path) ? path + ":/all" : path;
}

Ends ends_of(const SourceInfo& info, const std::vector<float>& values, Axes axes) {
  if (axes == Axes::picture || info.says_scale) return {info.offset, info.offset + info.full_scale};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {std::min(0.0F, *least), *most > std::min(0.0F, *least) ? *most : 1.0};
}

/// Whether slices are known to lie farther apart than pixels.
bool has_thick_slices(const SourceInfo& info) {
  constexpr double about_a_cube = 1.5;
  const double z = info.grid[0].spacing, y = info.grid[1].spacing, x = info.grid[2].spacing;
  return z > 0 && y > 0 && x > 0 && (z > about_a_cube * std::min(x, y) || std::max(x, y) > about_a_cube * z);
}

Picture read_picture(const fs::path& file, std::int64_t channels, Axes axes) {
  const std::unique_ptr<ImageSource> source =
      open_image(axes == Axes::volume ? volume_path(file.string()) : file.string());
  const SourceInfo& info = source->info();
  TESSERA_VALIDATE(info.channels == 1 || info.channels == 3, file.string(), " has ", info.channels,
                   " channels (training pictures are gray or RGB) leave it out");
  const std::int64_t pixels = info.box.pixels();
  std::vector<float> planar(info.channels * pixels);
  source->read_floats(info.box, planar.data());
  check_numbers(file, planar);
  const Ends ends = ends_of(info, planar, axes);
  check_range(file, planar, ends);
  Picture picture{.name = file.stem().string(),
                  .channels = channels,
                  .height = info.box.extent(1),
                  .width = info.box.extent(2),
                  .values = {},
                  .depth = info.box.extent(0),
                  .thick = has_thick_slices(info)};
  picture.values.resize(channels * pixels);
  const auto scale = static_cast<float>(255.0 / (ends.white - ends.black));
  const auto black = static_cast<float>(ends.black);
  const auto byte = [](float value) {
    return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
  };
  for (std::int64_t i = 0; i < pixels; ++i) {
    std::array<float, 3> v{};
    for (std::int64_t c = 0; c < 3; ++c)
      v[c] = scale * (planar[(info.channels == 1 ? 0 : c) * pixels + i] - black);
    if (channels == 1)
      picture.values[i] = byte(info.channels == 1 ? v[0] : 0.299F * v[0] + 0.587F * v[1] + 0.114F * v[2]);
    else
      for (std::int64_t c = 0; c < channels; ++c) picture.values[c * pixels + i] = byte(v[c]);
  }
  return picture;
}

}  // namespace

std::vector<Picture> read_pictures(const std::vector<std::string>& folders,
                                   const std::vector<std::string>& exclude, std::int64_t channels,
                                   Axes axes) {
  const bool volumes = axes == Axes::volume;
  TESSERA_VALIDATE(channels == 1 || channels == 3, "training images with ", channels,
                   " channels (pictures are gray or RGB) use 1 or 3");
  std::vector<Picture> pictures;
  for (const std::string& folder : folders) {
    std::vector<fs::path> files;
    if (fs::is_regular_file(folder) || (volumes && !fs::is_directory(folder) && find_format(folder) &&
                                        fs::is_regular_file(image_path(folder).file))) {
      files.emplace_back(folder);
    } else {
      TESSERA_VALIDATE(fs::is_directory(folder), "there is no folder ", folder, " (training needs its ",
                       volumes ? "volumes" : "pictures", ") correct the path");
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.is_regular_file() &&
            (volumes ? is_volume(entry.path().string()) : is_picture(entry.path().string())))
          files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    const std::size_t before = pictures.size();
    for (const fs::path& file : files)
      if (!excluded(file, exclude)) pictures.push_back(read_picture(file, channels, axes));
    TESSERA_VALIDATE(
        pictures.size() > before, folder, " holds no ",
        volumes ? "volumes to use (TIFF, .npy, HDF5 ... that " : "pictures to use (PNG, JPEG, TIFF ... that ",
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

bool Picture::holds(const Index3& crop) const {
  return depth >= crop[0] && height >= crop[1] && width >= crop[2];
}

void photograph_crop(const Picture& picture, bool shrink, const Index3& size, Draws& draws, float* out) {
  const bool volume = size[0] > 1;
  if (shrink && !picture.holds({volume ? 2 * size[0] : 1, 2 * size[1], 2 * size[2]})) shrink = false;
  const std::int64_t unit = shrink ? 2 : 1;
  const Index3 stride{picture.height * picture.width, picture.width, 1};
  const auto place = [&](std::size_t axis) {
    const std::int64_t span = axis == 0 && !volume ? 1 : unit * size[axis];
    return draws.below(picture.size()[axis] - span + 1) * stride[axis];
  };
  std::int64_t first = place(1);
  first += place(2);
  const std::int64_t turn = draws.below(8);
  std::array<bool, 3> back{false, (turn & 1) != 0, (turn & 2) != 0};  // axes of the crop that run backward
  std::array<std::size_t, 3> along{0, 1, 2};                          // axes of the picture that they follow
  if (turn & 4) std::swap(along[1], along[2]);
  if (volume) {
    first += place(0);
    back[0] = draws.below(2) == 1;
    if (!picture.thick) std::rotate(along.begin(), along.begin() + draws.below(3), along.end());
  }
  Index3 step{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    step[axis] = unit * stride[along[axis]];
    if (!back[axis]) continue;
    first += (size[axis] - 1) * step[axis];
    step[axis] = -step[axis];
  }
  // What becomes one: itself, or its neighbors to the right, below, behind.
  std::vector<std::int64_t> block{0};
  for (std::size_t axis = volume ? 0 : 1; shrink && axis < 3; ++axis)
    for (std::size_t i = block.size(); i-- > 0;) block.push_back(block[i] + stride[axis]);
  const float white = 255.0F * static_cast<float>(block.size());
  for (std::int64_t c = 0; c < picture.channels; ++c)
    for (std::int64_t z = 0; z < size[0]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y)
        for (std::int64_t x = 0; x < size[2]; ++x) {
          const std::uint8_t* p = picture.values.data() + c * picture.depth * stride[0] + first +
                                  z * step[0] + y * step[1] + x * step[2];
          int sum = 0;
          for (const std::int64_t at : block) sum += p[at];
          *out++ = static_cast<float>(sum) / white;
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
