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
