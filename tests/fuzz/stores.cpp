// SPDX-License-Identifier: BSD-3-Clause
// Formats whose files are folders, of which one input is all files; and arrays behind a header.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "targets.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

// Lines "PATH BYTES", each with so many bytes behind it, or with as many as there are.
void unpack(std::string_view input, const fs::path& folder) {
  for (int k = 0; k < 64 && !input.empty(); ++k) {
    const std::size_t end = input.find('\n'), blank = input.substr(0, end).rfind(' ');
    if (end == input.npos || blank == input.npos) return;
    const fs::path name(input.substr(0, blank));
    std::size_t bytes = 0;
    std::from_chars(input.data() + blank + 1, input.data() + end, bytes);
    input.remove_prefix(end + 1);
    bytes = std::min(bytes, input.size());
    const bool inside = !name.empty() && name.is_relative() && name.native().size() < 200 &&
                        std::none_of(name.begin(), name.end(), [](const fs::path& p) { return p == ".."; });
    std::error_code error;
    if (inside) fs::create_directories((folder / name).parent_path(), error);
    if (inside && !error)
      std::ofstream(folder / name, std::ios::binary).write(input.data(), static_cast<std::streamsize>(bytes));
    input.remove_prefix(bytes);
  }
}

void compare_pieces(const std::string& path) {
  const auto whole = open_image(path);
  static_cast<void>(whole->metadata());
  const Box all = whole->info().box;
  const std::int64_t channels = whole->info().channels;
  require(!all.empty() && all.lo() == Index3{} && channels > 0, "a header that cannot be");
  if (all.extent(0) > 64 || all.extent(1) > 512 || all.extent(2) > 512 || all.pixels() * channels > (1 << 20))
    return;
  std::vector<float> once(static_cast<std::size_t>(all.pixels() * channels));
  whole->read_floats(all, once.data());
  std::size_t seen = 0;
  for (const Box& piece : open_image(path)->pieces(all, 4000)) {
    std::vector<float> values(static_cast<std::size_t>(piece.pixels() * channels));
    whole->read_floats(piece, values.data());
    std::size_t at = 0;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t z = piece.lo()[0]; z < piece.hi()[0]; ++z)
        for (std::int64_t y = piece.lo()[1]; y < piece.hi()[1]; ++y)
          for (std::int64_t x = piece.lo()[2]; x < piece.hi()[2]; ++x, ++at) {
            const std::int64_t k = ((c * all.extent(0) + z) * all.extent(1) + y) * all.extent(2) + x;
            require(std::memcmp(&once[static_cast<std::size_t>(k)], &values[at], sizeof(float)) == 0,
                    "pieces differ from the whole");
          }
    seen += at;
  }
  require(seen == once.size(), "pieces leave samples out");
}

}  // namespace

void zarr(const std::uint8_t* bytes, std::size_t count) {
  const fs::path folder = as_file(nullptr, 0, ".mark") + ".zarr";
  fs::remove_all(folder);
  fs::create_directories(folder);
  unpack({reinterpret_cast<const char*>(bytes), count}, folder);
  for (const char* part : {"", ":/1", ":/t0/c1", ":/labels/cells"})
    refused_or_fine([&] { compare_pieces(folder.string() + part); });
}

void grid(const std::uint8_t* bytes, std::size_t count) {
  if (count < 2) return;
  constexpr const char* kSuffix[] = {".nii", ".nii.gz", ".mrc", ".dcm", ".xml", ".txrm"};
  const std::string path = as_file(bytes + 1, count - 1, kSuffix[bytes[0] % std::size(kSuffix)]);
  for (const char* part : {"", ":/0", ":/t1", ":/slices"})
    refused_or_fine([&] { compare_pieces(path + part); });
}

}  // namespace tessera::fuzz
