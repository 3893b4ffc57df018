// SPDX-License-Identifier: BSD-3-Clause
#include "zarr/zarr_array.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "numbers.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kKeptBytes = 64 << 20;
constexpr std::int64_t kMostLooked = 1024;

// A chunk's file, which may be missing.
class ChunkFile {
 public:
  explicit ChunkFile(std::string path) : path_(std::move(path)) {
    do fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0 && errno != ENOENT) fail(std::strerror(errno));
    struct stat about {};
    if (fd_ >= 0 && (::fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode))) fail("it is not a regular file");
    size_ = about.st_size;
  }
  ~ChunkFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ChunkFile(const ChunkFile&) = delete;
  ChunkFile& operator=(const ChunkFile&) = delete;

  bool there() const { return fd_ >= 0; }
  std::int64_t size() const { return size_; }
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(concat("cannot read ", path_, " (", why, ") copy the store again"));
  }
  /// The range lies in the file.
  ZarrBytes read(std::int64_t offset, std::int64_t count) const {
    ZarrBytes out(static_cast<std::size_t>(count));
    for (std::int64_t done = 0; done < count;) {
      beat();
      const ssize_t got = ::pread(fd_, out.data() + done,
                                  static_cast<std::size_t>(std::min<std::int64_t>(count - done, 1 << 30)),
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(std::strerror(errno));
      if (got == 0) fail("it has become shorter");
      done += got;
    }
    return out;
  }

 private:
  std::string path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

// Calls visit(index) for all of [lo, hi), the last axis fastest.
template <class Visit>
void each_index(const std::vector<std::int64_t>& lo, const std::vector<std::int64_t>& hi, Visit visit) {
  std::vector<std::int64_t> at = lo;
  for (;;) {
    visit(at);
    std::size_t d = at.size();
    for (; d-- > 0; at[d] = lo[d])
      if (++at[d] < hi[d]) break;
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace

ZarrArray::ZarrArray(const ZarrNode& node, Missing missing)
    : folder_(node.folder), meta_(zarr_meta(node)), missing_(missing) {
  inside_.assign(meta_.chunk.size(), 1);
  std::int64_t stride = 1;
  for (auto axis = meta_.order.rbegin(); axis != meta_.order.rend(); ++axis) {
    inside_[*axis] = stride;
    stride *= meta_.chunk[*axis];
  }
}

std::pair<std::int64_t, std::int64_t> ZarrArray::place_in_shard(const Index& chunk) {
  Index at(chunk.size());
  std::int64_t k = 0;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    const std::int64_t per = meta_.shard[d] / meta_.chunk[d];
    at[d] = chunk[d] / per;
    k = k * per + chunk[d] % per;
  }
  if (shard_.at != at) {
    const ChunkFile file(folder_ + "/" + meta_.key(at));
    const std::int64_t plain = 16 * meta_.chunks_per_shard(),
                       bytes = plain + 4 * std::ssize(meta_.index_codecs);
    ZarrBytes index;
    if (file.there()) {
      if (file.size() < bytes)
        file.fail(concat("it has ", file.size(), " bytes, the index of its shard needs ", bytes));
      index = decode(meta_.index_codecs, file.read(meta_.index_first ? 0 : file.size() - bytes, bytes), plain,
                     folder_ + "/" + meta_.key(at));
    }
    shard_ = {at, std::move(index)};
  }
  if (shard_.index.empty()) return {-1, 0};
  const auto number = [&](std::int64_t from) {
    std::uint64_t n = 0;
    for (int b = 8; b-- > 0;) n = n << 8 | shard_.index[static_cast<std::size_t>(from + b)];
    return n;
  };
  const std::uint64_t offset = number(16 * k), bytes = number(16 * k + 8);
  if (offset == UINT64_MAX && bytes == UINT64_MAX) return {-1, 0};
  constexpr auto kMost = static_cast<std::uint64_t>(INT64_MAX / 4);
  if (offset > kMost || bytes > kMost) return {INT64_MAX / 4, INT64_MAX / 4};  // beyond any file
  return {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes)};
}

ZarrArray::Part ZarrArray::load(const Index& chunk, std::int64_t first, std::int64_t planes) {
  for (auto k = kept_.begin(); k != kept_.end(); ++k)
    if (k->first == chunk) {
      kept_.splice(kept_.begin(), kept_, k);
      return kept_.front().second;
    }
  Index of_file = chunk;
  std::int64_t offset = 0, bytes = -1;
  if (!meta_.shard.empty()) {
    for (std::size_t d = 0; d < chunk.size(); ++d) of_file[d] /= meta_.shard[d] / meta_.chunk[d];
    std::tie(offset, bytes) = place_in_shard(chunk);
    if (offset < 0) return {};
  }
  const std::string path = folder_ + "/" + meta_.key(of_file);
  const ChunkFile file(path);
  if (!file.there()) return {};
  if (bytes < 0) bytes = file.size();
  if (offset > file.size() || bytes > file.size() - offset) file.fail("its index names bytes behind its end");
  const std::int64_t whole = meta_.chunk_bytes();
  if (meta_.codecs.empty()) {
    if (bytes != whole) file.fail(concat("it holds ", bytes, " bytes, its shape needs ", whole));
    const std::int64_t plane = whole / meta_.chunk[meta_.order[0]];
    return {std::make_shared<const ZarrBytes>(file.read(offset + first * plane, planes * plane)), first};
  }
  if (bytes > whole + whole / 8 + (1 << 16))
    file.fail(concat("it holds ", bytes, " bytes, its shape needs ", whole));
  const Part part{
      std::make_shared<const ZarrBytes>(decode(meta_.codecs, file.read(offset, bytes), whole, path)), 0};
  std::size_t kept = part.bytes->size();
  for (auto k = kept_.begin(); k != kept_.end();) {
    kept += k->second.bytes->size();
    k = kept > kKeptBytes ? kept_.erase(k) : std::next(k);
  }
  kept_.emplace_front(chunk, part);
  return part;
}

template <class T>
void ZarrArray::read_as(const Index& start, const Index& count, const Index& stride, T* to) {
  const std::size_t axes = meta_.shape.size();
  const NumberOf convert = number_of(meta_.type);
  const std::size_t slow = meta_.order.front(), fast = meta_.order.back();
  Index first(axes), last(axes);
  for (std::size_t d = 0; d < axes; ++d) {
    if (count[d] <= 0) return;
    first[d] = start[d] / meta_.chunk[d];
    last[d] = (start[d] + count[d] - 1) / meta_.chunk[d] + 1;
  }
  each_index(first, last, [&](const Index& chunk) {
    beat();
    Index lo(axes), hi(axes);  // in the array
    for (std::size_t d = 0; d < axes; ++d) {
      lo[d] = std::max(start[d], chunk[d] * meta_.chunk[d]);
      hi[d] = std::min(start[d] + count[d], (chunk[d] + 1) * meta_.chunk[d]);
    }
    const Part part = load(chunk, lo[slow] - chunk[slow] * meta_.chunk[slow], hi[slow] - lo[slow]);
    TESSERA_VALIDATE(part.bytes || missing_ == Missing::fill, "cannot read ", folder_, " (the chunk ",
                     meta_.key(chunk), " is not there) do all nodes see the same folder?");
    const std::int64_t run = hi[fast] - lo[fast], step = stride[fast];
    hi[fast] = lo[fast] + 1;
    each_index(lo, hi, [&](const Index& at) {
      std::int64_t from = -part.first * inside_[slow], into = 0;
      for (std::size_t d = 0; d < axes; ++d) {
        from += (at[d] - chunk[d] * meta_.chunk[d]) * inside_[d];
        into += (at[d] - start[d]) * stride[d];
      }
      T* out = to + into;
      if (!part.bytes) {
        for (std::int64_t k = 0; k < run; ++k) out[k * step] = static_cast<T>(meta_.fill);
        return;
      }
      const std::uint8_t* bytes = part.bytes->data() + from * meta_.element;
      if (std::is_same_v<T, float> && convert == number_of("float32") && !meta_.swapped && step == 1)
        std::memcpy(out, bytes, static_cast<std::size_t>(run) * sizeof(T));
      else
        for (std::int64_t k = 0; k < run; ++k)
          out[k * step] = static_cast<T>(convert(bytes + k * meta_.element, meta_.swapped));
    });
  });
}

void ZarrArray::read(const Index& start, const Index& count, const Index& stride, double* to) {
  read_as(start, count, stride, to);
}
void ZarrArray::read(const Index& start, const Index& count, const Index& stride, float* to) {
  read_as(start, count, stride, to);
}

ZarrArray::Files ZarrArray::files() const {
  const Index& size = meta_.shard.empty() ? meta_.chunk : meta_.shard;
  Index grid(size.size());
  Files out;
  out.all = 1;
  for (std::size_t d = 0; d < grid.size(); ++d) {
    grid[d] = (meta_.shape[d] + size[d] - 1) / size[d];
    if (__builtin_mul_overflow(out.all, grid[d], &out.all)) out.all = INT64_MAX / kMostLooked;
  }
  out.looked = std::min(out.all, kMostLooked);
  for (std::int64_t k = 0; k < out.looked; ++k) {
    std::int64_t number = out.all / out.looked * k + out.all % out.looked * k / out.looked;
    Index at(grid.size());
    for (std::size_t d = grid.size(); d-- > 0; number /= grid[d]) at[d] = number % grid[d];
    out.found += ::access((folder_ + "/" + meta_.key(at)).c_str(), F_OK) == 0;
  }
  return out;
}

}  // namespace tessera::io
