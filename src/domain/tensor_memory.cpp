// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/tensor_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/large_arrays.hpp"

namespace tessera {
namespace {

constexpr std::size_t kSmallestKept = std::size_t{1} << 18;  // below, malloc keeps pages by itself
constexpr std::size_t kGrain = 4096;                         // parts of a segment begin on multiples of it
constexpr std::size_t kLargePage = std::size_t{1} << 21;

struct Place {
  char* data;
  std::size_t least, most;  // bytes of the tensor that it waits for
};
thread_local std::vector<Place> places;  // for the next tensors of this thread

// Torch's CPU allocator, counted, with reuse on demand.
//
// What a block is stands in a table beside it and not in its context: oneDNN's buffers are taken and returned
// as bare pointers, some of them taken before this allocator was installed. Once installed it stays.
class TensorAllocator final : public c10::Allocator {
 public:
  explicit TensorAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return inner_->allocate(0);
    void* data = nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!places.empty()) data = place(bytes);
    if (data) return {data, data, &give, c10::Device(c10::DeviceType::CPU)};
    if (scratch_ && static_cast<std::int64_t>(bytes) >= least_in_scratch_ &&
        current_memory_use() == MemoryUse::data) {
      data = scratch_->take(static_cast<std::int64_t>(bytes));
      in_scratch_.emplace(data, scratch_);
    } else if (scopes_ > 0 && bytes >= kSmallestKept) {
      const std::size_t whole = (bytes + kGrain - 1) / kGrain * kGrain;
      data = take(whole);
      if (!data) {
        add_segment(whole);
        data = take(whole);
      }
    } else {
      data = inner_->raw_allocate(bytes);
      const Block block{static_cast<std::int64_t>(bytes), current_memory_use(), nullptr};
      blocks_.emplace(data, block);
      count_allocation(block.use, block.bytes);
    }
    return {data, data, &give, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_->copy_data(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give; }

  void* take_array(std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!scratch_ || static_cast<std::int64_t>(bytes) < least_in_scratch_ ||
        current_memory_use() != MemoryUse::data)
      return nullptr;
    void* const data = scratch_->take(static_cast<std::int64_t>(bytes));
    in_scratch_.emplace(data, scratch_);
    return data;
  }
  bool give_array(void* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto piece = in_scratch_.find(data);
    if (piece == in_scratch_.end()) return false;
    piece->second->give(data);
    in_scratch_.erase(piece);
    return true;
  }

