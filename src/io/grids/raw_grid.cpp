// SPDX-License-Identifier: BSD-3-Clause
#include "grids/raw_grid.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "array_copy.hpp"
#include "formats.hpp"
#include "numbers.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kReadAtOnce = 4 << 20;  // bytes

std::vector<std::uint8_t> gunzipped(const InputFile& file) {
  z_stream z{};
  if (inflateInit2(&z, 15 + 16) != Z_OK) throw RunError("cannot start zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&z, inflateEnd);
  std::vector<std::uint8_t> in(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), kReadAtOnce))),
      out;
  std::int64_t at = 0;
  std::size_t done = 0;
  for (bool ended = false;;) {
    if (z.avail_in == 0 && at < file.size()) {
      const std::int64_t part = std::min(file.size() - at, std::ssize(in));
      file.read(at, part, in.data());
      at += part;
      z.next_in = in.data();
      z.avail_in = static_cast<uInt>(part);
    }
    if (ended && z.avail_in == 0) break;
    if (ended && inflateReset(&z) != Z_OK) break;  // another member behind it
    beat();
    if (done == out.size()) out.resize(done + kReadAtOnce);
    const std::size_t room = std::min<std::size_t>(out.size() - done, 1 << 30);
    z.next_out = out.data() + done;
    z.avail_out = static_cast<uInt>(room);
    const int code = inflate(&z, Z_NO_FLUSH);
    done += room - z.avail_out;
    ended = code == Z_STREAM_END;
    TESSERA_VALIDATE(ended || code == Z_OK, "cannot read ", file.path(),
                     " (gzip cannot unpack it: it is damaged or cut) copy it again");
  }
  out.resize(done);
  return out;
}

class RawSource final : public ImageSource {
 public:
  RawSource(std::unique_ptr<GridBytes> bytes, const RawGrid& grid, SourceInfo about, Metadata metadata)
      : bytes_(std::move(bytes)),
        grid_(grid),
        metadata_(std::move(metadata)),
        convert_(number_of(grid.type)) {
    std::int64_t count = grid_.element;
    bool fits = grid_.offset >= 0 && grid_.offset <= bytes_->size();
    for (const std::int64_t n : grid_.extent)
      fits = fits && n > 0 && !__builtin_mul_overflow(count, n, &count);
    std::string sides;
    for (const std::int64_t n : grid_.extent) sides += concat(sides.empty() ? "" : " x ", n);
    TESSERA_VALIDATE(fits && count <= bytes_->size() - grid_.offset, "cannot read ", bytes_->path(),
                     " (its header says ", sides, " samples of ", grid_.type, " from byte ", grid_.offset,
                     " on, it has ", bytes_->size(), " bytes) is it complete?");
    info_ = std::move(about);
    info_.box = Box({0, 0, 0}, {grid_.extent[1], grid_.extent[2], grid_.extent[3]});
    info_.channels = grid_.extent[0];
    info_.axes = grid_.extent[1] > 1 ? Axes::volume : Axes::picture;
    const bool scaled = grid_.slope != 1 || grid_.inter != 0;
    info_.type = !scaled ? grid_.type : grid_.element == 8 ? "float64" : "float32";
    info_.full_scale = full_scale(info_.type);
  }

  Metadata metadata() override { return metadata_; }
  bool random_access() const override { return !bytes_->packed(); }
  std::vector<std::pair<std::string, std::string>> about() override {
    std::vector<std::pair<std::string, std::string>> out{
        {"packed", bytes_->packed() ? "gzip" : "not packed"}};
    if (grid_.slope != 1 || grid_.inter != 0)
      out.emplace_back("stored", concat(grid_.type, ", value = ", grid_.slope, " * number + ", grid_.inter));
    return out;
  }

