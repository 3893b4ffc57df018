// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/scratch.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::string folder() { return std::filesystem::current_path().string(); }

void fill(void* data, std::int64_t bytes, std::uint64_t seed) {
  auto* v = static_cast<std::uint64_t*>(data);
  for (std::int64_t i = 0; i < bytes / 8; ++i)
    v[i] = seed + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U;
}
bool holds(const void* data, std::int64_t bytes, std::uint64_t seed) {
  const auto* v = static_cast<const std::uint64_t*>(data);
  for (std::int64_t i = 0; i < bytes / 8; ++i)
    if (v[i] != seed + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U) return false;
  return true;
}

// A thread keeps the limit; on a busy machine it comes late, but it comes.
std::int64_t settled(std::int64_t limit) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (resident_bytes() > limit && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return resident_bytes();
}

TEST(Scratch, keeps_what_is_written_while_little_is_resident) {
  const std::int64_t before = resident_bytes(), allowed = 48 * kMiB, piece = 64 * kMiB, slack = 4 * kMiB;
  Scratch scratch(folder(), before + allowed);
  std::vector<void*> pieces;
  for (std::uint64_t k = 0; k < 4; ++k) {
    pieces.push_back(scratch.take(piece));
    EXPECT_LE(resident_bytes() - before, allowed + slack) << "taking a piece makes room, whoever computes";
    fill(pieces.back(), piece, k);
  }
  EXPECT_EQ(scratch.bytes(), 4 * piece);
  for (int turn = 0; turn < 2; ++turn)
    for (std::uint64_t k = 0; k < 4; ++k) {
      EXPECT_TRUE(holds(pieces[k], piece, k)) << k;
      EXPECT_LE(settled(before + allowed) - before, allowed);
    }
  EXPECT_LT(process_bytes(), before + 16 * kMiB) << "pages of the file are none of the program's";
  for (void* p : pieces) scratch.give(p);
  EXPECT_EQ(scratch.bytes(), 0);
}

TEST(Scratch, fills_gaps_before_it_grows) {
  Scratch scratch(folder(), std::int64_t{1} << 40);
  void* const a = scratch.take(3 * kMiB);
  void* const b = scratch.take(kMiB + 1);
  void* const c = scratch.take(2 * kMiB);
  fill(b, kMiB, 7);
  fill(c, 2 * kMiB, 8);
  const std::int64_t size = scratch.largest();
  EXPECT_GE(size, 6 * kMiB + 1);
  scratch.give(a);
  void* const d = scratch.take(kMiB);
  void* const e = scratch.take(2 * kMiB);
  fill(d, kMiB, 9);
  fill(e, 2 * kMiB, 10);
  EXPECT_EQ(scratch.largest(), size);
  EXPECT_TRUE(holds(b, kMiB, 7) && holds(c, 2 * kMiB, 8) && holds(d, kMiB, 9) && holds(e, 2 * kMiB, 10));
  scratch.give(c);
  void* const f = scratch.take(4 * kMiB);  // the gap at the end grows
  EXPECT_EQ(scratch.largest(), size + 2 * kMiB);
  EXPECT_TRUE(holds(b, kMiB, 7));
  for (void* p : {b, d, e, f}) scratch.give(p);
  void* const all = scratch.take(scratch.largest());
  EXPECT_EQ(scratch.largest(), size + 2 * kMiB) << "gaps that touch are one";
  scratch.give(all);
}

TEST(Scratch, leaves_no_file) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator(folder()),
                         std::filesystem::directory_iterator());
  };
  const auto before = count();
  Scratch scratch(folder(), std::int64_t{1} << 40);
  std::memset(scratch.take(kMiB), 1, kMiB);
  EXPECT_EQ(count(), before);
}

TEST(Scratch, says_that_the_disk_is_full_before_it_is) {
  Scratch scratch(folder(), std::int64_t{1} << 40);
  void* const kept = scratch.take(kMiB);
  const std::int64_t free = scratch_disk(folder()).free;
  try {
    scratch.take(free + (std::int64_t{1} << 34));
    FAIL() << "a piece larger than the disk";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("has no room for"), std::string::npos) << e.what();
  }
  EXPECT_GT(scratch_disk(folder()).free, free / 2);
  void* const more = scratch.take(kMiB);
  fill(more, kMiB, 3);
  EXPECT_TRUE(holds(more, kMiB, 3));
  scratch.give(kept);
  scratch.give(more);
}

TEST(Scratch, is_refused_where_no_file_can_be) {
  EXPECT_THROW(Scratch("/proc", std::int64_t{1} << 40), InputError);
  EXPECT_THROW(scratch_disk("/nowhere/at/all"), RunError);
  EXPECT_TRUE(!std::filesystem::is_directory("/dev/shm") || scratch_disk("/dev/shm").in_memory);
}

TEST(Scratch, counts_what_goes_to_disk) {
  const DiskTraffic before = disk_traffic();
  Scratch scratch(folder(), resident_bytes() + 8 * kMiB);
  void* const piece = scratch.take(64 * kMiB);
  fill(piece, 64 * kMiB, 1);
  if (scratch_disk(folder()).type == "ext4") {
    EXPECT_GE(disk_traffic().written - before.written, 32 * kMiB);
  }
  scratch.give(piece);
}

}  // namespace
}  // namespace tessera