  char* make_arena(std::int64_t bytes) {
    auto* data = static_cast<char*>(inner_->raw_allocate(static_cast<std::size_t>(bytes)));
    ask_for_large_pages(data, static_cast<std::size_t>(bytes));
    return data;
  }
  void free_arena(char* data) { inner_->raw_deallocate(data); }

  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++scopes_;
  }
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --scopes_;
  }
  std::int64_t scratch_size() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return scratch_ ? scratch_->largest() : 0;
  }
  // The file that an address lies in; null: none.
  std::shared_ptr<Scratch> file_of(const void* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [piece, scratch] : in_scratch_)
      if (scratch->holds(data)) return scratch;  // all are of one file, or of few
    return nullptr;
  }
  void lay_in(std::shared_ptr<Scratch> scratch, std::int64_t least) {
    const std::lock_guard<std::mutex> lock(mutex_);
    scratch_ = std::move(scratch);
    least_in_scratch_ = least;
  }
  void trim() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto range = free_.begin(); range != free_.end();) {
      const auto segment = segments_.find(range->first);
      if (segment == segments_.end() ||
          segment->second.bytes != static_cast<std::int64_t>(range->second.bytes)) {
        ++range;  // a tensor holds another part of the segment
        continue;
      }
      count_release(segment->second.use, segment->second.bytes);
      inner_->raw_deallocate(segment->first);
      segments_.erase(segment);
      range = free_.erase(range);
    }
  }

 private:
  struct Block {
    std::int64_t bytes;
    MemoryUse use;
    char* segment;  // that it is a part of; null: stands alone
  };
  struct Segment {
    std::int64_t bytes;
    MemoryUse use;
  };
  struct Range {
    std::size_t bytes;
    char* segment;
  };

  // The first place that waits for a tensor of this size; null: none, or one that a living tensor reaches
  // into.
  void* place(std::size_t bytes) {
    const auto found = std::find_if(places.begin(), places.end(),
                                    [&](const Place& p) { return p.least <= bytes && bytes <= p.most; });
    if (found == places.end()) return nullptr;
    char* data = found->data;
    places.erase(found);
    const auto after = placed_.lower_bound(data);
    if (after != placed_.end() && after->first < data + bytes) return nullptr;
    if (after != placed_.begin() && std::prev(after)->first + std::prev(after)->second > data) return nullptr;
    placed_.emplace(data, bytes);
    return data;
  }

  // From the smallest free range that is large enough; its rest stays free. Null: none.
  void* take(std::size_t bytes) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range)
      if (range->second.bytes >= bytes && (best == free_.end() || range->second.bytes < best->second.bytes))
        best = range;
    if (best == free_.end()) return nullptr;
    char* data = best->first;
    const Range range = best->second;
    free_.erase(best);
    if (range.bytes > bytes) free_.emplace(data + bytes, Range{range.bytes - bytes, range.segment});
    blocks_.emplace(data, Block{static_cast<std::int64_t>(bytes), MemoryUse::activations, range.segment});
    return data;
  }

  void add_segment(std::size_t bytes) {
    char* data = static_cast<char*>(inner_->raw_allocate(bytes));
    ask_for_large_pages(data, bytes);
    const Segment segment{static_cast<std::int64_t>(bytes), current_memory_use()};
    segments_.emplace(data, segment);
    free_.emplace(data, Range{bytes, data});
    count_allocation(segment.use, segment.bytes);
  }

  // Joined with what is free beside it in the same segment.
  void put_back(char* data, std::size_t bytes, char* segment) {
    auto range = free_.emplace(data, Range{bytes, segment}).first;
    const auto next = std::next(range);
    if (next != free_.end() && next->second.segment == segment && data + bytes == next->first) {
      range->second.bytes += next->second.bytes;
      free_.erase(next);
    }
    if (range == free_.begin()) return;
    const auto before = std::prev(range);
    if (before->second.segment == segment && before->first + before->second.bytes == data) {
      before->second.bytes += range->second.bytes;
      free_.erase(range);
    }
  }

  static void give(void* data);

  static void ask_for_large_pages(void* data, std::size_t bytes) {
    const auto begin = (reinterpret_cast<std::uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
    const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / kLargePage * kLargePage;
    // Advice only: a kernel that says no gives ordinary pages.
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }

  c10::Allocator* inner_;
  std::mutex mutex_;
  int scopes_ = 0;                           // open ReuseScopes
  std::unordered_map<void*, Block> blocks_;  // what we gave out
  std::map<char*, Segment> segments_;        // what we keep, and
  std::map<char*, Range> free_;              // which parts of it no tensor holds
  std::map<char*, std::size_t> placed_;      // tensors that lie in arenas
  std::shared_ptr<Scratch> scratch_;         // where large tensors lie; null: in memory
  std::int64_t least_in_scratch_ = 0;
  std::unordered_map<void*, std::shared_ptr<Scratch>> in_scratch_;
};

TensorAllocator& allocator() {
  static TensorAllocator* const installed = [] {
    auto* a = new TensorAllocator(c10::GetCPUAllocator());  // lives as long as any tensor may
    c10::SetCPUAllocator(a, /*priority=*/100);
    return a;
  }();
  return *installed;
}

void TensorAllocator::give(void* data) {
  if (!data) return;
  TensorAllocator& a = allocator();
  const std::lock_guard<std::mutex> lock(a.mutex_);
  if (a.placed_.erase(static_cast<char*>(data)) > 0) return;  // the arena keeps it
  if (const auto piece = a.in_scratch_.find(data); piece != a.in_scratch_.end()) {
    piece->second->give(data);
    a.in_scratch_.erase(piece);
    return;
  }
  const auto block = a.blocks_.find(data);
  if (block == a.blocks_.end()) {
    a.inner_->raw_deallocate(data);  // older than this allocator
    return;
  }
  const Block was = block->second;
  a.blocks_.erase(block);
  if (was.segment) {
    a.put_back(static_cast<char*>(data), static_cast<std::size_t>(was.bytes), was.segment);
  } else {
    count_release(was.use, was.bytes);
    a.inner_->raw_deallocate(data);
  }
}

}  // namespace

void track_tensor_memory() { allocator(); }

ReuseScope::ReuseScope() { allocator().open(); }
ReuseScope::~ReuseScope() { allocator().close(); }

ScratchScope::ScratchScope(std::shared_ptr<Scratch> scratch, std::int64_t least) {
  allocator().lay_in(std::move(scratch), least);
}
ScratchScope::~ScratchScope() { allocator().lay_in(nullptr, 0); }