  void read(const Box& box, double* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void read_floats(const Box& box, float* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void fill(const ArrayView& to) override {
    if (to.box.empty()) return;
    if (to.type == ElementType::float64)
      fill_as(to, static_cast<double*>(to.data));
    else
      fill_as(to, static_cast<float*>(to.data));
  }

 private:
  // Runs along the two axes that vary fastest in the file, where they lie behind each other; else along one.
  template <class T>
  void fill_as(const ArrayView& to, T* data) {
    const std::array<std::int64_t, 4> low{0, to.box.lo()[0], to.box.lo()[1], to.box.lo()[2]},
        count{to.channels, to.box.extent(0), to.box.extent(1), to.box.extent(2)},
        step{to.channel_stride, to.stride[0], to.stride[1], to.stride[2]};
    std::array<std::size_t, 4> axis{0, 1, 2, 3};  // slowest in the file first
    std::stable_sort(axis.begin(), axis.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(grid_.extent[a] > 1, -grid_.stride[a]) <
             std::pair(grid_.extent[b] > 1, -grid_.stride[b]);
    });
    const std::size_t fast = axis[3], next = axis[2];
    const bool dense = grid_.stride[fast] == 1 && count[fast] == grid_.extent[fast];
    const std::int64_t most = std::max<std::int64_t>(1, kReadAtOnce / (grid_.element * grid_.extent[fast]));
    const std::int64_t together = dense ? std::min(count[next], most) : 1;
    std::vector<std::uint8_t> raw;
    for (std::int64_t a = 0; a < count[axis[0]]; ++a)
      for (std::int64_t b = 0; b < count[axis[1]]; ++b)
        for (std::int64_t c = 0; c < count[next]; c += together) {
          const std::int64_t rows = std::min(together, count[next] - c);
          const std::int64_t from = (low[axis[0]] + a) * grid_.stride[axis[0]] +
                                    (low[axis[1]] + b) * grid_.stride[axis[1]] +
                                    (low[next] + c) * grid_.stride[next] + low[fast] * grid_.stride[fast];
          const std::int64_t span =
              (rows - 1) * grid_.stride[next] + (count[fast] - 1) * grid_.stride[fast] + 1;
          raw.resize(static_cast<std::size_t>(span * grid_.element));
          beat();
          bytes_->read(grid_.offset + from * grid_.element, std::ssize(raw), raw.data());
          T* row = data + a * step[axis[0]] + b * step[axis[1]] + c * step[next];
          for (std::int64_t r = 0; r < rows; ++r, row += step[next])
            for (std::int64_t k = 0; k < count[fast]; ++k) {
              const std::int64_t at = r * grid_.stride[next] + k * grid_.stride[fast];
              row[k * step[fast]] = static_cast<T>(
                  grid_.slope * convert_(raw.data() + at * grid_.element, grid_.swapped) + grid_.inter);
            }
        }
  }

  std::unique_ptr<GridBytes> bytes_;
  RawGrid grid_;
  Metadata metadata_;
  NumberOf convert_;
};

}  // namespace

GridBytes::GridBytes(const std::string& path) : file_(path) {
  std::uint8_t magic[2] = {};
  packed_ = file_.read_some(0, 2, magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  if (packed_) unpacked_ = gunzipped(file_);
}

void GridBytes::read(std::int64_t offset, std::int64_t count, void* to) const {
  if (!packed_) return file_.read(offset, count, to);
  TESSERA_VALIDATE(offset <= size() && count <= size() - offset, "cannot read ", path(), " (it ends at byte ",
                   size(), " of what gzip packed) is it complete?");
  if (count > 0) std::memcpy(to, unpacked_.data() + offset, static_cast<std::size_t>(count));
}

std::unique_ptr<ImageSource> raw_grid_source(std::unique_ptr<GridBytes> bytes, const RawGrid& grid,
                                             SourceInfo about, Metadata metadata) {
  return std::make_unique<RawSource>(std::move(bytes), grid, std::move(about), std::move(metadata));
}

template <class T>
T HeaderBytes::at(std::size_t offset) const {
  std::uint8_t bytes[sizeof(T)];
  std::memcpy(bytes, bytes_ + offset, sizeof bytes);
  if (swapped_) std::reverse(bytes, bytes + sizeof bytes);
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
template std::int16_t HeaderBytes::at(std::size_t) const;
template std::int32_t HeaderBytes::at(std::size_t) const;
template std::int64_t HeaderBytes::at(std::size_t) const;
template float HeaderBytes::at(std::size_t) const;
template double HeaderBytes::at(std::size_t) const;

std::string HeaderBytes::text(std::size_t offset, std::size_t count) const {
  std::string out(reinterpret_cast<const char*>(bytes_) + offset, count);
  out = out.substr(0, out.find('\0'));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace tessera::io
