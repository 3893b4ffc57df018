// SPDX-License-Identifier: BSD-3-Clause
#include "winograd/winograd.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "winograd/kernels.hpp"

namespace tessera {

static_assert(Winograd::kTile == kWinogradTile);

// One piece of memory per thread for all layers of the process; lives as long as a layer does.
class WinogradScratch {
 public:
  static std::shared_ptr<WinogradScratch> shared() {
    static std::mutex mutex;
    static std::weak_ptr<WinogradScratch> living;
    const std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<WinogradScratch> scratch = living.lock();
    if (!scratch) living = scratch = std::make_shared<WinogradScratch>();
    return scratch;
  }
  WinogradScratch() = default;
  WinogradScratch(const WinogradScratch&) = delete;
  WinogradScratch& operator=(const WinogradScratch&) = delete;
  ~WinogradScratch() { release(); }

  /// Exclusive use of it.
  std::unique_lock<std::mutex> lock() { return std::unique_lock<std::mutex>(mutex_); }
  /// Under the lock: `bytes` at least for each of so many threads.
  void reserve(std::int64_t bytes, int threads) {
    if (bytes <= bytes_ && threads <= static_cast<int>(parts_.size())) return;
    bytes = std::max(bytes, bytes_);
    threads = std::max(threads, static_cast<int>(parts_.size()));
    release();
    for (int t = 0; t < threads; ++t) {
      void* data = std::aligned_alloc(kPage, static_cast<std::size_t>(bytes));
      if (!data) throw std::bad_alloc();
      madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // fewer address misses; may be refused
      parts_.push_back(static_cast<float*>(data));  // its thread touches it first, on that thread's node
      count_allocation(MemoryUse::activations, bytes);
    }
    bytes_ = bytes;
  }
  float* part(std::int64_t thread) const { return parts_[static_cast<std::size_t>(thread)]; }

  static std::int64_t whole_pages(std::int64_t bytes) {
    return (bytes + std::int64_t{kPage} - 1) / std::int64_t{kPage} * std::int64_t{kPage};
  }

 private:
  static constexpr std::size_t kPage = std::size_t{1} << 21;

  void release() {
    for (float* part : parts_) {
      std::free(part);
      count_release(MemoryUse::activations, bytes_);
    }
    parts_.clear();
  }

  std::mutex mutex_;
  std::int64_t bytes_ = 0;  // of each part
  std::vector<float*> parts_;
};

namespace {

using Instructions = Winograd::Instructions;

// AMX with bfloat16, which this compiler's builtin does not know.
bool multiplies_matrices() {
#if defined(__x86_64__)
  constexpr unsigned kLeaf = 7, kBit = 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) && (d >> kBit & 1U) != 0;
#else
  return false;
#endif
}

// Tiles whose inputs are transformed at once. Few, so that they stay in a level 2 cache of 1 MiB beside the
// weights; more where the weights (9.4 MB for 256 channels) come from further away each time. As whole products:
// with 12 instead of 14 products of 6 take 0.97 of the time.
// With AVX2 channels that leave room in a cache of 512 KiB take 24: up to 32 channels 0.95 of the time of 12, 129 to 192
// channels 0.9 of that of 84.
// Of a volume three slices of them: with AVX2, 18 take 0.91 of the time of 12 (32 channels, 64 x 64 x 64) and 0.95 (64).
std::int64_t block_tiles(std::int64_t inputs, std::int64_t taps, const WinogradKernels& kernel) {
  const bool narrow = kernel.lanes == 8;
  const std::int64_t tiles = taps > 1                                                      ? 18
                             : narrow && (inputs <= 32 || (inputs > 128 && inputs <= 192)) ? 24
                             : inputs <= 128                                               ? 14
                                                                                           : 84;
  return tiles / kernel.rows * kernel.rows;
}
constexpr std::int64_t kBlockOutputs = kMostBlockOutputs;
constexpr std::int64_t kLeastSlices = 8;  // of a piece of a volume's depth

// G of winograd_kernels.hpp: row p is (1, p, p^2) / prod (p - q) over the other points q; infinity comes
// last.
std::array<std::array<double, 3>, kWinogradSide> kernel_transform() {
  const std::array<double, 5> points{0.0, std::sqrt(0.5), -std::sqrt(0.5), std::sqrt(2.0), -std::sqrt(2.0)};
  std::array<std::array<double, 3>, kWinogradSide> g{};
  for (std::size_t i = 0; i < points.size(); ++i) {
    double product = 1;
    for (std::size_t j = 0; j < points.size(); ++j)
      if (j != i) product *= points[i] - points[j];
    g[i] = {1 / product, points[i] / product, points[i] * points[i] / product};
  }
  g.back() = {0, 0, 1};
  return g;
}

// Whether y is written past the caches: it does not fit there until it is read, and a store would first read what it
// overwrites. By whole lines: a row of a tile's pixels is some, or, where its outputs come in several blocks, each
// pixel's part of a block. In place y has been read.
bool streams(const at::Tensor& y, const at::Tensor* other) {
  const auto whole = [&](std::int64_t numbers) { return numbers * y.element_size() % 64 == 0; };
  const std::int64_t outputs = y.size(1);
  const bool one_piece = outputs <= kBlockOutputs && y.stride(-1) == outputs && outputs % 8 == 0;
  return comes_from_memory(y) && (one_piece || (whole(outputs) && whole(y.stride(-1)))) &&
         whole(y.stride(0)) && (y.dim() == 4 || whole(y.stride(2))) && whole(y.stride(-2)) &&
         reinterpret_cast<std::uintptr_t>(y.const_data_ptr()) % 64 == 0 &&
         !(other && other->const_data_ptr() == y.const_data_ptr());
}

PixelStrides pixel_strides(const at::Tensor& x) {
  return {x.stride(0), x.stride(-2), x.stride(-1), x.dim() == 5 ? x.stride(2) : 0};
}

}  // namespace

