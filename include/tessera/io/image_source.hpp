// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/core/image_space.hpp"
#include "tessera/core/tone_curve.hpp"

namespace tessera {

/// What a file says of the image in it. The box starts at 0; names, spacing and units of the axes, channel
/// names and orientation are the file's words, and empty where it has none.
struct SourceInfo : ImageSpace {
  double full_scale = 1;       // 1 inside: what the file says, else the largest value of its type, else 1
  std::string type = "uint8";  // of a sample: uint8, int32, float64, bool, ...
  bool says_scale = false;     // the file's own attribute `factor` says full_scale, `offset` the offset
  double offset = 0;           // the file value that is 0 inside
  std::string note = {};       // what was dropped, applied or taken for granted, one line, or empty
  std::string codes = {};      // what says that samples are codes of quality or classes, or empty
  StoredLight light = {};      // in which curve it stores light
};

/// What goes along with an image from file to file, and nothing computes with.
struct Metadata {
  std::vector<std::uint8_t> profile{};                      // ICC, of the colors; empty: none
  std::vector<std::pair<std::string, std::string>> text{};  // key and text, both UTF-8, as the file has them
  friend bool operator==(const Metadata&, const Metadata&) = default;
};

/// One image of a file that is open: one class per format, made by its row (image_format.hpp).
///
/// Values are those of the file, unscaled; missing samples are NaN. A derived class fills info_ in its
/// constructor and reads boxes; what it leaves out follows from that. Not collective: every rank that reads
/// has one of its own. Memory beyond what is filled: a band (kBandBytes). Errors: InputError with the file's
/// name, also where the file turns out to be damaged on the way.
class ImageSource {
 public:
  /// float32 samples that are held at once where an image is read or written by bands.
  static constexpr std::int64_t kBandBytes = 8 << 20;
  using Visit = std::function<void(const double* first, std::int64_t count)>;

  virtual ~ImageSource() = default;
  const SourceInfo& info() const { return info_; }
  virtual Metadata metadata() { return {}; }
  /// What `tessera info` says beyond that, each a word and a text: how samples are packed, what more the file holds.
  virtual std::vector<std::pair<std::string, std::string>> about() { return {}; }

  /// Whether boxes can be read alone, by several ranks at once. Otherwise rank 0 reads pieces(info().box) in
  /// their order and sends every rank its part; reading above the last box starts again from the top.
  virtual bool random_access() const { return true; }
  /// A box cut into boxes that are read one at a time, some `bytes` of float32 each; what the file decodes
  /// together (a tile) lies in one of them. Here: rows, slice after slice.
  virtual std::vector<Box> pieces(const Box& box, std::int64_t bytes) const;

  /// Dense (C, D, H, W) of the box, which lies in info().box.
  virtual void read(const Box& box, double* planar) = 0;
  /// The same in float32. Here: rounded from doubles.
  virtual void read_floats(const Box& box, float* planar);
  /// A strided view in host memory, float32 or float64: its box. Here: piece by piece.
  virtual void fill(const ArrayView& block);
  /// Gives one of `ranks` its share of all samples: each comes once, to one of them, in parts of some
  /// kBandBytes. True: each part holds all channels of its pixels, channel after channel. Here: pieces in
  /// turn, or all to rank 0.
  virtual bool visit(int rank, int ranks, const Visit& visit);

 protected:
  /// What visit() gives this rank where it deals pieces.
  std::vector<Box> dealt(int rank, int ranks) const;
  SourceInfo info_;
};

}  // namespace tessera
