// SPDX-License-Identifier: BSD-3-Clause
// What a source has that overrides nothing but read().
#include "tessera/io/image_source.hpp"

#include <algorithm>

#include "array_copy.hpp"
#include "tessera/core/phase.hpp"
#include "tile_pieces.hpp"

namespace tessera {

namespace io {

std::vector<Box> tile_pieces(const Box& region, std::int64_t channels,
                             const std::array<std::int64_t, 2>& tile, std::int64_t bytes) {
  std::vector<Box> pieces;
  if (region.empty()) return pieces;
  const std::int64_t sample = 4 * channels;
  const std::int64_t across = std::max<std::int64_t>(1, bytes / (tile[0] * tile[1] * sample));
  const std::int64_t columns = std::min(across * tile[1], (region.hi()[2] / tile[1] + 1) * tile[1]);
  const std::int64_t wide = std::min(columns, region.extent(2));
  const std::int64_t rows = std::max<std::int64_t>(1, bytes / (wide * sample * tile[0])) * tile[0];
  for (std::int64_t z = region.lo()[0]; z < region.hi()[0]; ++z)
    for (std::int64_t y = region.lo()[1] / rows * rows; y < region.hi()[1]; y += rows)
      for (std::int64_t x = region.lo()[2] / columns * columns; x < region.hi()[2]; x += columns)
        pieces.push_back(region.intersect(Box({z, y, x}, {z + 1, y + rows, x + columns})));
  return pieces;
}

std::vector<Box> chunk_pieces(const Box& region, std::int64_t channels, const Index3& chunk,
                              std::int64_t bytes) {
  constexpr std::int64_t kLarge = 4;  // a chunk beyond so many pieces is cut: it is kept while it is read
  const std::int64_t most = std::max<std::int64_t>(1, bytes / (4 * channels));
  Index3 step = chunk;
  std::vector<Box> out;
  if (region.empty()) return out;
  const auto pixels = [&](const Index3& s) {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < 3; ++d) n *= std::min(s[d], region.extent(d));
    return n;
  };
  for (std::size_t d = 3; d-- > 0;)
    while (step[d] < region.extent(d) && 2 * pixels(step) <= most) step[d] *= 2;
  for (std::size_t d = 0; d < 3; ++d)
    while (step[d] > 1 && pixels(step) > kLarge * most) step[d] = (step[d] + 1) / 2;
  const auto first = [&](std::size_t d) { return region.lo()[d] / step[d] * step[d]; };
  for (std::int64_t z = first(0); z < region.hi()[0]; z += step[0])
    for (std::int64_t y = first(1); y < region.hi()[1]; y += step[1])
      for (std::int64_t x = first(2); x < region.hi()[2]; x += step[2])
        out.push_back(region.intersect(Box({z, y, x}, Index3{z, y, x} + step)));
  return out;
}

}  // namespace io

namespace {

template <class Sample, class Read>
void fill_by_pieces(const ImageSource& source, const ArrayView& block, Read read) {
  std::vector<Sample> band;
  for (const Box& part : source.pieces(block.box, ImageSource::kBandBytes)) {
    beat();
    band.resize(static_cast<std::size_t>(part.pixels() * block.channels));
    read(part, band.data());
    io::unpack(block, part, 0, block.channels, band.data());
  }
}

}  // namespace

std::vector<Box> ImageSource::pieces(const Box& box, std::int64_t bytes) const {
  return io::tile_pieces(box, info_.channels, {1, info_.box.extent(2)}, bytes);
}

void ImageSource::read_floats(const Box& box, float* planar) {
  std::vector<double> values(static_cast<std::size_t>(box.pixels() * info_.channels));
  read(box, values.data());
  std::transform(values.begin(), values.end(), planar, [](double v) { return static_cast<float>(v); });
}

void ImageSource::fill(const ArrayView& block) {
  if (block.type == ElementType::float64)
    fill_by_pieces<double>(*this, block, [&](const Box& box, double* to) { read(box, to); });
  else
    fill_by_pieces<float>(*this, block, [&](const Box& box, float* to) { read_floats(box, to); });
}

std::vector<Box> ImageSource::dealt(int rank, int ranks) const {
  if (!random_access()) return rank == 0 ? pieces(info_.box, kBandBytes) : std::vector<Box>();
  std::vector<Box> mine;
  int turn = 0;
  for (const Box& box : pieces(info_.box, kBandBytes))
    if (turn++ % ranks == rank) mine.push_back(box);
  return mine;
}

bool ImageSource::visit(int rank, int ranks, const Visit& visit) {
  std::vector<double> values;
  for (const Box& box : dealt(rank, ranks)) {
    beat();
    values.resize(static_cast<std::size_t>(box.pixels() * info_.channels));
    read(box, values.data());
    visit(values.data(), std::ssize(values));
  }
  return true;
}

}  // namespace tessera