bool comes_from_memory(const at::Tensor& feature) {
  constexpr std::int64_t kFarBytes = std::int64_t{8} << 20;
  return feature.numel() * feature.element_size() >= kFarBytes;
}

const WinogradKernels& winograd_kernels(Winograd::Instructions instructions) {
  return instructions == Instructions::avx512_bf16 ? winograd_avx512_bf16()
         : instructions == Instructions::avx512    ? winograd_avx512()
                                                   : winograd_avx2();
}

std::size_t winograd_element(at::ScalarType type) {
  const WinogradElement e = type == at::kFloat      ? WinogradElement::float32
                            : type == at::kBFloat16 ? WinogradElement::bfloat16
                                                    : WinogradElement::float16;
  return static_cast<std::size_t>(e);
}

Winograd::Instructions Winograd::available() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))  // with them comes F16C
    return Instructions::none;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16") && winograd_avx512_bf16().lanes)
    return Instructions::avx512_bf16;
  if (avx512 && winograd_avx512().lanes) return Instructions::avx512;
  if (winograd_avx2().lanes) return Instructions::avx2;
#endif
  return Instructions::none;
}

bool Winograd::runs(at::ScalarType type) {
  static const Instructions best = available();
  static const bool matrices = multiplies_matrices();
  return takes_type(type) && best != Instructions::none && !(type == at::kBFloat16 && matrices);
}

std::int64_t Winograd::scratch_bytes(std::int64_t inputs, std::int64_t taps, Instructions instructions) {
  const WinogradKernels& kernel = winograd_kernels(instructions);
  const std::int64_t floats =
      kernel.scratch_floats(taps, inputs, block_tiles(inputs, taps, kernel), kBlockOutputs);
  return WinogradScratch::whole_pages(floats * std::int64_t{sizeof(float)});
}

bool Winograd::takes(const at::Tensor& x) {
  return (x.dim() == 4 || x.dim() == 5) && takes_type(x.scalar_type()) && x.is_cpu() &&
         (x.size(1) == 1 || x.stride(1) == 1);
}

