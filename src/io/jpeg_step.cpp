// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/jpeg_step.hpp"

#include <array>
#include <cmath>
#include <fstream>
#include <vector>

namespace tessera {
namespace {

// Row and column of an 8 x 8 block's k-th coefficient.
std::array<std::array<int, 2>, 64> zigzag() {
  std::array<std::array<int, 2>, 64> order{};
  std::size_t k = 0;
  for (int sum = 0; sum < 15; ++sum)
    for (int i = 0; i <= sum; ++i) {
      const int row = sum % 2 == 0 ? sum - i : i, column = sum - row;
      if (row < 8 && column < 8) order[k++] = {row, column};
    }
  return order;
}

JpegSteps steps_of(const unsigned char* table, bool wide) {
  double low = 0, high = 0;  // squares
  const auto order = zigzag();
  for (std::size_t k = 0; k < 64; ++k) {
    const double step = wide ? 256 * table[2 * k] + table[2 * k + 1] : table[k];
    if (order[k][0] < 4 && order[k][1] < 4) low += step * step;
    if (order[k][0] >= 4 && order[k][1] >= 4) high += step * step;
  }
  return {.low = std::sqrt(low / 16), .high = std::sqrt(high / 16)};
}

}  // namespace

JpegSteps jpeg_steps(const std::string& path) {
  constexpr int kStart = 0xD8, kTables = 0xDB, kScan = 0xDA, kFrame = 0xC0, kLastFrame = 0xC2;
  JpegSteps found;
  std::ifstream file(path, std::ios::binary);
  if (file.get() != 0xFF || file.get() != kStart) return {};
  while (file) {
    int marker = file.get();
    while (marker == 0xFF) marker = file.get();  // fill bytes
    const int high = file.get(), low = file.get();
    if (!file) return {};
    if (marker == kScan) return found;
    const std::size_t length = static_cast<std::size_t>(256 * high + low);
    if (length < 2) return {};
    std::vector<unsigned char> segment(length - 2);
    file.read(reinterpret_cast<char*>(segment.data()), static_cast<std::streamsize>(segment.size()));
    if (!file) return {};
    for (std::size_t at = 0; marker == kTables && at < segment.size();) {
      const bool wide = segment[at] >> 4 != 0;
      const std::size_t size = wide ? 128 : 64;
      if (at + 1 + size > segment.size()) return {};
      if ((segment[at] & 15) == 0) {
        const JpegSteps steps = steps_of(segment.data() + at + 1, wide);
        found.low = steps.low;
        found.high = steps.high;
      }
      at += 1 + size;
    }
    // Precision, height, width, components; of each its name, its samples across and down, its table.
    if (marker >= kFrame && marker <= kLastFrame && segment.size() >= 15 && segment[5] == 3)
      found.coarse_color = segment[7] != segment[10];
  }
  return {};
}

}  // namespace tessera