void* take_array(std::size_t bytes) { return has_scratch() ? allocator().take_array(bytes) : nullptr; }
bool give_array(void* data) noexcept {
  // What malloc gives of this size does not begin on a page.
  if (!has_scratch() || !data || reinterpret_cast<std::uintptr_t>(data) % kGrain != 0) return false;
  return allocator().give_array(data);
}

std::int64_t scratch_bytes() { return allocator().scratch_size(); }

bool in_scratch(const at::Tensor& t) {
  return has_scratch() && t.is_cpu() && t.numel() > 0 && allocator().file_of(t.const_data_ptr());
}

namespace {
// f(address, bytes) of the rows of each plane, (..., rows, columns), of any strides, gaps between rows included.
template <class F>
void of_planes(const at::Tensor& t, const F& f) {
  const auto last = [&](std::int64_t axis) { return (t.size(axis) - 1) * t.stride(axis); };
  const std::int64_t element = static_cast<std::int64_t>(t.element_size());
  const std::int64_t bytes = (last(-2) + last(-1) + 1) * element;
  const at::Tensor planes = t.dim() == 2 ? t.unsqueeze(0) : t;
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t d = 0; d + 2 < planes.dim(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets)
      for (std::int64_t k = 0; k < planes.size(d); ++k)
        next.push_back(offset + k * planes.stride(d) * element);
    offsets = std::move(next);
  }
  const char* const begin = static_cast<const char*>(t.const_data_ptr());
  for (const std::int64_t offset : offsets) f(begin + offset, bytes);
}
std::shared_ptr<Scratch> file_of(const at::Tensor& t) {
  if (!has_scratch() || !t.defined() || !t.is_cpu() || t.numel() == 0 || t.dim() < 2) return nullptr;
  return allocator().file_of(t.const_data_ptr());
}
}  // namespace

void fetch_ahead(const at::Tensor& t) {
  if (const std::shared_ptr<Scratch> file = file_of(t))
    of_planes(t, [&](const char* data, std::int64_t bytes) { file->fetch(data, bytes); });
}

void await(std::span<const at::Tensor> read, const at::Tensor& written) {
  if (!has_scratch()) return;
  const PhaseScope phase(Phase::scratch);
  const auto wait_for = [](const at::Tensor& t, bool written) {
    const std::shared_ptr<Scratch> file = file_of(t);
    if (!file) return;
    file->make_room();
    const auto element = static_cast<std::int64_t>(t.element_size());
    const std::int64_t rows = t.size(-2), step = t.stride(-2) * element,
                       row = ((t.size(-1) - 1) * t.stride(-1) + 1) * element;
    of_planes(t, [&](const char* data, std::int64_t bytes) {
      if (step <= 2 * row) return file->await(data, bytes, written);
      for (std::int64_t r = 0; r < rows; ++r)
        file->await(data + r * step, row, written);  // not what lies between
    });
  };
  for (const at::Tensor& t : read) wait_for(t, false);
  wait_for(written, true);
}

void overwritten_soon(const at::Tensor& t) {
  if (!t.is_cpu() || t.numel() == 0 || !t.is_contiguous()) return;
  if (const std::shared_ptr<Scratch> file = allocator().file_of(t.const_data_ptr()))
    file->forget(t.mutable_data_ptr(), static_cast<std::int64_t>(t.nbytes()));
}

void release_kept_tensors() { allocator().trim(); }

void Arena::resize(std::int64_t bytes) {
  if (data_ && bytes == bytes_) return;
  reset();
  if (bytes == 0) return;
  data_ = allocator().make_arena(bytes);
  bytes_ = bytes;
  use_ = current_memory_use();
  count_allocation(use_, bytes_);
}
void Arena::reset() {
  if (!data_) return;
  allocator().free_arena(data_);
  count_release(use_, bytes_);
  data_ = nullptr;
}
Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(use_, other.use_);
  return *this;
}
void Arena::place_next(std::int64_t offset, std::int64_t least, std::int64_t most) {
  TESSERA_EXPECT(data_ && 0 <= offset && least <= most && offset + most <= bytes_, "a place [", offset, ", ",
                 offset + most, ") in an arena of ", bytes_, " bytes (it would leave it) resize it first");
  places.push_back({data_ + offset, static_cast<std::size_t>(least), static_cast<std::size_t>(most)});
}
void forget_places() { places.clear(); }

}  // namespace tessera
