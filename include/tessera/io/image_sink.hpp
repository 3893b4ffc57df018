// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/comm/array.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/io/image_source.hpp"

namespace tessera {

/// An image that is to be written: all that a format may say of it. What it cannot say is left out.
struct ImageRecord {
  ImageSpace space{};       // the box may start anywhere: a part of a larger image keeps its coordinates
  int bits = 32;            // 8 and 16: values in [0, 1], rounded; 32 and 64: floats, as they are
  bool says_scale = false;  // samples are in the units of a file, value = internal * factor + offset
  double factor = 1, offset = 0;
  ToneCurve curve{};  // in which those units store light
  Metadata metadata{};
  std::string compression{};  // of a format that has a choice (HDF5: gzip); empty: its own
  std::string version{};      // of a format that has several (OME-Zarr: 0.4, 0.5); empty: the newest
};

/// A file in the making: one class per format, made by its row (image_format.hpp).
///
/// Whole or absent: the file has its name only when finish() returns; destruction without it leaves nothing
/// behind. A format is written either by rank 0, band after band, or by every rank (ImageFormat::shared), and
/// overrides write() or write_block(), or chunk() and write_chunk(). Errors: RunError where the disk fails, with the
/// file's name.
class ImageSink {
 public:
  virtual ~ImageSink() = default;
  /// The next full rows of a slice, from the top of the first slice on: dense (C, 1, rows, W) of the box, in
  /// the record's coordinates.
  virtual void write(const Box& band, const float* planar);
  /// Collective, once: this rank's box of the image (may be empty), host memory, float32 or float64.
  virtual void write_block(const ArrayView& block);
  /// Slices, rows and columns of what one rank writes whole, counted from the record's first pixel; 0: any box.
  virtual Index3 chunk() const { return {}; }
  /// One such chunk, cut to the image. Not collective; each chunk once, by any rank.
  virtual void write_chunk(const ArrayView& chunk);
  /// Collective where the format is shared.
  virtual void finish() = 0;
};

/// A value of [0, 1] as a sample of 8 or 16 bits: clamped and rounded; NaN is 0.
std::uint16_t whole_number(float value, int bits);

}  // namespace tessera
