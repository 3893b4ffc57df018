// SPDX-License-Identifier: BSD-3-Clause
// What an image's file says of it.
#include <array>
#include <cmath>
#include <optional>

#include "npy_image.hpp"
#include "source.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/image_file.hpp"

namespace tessera {

namespace {

using io::NpyImage;
using io::Source;

SourceInfo header_of(const std::string& path) {
  const Source source = io::source_of(path);
  SourceInfo out;
  if (source.kind == ImageFormat::Kind::hdf5) {
    const Hdf5File file = Hdf5File::open(source.file, Communicator());
    const std::string dataset = io::dataset_of(source, file);
    const DatasetInfo about = file.info(dataset);
    out = {ImageSpace(about.box, about.channels)};
    // A reconstruction says itself which values were 0 and 1.
    const std::optional<double> factor = file.number_attribute(dataset, "factor");
    out.type = about.type;
    out.note = about.note;
    if (dataset != "/image" && !source.named)
      out.note = concat(path, ": ", dataset, " is read, which its attributes default and signal say",
                        out.note.empty() ? "" : "; ", out.note);
    out.says_scale = factor.has_value();
    out.full_scale = factor.value_or(io::full_scale(about.type));
    if (factor) out.offset = file.number_attribute(dataset, "offset").value_or(0);
    TESSERA_VALIDATE(std::isfinite(out.full_scale) && out.full_scale > 0 && std::isfinite(out.offset), path,
                     ": its attributes factor and offset are ", out.full_scale, " and ", out.offset,
                     " (the file's values of what is 1 and 0 inside, factor above 0) correct or remove them");
  } else if (source.kind == ImageFormat::Kind::npy) {
    const NpyImage array(source.file);
    out = {ImageSpace(array.box(), array.extent[0])};
    out.type = array.file.type();
    out.note = array.axes.note;
    out.full_scale = io::full_scale(out.type);
  } else {
    const ImageInfo info = ImageReader(source.file, source.part).info();
    out = {ImageSpace(Box({0, 0, 0}, {info.depth, info.height, info.width}), info.channels)};
    out.type = info.type;
    out.full_scale = info.full_scale;
    out.note = info.note;
  }
  return out;
}

}  // namespace

SourceInfo image_source_info(const std::string& path, const Communicator& comm) {
  SourceInfo out;
  comm.together([&] {
    if (comm.rank() == 0) out = header_of(path);
  });
  std::array<std::int64_t, 4> numbers{out.box.hi()[0], out.box.hi()[1], out.box.hi()[2], out.channels};
  comm.broadcast(numbers.data(), sizeof numbers, 0);
  std::array<double, 3> scale{out.full_scale, out.offset, static_cast<double>(out.says_scale)};
  comm.broadcast(scale.data(), sizeof scale, 0);
  out.full_scale = scale[0];
  out.offset = scale[1];
  out.says_scale = scale[2] != 0;
  out.type = comm.broadcast(out.type, 0);
  out.note = comm.broadcast(out.note, 0);
  static_cast<ImageSpace&>(out) =
      ImageSpace(Box({0, 0, 0}, {numbers[0], numbers[1], numbers[2]}), numbers[3]);
  return out;
}

}  // namespace tessera
