// SPDX-License-Identifier: BSD-3-Clause
// Images whose channels are datasets of their own.
#include <algorithm>
#include <limits>

#include "array_copy.hpp"
#include "formats.hpp"
#include "hdf5/hdf5_choice.hpp"
#include "tessera/core/error.hpp"
#include "tile_pieces.hpp"

namespace tessera::io {
namespace {

class StackSource final : public ImageSource {
 public:
  StackSource(Hdf5File file, const std::string& path, Hdf5Stack stack)
      : file_(std::move(file)), stack_(std::move(stack)) {
    info_ = stack_.info;
    const DatasetInfo& about = stack_.about;
    info_.box = about.box;
    info_.channels = std::ssize(stack_.datasets);
    info_.axes = about.box.extent(0) > 1 ? Axes::volume : Axes::picture;
    info_.type = about.type;
    info_.full_scale = full_scale(about.type);
    if (std::ssize(info_.channel_names) != info_.channels) info_.channel_names.clear();
    for (const std::string& set : stack_.datasets)
      readers_.emplace_back(file_.id(), set, about, concat(path, ":", set), stack_.start);
    for (const Hdf5Reader& reader : readers_)
      if (!reader.missing().empty()) info_.note += concat(info_.note.empty() ? "" : "; ", reader.missing());
  }

  Metadata metadata() override { return stack_.metadata; }
  std::vector<std::pair<std::string, std::string>> about() override {
    const std::string& first = stack_.datasets[0];
    return {{"array", concat(stack_.says, ", ", first, " ", shape_text(stack_.about.shape))},
            {"packed", storage_text(file_, first, stack_.about.shape.size())}};
  }
  std::vector<Box> pieces(const Box& box, std::int64_t bytes) const override {
    Index3 chunk{1, 1, 1};
    for (std::size_t d = 0; d < 3; ++d)
      if (const int axis = stack_.about.axes[d + 1]; axis >= 0)
        chunk[d] = static_cast<std::int64_t>(readers_[0].chunk()[static_cast<std::size_t>(axis)]);
    // Not in chunks: whole rows.
    if (chunk == Index3{1, 1, 1}) return ImageSource::pieces(box, bytes);
    return chunk_pieces(box, info_.channels, chunk, bytes);
  }
  void read(const Box& box, double* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void read_floats(const Box& box, float* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void fill(const ArrayView& to) override {
    require_host(to);
    const std::int64_t element = to.type == ElementType::float64 ? 8 : 4;
    for (std::size_t c = 0; c < readers_.size(); ++c) {
      ArrayView one = to;
      one.channels = 1;
      one.data = static_cast<char*>(to.data) + static_cast<std::int64_t>(c) * to.channel_stride * element;
      readers_[c].fill(one);
    }
  }

 private:
  Hdf5File file_;
  Hdf5Stack stack_;
  std::vector<Hdf5Reader> readers_;
};

}  // namespace

std::unique_ptr<ImageSource> stack_source(Hdf5File file, const std::string& path, Hdf5Stack stack) {
  return std::make_unique<StackSource>(std::move(file), path, std::move(stack));
}

std::string storage_text(const Hdf5File& file, const std::string& dataset, std::size_t axes) {
  const H5Handle set(H5Dopen2(file.id(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
  const H5Handle made(H5Dget_create_plist(set.get()), H5Pclose);
  std::string text = "not in chunks";
  std::vector<hsize_t> chunk(axes);
  if (H5Pget_layout(made.get()) == H5D_CHUNKED &&
      H5Pget_chunk(made.get(), static_cast<int>(chunk.size()), chunk.data()) > 0)
    text = "chunks of " + shape_text({chunk.begin(), chunk.end()});
  for (int k = 0; k < H5Pget_nfilters(made.get()); ++k) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    char name[64] = {};
    H5Pget_filter2(made.get(), static_cast<unsigned>(k), &flags, &values, nullptr, sizeof name, name,
                   &config);
    text += concat(", ", name);
  }
  return text;
}

}  // namespace tessera::io
