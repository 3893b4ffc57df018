// SPDX-License-Identifier: BSD-3-Clause
#include "spooled_sink.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {

SpooledSink::SpooledSink(const std::string& path, const ImageRecord& record)
    : path_(path), raw_path_(temporary_name(path + ".raw")), record_(record) {
  line_.resize(static_cast<std::size_t>(row_bytes()));
  raw_ = std::fopen(raw_path_.c_str(), "wbx");
  if (!raw_) fail(std::strerror(errno));
}

SpooledSink::~SpooledSink() {
  if (raw_) std::fclose(raw_);
  ::unlink(raw_path_.c_str());
}

void SpooledSink::fail(const std::string& why) const {
  throw RunError(concat("cannot write ", path_, " (", why, ")"));
}

std::int64_t SpooledSink::row_bytes() const {
  return record_.space.box.extent(2) * record_.space.channels * sample_bytes();
}
std::int64_t SpooledSink::bytes() const { return record_.space.values() * sample_bytes(); }

template <class Sample>
void SpooledSink::put_row(const float* planar, std::int64_t plane) {
  const ImageSpace& space = record_.space;
  for (std::int64_t x = 0; x < space.box.extent(2); ++x)
    for (std::int64_t c = 0; c < space.channels; ++c) {
      const float value = planar[c * plane + x];
      Sample sample;
      if constexpr (std::is_same_v<Sample, float>)
        sample = value;
      else
        sample = static_cast<Sample>(whole_number(value, record_.bits));
      std::memcpy(line_.data() + (x * space.channels + c) * static_cast<std::int64_t>(sizeof sample), &sample,
                  sizeof sample);
    }
  if (std::fwrite(line_.data(), 1, line_.size(), raw_) != line_.size()) fail(std::strerror(errno));
}

void SpooledSink::write(const Box& band, const float* planar) {
  const Box& whole = record_.space.box;
  const Index3 at = band.lo() - whole.lo();
  const std::int64_t row = at[0] * whole.extent(1) + at[1], rows = band.extent(1), width = whole.extent(2);
  if (!raw_ || !whole.contains(band) || row != next_row_ || band.extent(0) != 1 || band.extent(2) != width)
    throw ContractError(concat("the band ", band, " of ", path_, " (row ", next_row_, " is next)"));
  for (std::int64_t k = 0; k < rows; ++k)
    if (record_.bits == 8)
      put_row<std::uint8_t>(planar + k * width, rows * width);
    else if (record_.bits == 16)
      put_row<std::uint16_t>(planar + k * width, rows * width);
    else
      put_row<float>(planar + k * width, rows * width);
  next_row_ += rows;
}

void SpooledSink::finish() {
  const std::int64_t all = record_.space.box.extent(0) * record_.space.box.extent(1);
  if (!raw_ || next_row_ != all)
    throw ContractError(concat(path_, " has ", next_row_, " of ", all, " rows (all are needed)"));
  if (std::fclose(std::exchange(raw_, nullptr)) != 0) fail(std::strerror(errno));
  write_whole(path_, [&](const std::string& temporary) {
    OutputFile(temporary, OutputFile::Use::make, path_).close();  // libraries do not say why they could not
    encode(temporary);
  });
  ::unlink(raw_path_.c_str());
}

}  // namespace tessera::io