Winograd::Winograd(const at::Tensor& weight, const std::optional<at::Tensor>& bias, Instructions instructions,
                   Products products)
    : instructions_(instructions),
      products_(weight.size(0) <= kDirectOutputs ? Products::floats : products),
      type_(weight.scalar_type()),
      inputs_(weight.size(1)),
      outputs_(weight.size(0)),
      taps_(weight.dim() == 5 ? weight.size(2) : 1),
      scratch_(WinogradScratch::shared()) {
  TESSERA_EXPECT(instructions != Instructions::none && weight.size(-2) == 3 && weight.size(-1) == 3 &&
                     weight.size(2) == 3 && takes_type(type_) &&
                     (products == Products::floats || type_ == at::kBFloat16),
                 "a Winograd layer of weights ", weight.sizes(),
                 " (they are [3 x] 3 x 3 of 16 or 32 bits, on a CPU with AVX2; pairs are of bfloat16)");
  const at::Tensor plain = weight.to(at::kFloat).contiguous();
  if (outputs_ <= kDirectOutputs)
    pack_direct(plain);
  else
    pack_transformed(plain);
  if (bias) {
    const std::int64_t panel = 2 * winograd_kernels(instructions).lanes,
                       panels = (outputs_ + panel - 1) / panel;
    bias_ = at::zeros({panels * panel}, at::TensorOptions().dtype(at::kFloat));
    bias_.narrow(0, 0, outputs_).copy_(*bias);
  }
  const auto lock = scratch_->lock();
  scratch_->reserve(scratch_bytes(inputs_, taps_, instructions_), at::get_num_threads());
}

// [output][block of lanes][taps of a slice][tap][lane], filled up with zeros.
void Winograd::pack_direct(const at::Tensor& weight) {
  const std::int64_t lanes = winograd_kernels(instructions_).lanes, blocks = (inputs_ + lanes - 1) / lanes;
  at::Tensor wide = at::zeros({outputs_, blocks * lanes, 9 * taps_}, weight.options());
  wide.narrow(1, 0, inputs_).copy_(weight.reshape({outputs_, inputs_, 9 * taps_}));
  weight_ = wide.reshape({outputs_, blocks, lanes, 9 * taps_}).transpose(2, 3).contiguous();
}

void Winograd::pack_transformed(const at::Tensor& weight) {
  const std::int64_t panel = 2 * winograd_kernels(instructions_).lanes,
                     panels = (outputs_ + panel - 1) / panel;
  // Of a product: slice after slice, in each its channels, or pairs of them.
  const std::int64_t pair = products_ == Products::pairs ? 2 : 1, steps = (inputs_ + pair - 1) / pair;
  at::Tensor packed = at::zeros({panels, kWinogradPoints, taps_ * steps, panel, pair}, weight.options());
  const float* from = weight.const_data_ptr<float>();
  float* to = packed.mutable_data_ptr<float>();
  const auto g = kernel_transform();
  at::parallel_for(0, outputs_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      for (std::int64_t sum = 0; sum < taps_ * inputs_; ++sum) {
        const std::int64_t tap = sum / inputs_, c = sum % inputs_, step = tap * steps + c / pair;
        const float* w = from + ((k * inputs_ + c) * taps_ + tap) * 9;
        for (std::size_t i = 0; i < kWinogradSide; ++i) {
          std::array<double, 3> half{};  // (G w) row i
          for (std::size_t b = 0; b < 3; ++b)
            for (std::size_t a = 0; a < 3; ++a) half[b] += g[i][a] * w[a * 3 + b];
          for (std::size_t j = 0; j < kWinogradSide; ++j) {
            const double u = half[0] * g[j][0] + half[1] * g[j][1] + half[2] * g[j][2];
            const std::int64_t point =
                static_cast<std::int64_t>(i) * kWinogradSide + static_cast<std::int64_t>(j);
            const std::int64_t row = (k / panel * kWinogradPoints + point) * taps_ * steps + step;
            to[(row * panel + k % panel) * pair + c % pair] = static_cast<float>(u);
          }
        }
      }
  });
  weight_ = pair == 2 ? packed.to(at::kBFloat16) : packed;
}

