// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/bands.hpp"

#include <algorithm>
#include <vector>

#include "tessera/domain/tensor_memory.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kBand = std::int64_t{1} << 18;  // numbers; a multiple of a sum's chunk (space.cpp)
constexpr std::int64_t kAhead = 8;                     // bands that are read from a file at once

}  // namespace

Bands::Bands(std::span<const at::Tensor> images, bool writes) : images_(images), writes_(writes) {
  const at::Tensor* first = nullptr;
  bool shared = false, flat = true;
  for (const at::Tensor& t : images) {
    if (!t.defined()) continue;
    if (!first) first = &t;
    const bool same = t.sizes() == first->sizes();
    const bool plane =
        !same && t.dim() == first->dim() && t.size(0) == 1 && t.sizes().slice(1) == first->sizes().slice(1);
    shared = shared || plane;
    flat = flat && (same || plane) && t.is_cpu() && t.is_contiguous();
    on_disk_ = on_disk_ || in_scratch(t);
  }
  if (!first) {
    whole_ = true;
    at_ = 1;  // nothing to go through
    return;
  }
  whole_ = !flat || first->numel() <= kBand;
  planes_ = whole_ || !shared ? 1 : first->size(0);
  numbers_ = whole_ ? 1 : first->numel() / planes_;
}

bool Bands::next(std::span<at::Tensor> parts) {
  if (plane_ == planes_ || at_ >= std::max<std::int64_t>(1, numbers_)) return false;
  if (whole_) {
    std::copy(images_.begin(), images_.end(), parts.begin());
    at_ = 1;
    return true;
  }
  if (on_disk_ && at_ / kBand % kAhead == 0) read();
  const std::int64_t count = std::min(kBand, numbers_ - at_);
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const at::Tensor& t = images_[i];
    if (!t.defined()) continue;
    const std::int64_t plane = t.numel() == numbers_ ? 0 : plane_;
    parts[i] = t.view(-1).narrow(0, plane * numbers_ + at_, count);
  }
  at_ += count;
  if (at_ == numbers_ && ++plane_ < planes_) at_ = 0;
  return true;
}

// Waits for the parts of the next few bands, and has those after them read.
void Bands::read() const {
  std::vector<at::Tensor> read, later;
  at::Tensor written;
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const at::Tensor& t = images_[i];
    if (!t.defined()) continue;
    const std::int64_t begin = (t.numel() == numbers_ ? 0 : plane_ * numbers_) + at_, few = kAhead * kBand,
                       end = t.numel();
    const auto part = [&](std::int64_t from) {
      return t.view({1, -1}).narrow(1, std::min(from, end), std::clamp<std::int64_t>(end - from, 0, few));
    };
    if (i == 0 && writes_)
      written = part(begin);
    else
      read.push_back(part(begin));
    later.push_back(part(begin + few));
  }
  for (const at::Tensor& t : later) fetch_ahead(t);
  await(read, written);
}

}  // namespace tessera
