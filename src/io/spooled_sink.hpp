// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/io/image_sink.hpp"

namespace tessera::io {

/// A file that is encoded when all of it is there: samples wait in a raw file beside it, slice after slice, row
/// after row, the channels of a pixel beside each other, so that memory holds one band.
class SpooledSink : public ImageSink {
 public:
  SpooledSink(const std::string& path, const ImageRecord& record);
  ~SpooledSink() override;
  SpooledSink(const SpooledSink&) = delete;
  SpooledSink& operator=(const SpooledSink&) = delete;
  void write(const Box& band, const float* planar) override;
  void finish() override;

 protected:
  /// Writes the whole file from raw_path().
  virtual void encode(const std::string& temporary) = 0;
  [[noreturn]] void fail(const std::string& why) const;  // RunError
  const ImageRecord& record() const { return record_; }
  const std::string& raw_path() const { return raw_path_; }
  std::int64_t sample_bytes() const { return record_.bits / 8; }
  std::int64_t row_bytes() const;
  std::int64_t bytes() const;  // of all samples

 private:
  template <class Sample>
  void put_row(const float* planar, std::int64_t plane);
  std::string path_, raw_path_;
  ImageRecord record_;
  std::int64_t next_row_ = 0;  // of all slices
  std::vector<std::uint8_t> line_;
  std::FILE* raw_ = nullptr;
};

}  // namespace tessera::io