void Winograd::run(const at::Tensor& x, const Padding& before, const at::Tensor* other, bool relu,
                   const at::Tensor& y, std::int64_t front) const {
  const auto fits = [&](const at::Tensor& t) { return takes(t) && t.scalar_type() == type_; };
  TESSERA_EXPECT(fits(x) && fits(y) && (!other || fits(*other)),
                 "a Winograd layer got another type or layout (its channels must lie side by side)");
  const bool volume = taps_ > 1;
  const auto depth_of = [&](const at::Tensor& t) { return volume ? t.size(2) : 1; };
  const std::int64_t depth = depth_of(y), height = y.size(-2), width = y.size(-1);
  const auto zero_or_one = [](std::int64_t zeros) { return zeros == 0 || zeros == 1; };
  TESSERA_EXPECT(x.dim() == (volume ? 5 : 4) && y.dim() == x.dim() && depth > 0 && height > 0 && width > 0 &&
                     x.size(1) == inputs_ && y.size(1) == outputs_ && x.size(0) == y.size(0) &&
                     zero_or_one(depth + taps_ - 1 - front - depth_of(x)) &&
                     zero_or_one(height + 2 - before[0] - x.size(-2)) &&
                     zero_or_one(width + 2 - before[1] - x.size(-1)) &&
                     (!other || other->sizes() == y.sizes()),
                 "a Winograd layer from ", x.sizes(), " to ", y.sizes(), " (the sizes do not fit)");
  WinogradTask task{};
  task.x = x.const_data_ptr();
  task.x_strides = pixel_strides(x);
  task.images = x.size(0);
  task.depth = depth_of(x);
  task.height = x.size(-2);
  task.width = x.size(-1);
  task.taps = taps_;
  task.front = front;
  task.top = before[0];
  task.left = before[1];
  task.y = y.mutable_data_ptr();
  task.out_depth = depth;
  task.out_height = height;
  task.out_width = width;
  task.y_strides = pixel_strides(y);
  if (other) {
    task.other = other->const_data_ptr();
    task.other_strides = pixel_strides(*other);
  }
  task.bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  task.relu = relu;
  task.stream = streams(y, other);
  task.far = comes_from_memory(x) || comes_from_memory(y);
  task.weights = static_cast<const float*>(weight_.const_data_ptr());
  task.channels = inputs_;
  task.outputs = outputs_;

  const int threads = at::get_num_threads();
  const WinogradKernels& kernel = winograd_kernels(instructions_);
  const std::int64_t panel = 2 * kernel.lanes;
  task.block_outputs = std::min(kBlockOutputs, (outputs_ + panel - 1) / panel * panel);
  // Whoever is free takes the next piece.
  const auto share = [&](std::int64_t all, std::int64_t piece, const auto& work) {
    std::atomic<std::int64_t> next{0};
    at::parallel_for(0, std::min<std::int64_t>(threads, (all + piece - 1) / piece), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t thread = begin; thread < end; ++thread)
                         for (std::int64_t first; (first = next.fetch_add(piece)) < all;)
                           work(thread, first, std::min(all, first + piece));
                     });
  };
  if (outputs_ <= kDirectOutputs) {
    share(task.images * depth * height, kTile, [&](std::int64_t, std::int64_t first, std::int64_t last) {
      kernel.run_direct[winograd_element(type_)](task, first, last);
    });
    return;
  }
  // Blocks of even size, as many as the threads can share without a rest. Of a volume a block goes down all slices, in
  // few pieces where there are more threads than blocks: a piece transforms two slices beside its own.
  const std::int64_t tiles = task.images * winograd_tiles(height) * winograd_tiles(width);
  const std::int64_t largest = block_tiles(inputs_, taps_, kernel);
  const std::int64_t in_round = (tiles + largest - 1) / largest;
  const std::int64_t pieces = std::clamp<std::int64_t>((threads + in_round - 1) / in_round, 1,
                                                       std::max<std::int64_t>(1, depth / kLeastSlices));
  const std::int64_t rounds = (in_round * pieces + threads - 1) / threads;
  const std::int64_t blocks = std::min(tiles, std::max(in_round, rounds * threads / pieces));
  task.block_tiles = (tiles + blocks - 1) / blocks;
  const auto lock = scratch_->lock();
  scratch_->reserve(scratch_bytes(inputs_, taps_, instructions_), threads);
  const std::int64_t shares = (tiles + task.block_tiles - 1) / task.block_tiles;
  share(shares * pieces, 1, [&](std::int64_t thread, std::int64_t item, std::int64_t) {
    const std::int64_t first = item / pieces * task.block_tiles, piece = item % pieces;
    const auto run = products_ == Products::pairs ? kernel.run_pairs : kernel.run[winograd_element(type_)];
    run(task, first, std::min(tiles, first + task.block_tiles), piece * depth / pieces,
        (piece + 1) * depth / pieces, scratch_->part(thread));
  });
}

}  // namespace tessera
