// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/tensor_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/core/memory.hpp"

namespace tessera {
namespace {

constexpr std::size_t kSmallestKept = std::size_t{1} << 18;  // below, malloc keeps pages by itself
constexpr std::size_t kLargePage = std::size_t{1} << 21;

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
    const bool keep = scopes_ > 0 && bytes >= kSmallestKept;
    if (!keep || !(data = take(bytes))) {
      data = inner_->raw_allocate(bytes);
      if (keep) ask_for_large_pages(data, bytes);
      const Block block{static_cast<std::int64_t>(bytes), current_memory_use(), keep};
      blocks_.emplace(data, block);
      count_allocation(block.use, block.bytes);
    }
    return {data, data, &give, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_->copy_data(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give; }

  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++scopes_;
  }
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --scopes_;
  }
  void trim() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [bytes, data] : free_) release(blocks_.find(data));
    free_.clear();
  }

 private:
  struct Block {
    std::int64_t bytes;
    MemoryUse use;
    bool kept;
  };
  using Blocks = std::unordered_map<void*, Block>;

  // The smallest free buffer that fits and is not more than twice as large; null: none.
  void* take(std::size_t bytes) {
    std::size_t best = free_.size();
    for (std::size_t i = 0; i < free_.size(); ++i)
      if (bytes <= free_[i].first && free_[i].first <= 2 * bytes &&
          (best == free_.size() || free_[i].first < free_[best].first))
        best = i;
    if (best == free_.size()) return nullptr;
    void* data = free_[best].second;
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
    return data;
  }

  void release(Blocks::iterator block) {
    count_release(block->second.use, block->second.bytes);
    void* data = block->first;
    blocks_.erase(block);
    inner_->raw_deallocate(data);
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
  int scopes_ = 0;                                   // open ReuseScopes
  Blocks blocks_;                                    // what we gave out or keep
  std::vector<std::pair<std::size_t, void*>> free_;  // kept, held by no tensor
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
  const auto block = a.blocks_.find(data);
  if (block == a.blocks_.end()) {
    a.inner_->raw_deallocate(data);  // older than this allocator
  } else if (block->second.kept) {
    a.free_.emplace_back(static_cast<std::size_t>(block->second.bytes), data);
  } else {
    a.release(block);
  }
}

}  // namespace

void track_tensor_memory() { allocator(); }

ReuseScope::ReuseScope() { allocator().open(); }
ReuseScope::~ReuseScope() { allocator().close(); }

void release_kept_tensors() { allocator().trim(); }

}  // namespace tessera
