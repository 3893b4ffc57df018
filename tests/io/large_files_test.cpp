// SPDX-License-Identifier: BSD-3-Clause
// Files of more than 2^31 elements and 2^33 bytes, most of which are holes: what is read is what lies there.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChannels = 2, kSide = 33000, kPart = 70;  // 2.2e9 elements, 8.7 GB
static_assert(kChannels * kSide * kSide > std::int64_t{1} << 31);

const Box kImage = Box::image2d(kSide, kSide);

// The corners of the image, in turn: the last one lies beyond 2^31 elements in the second channel.
Box corner(int rank) {
  const std::int64_t y = rank % 2 == 0 ? kSide - kPart : 0, x = rank % 4 < 2 ? kSide - kPart : 0;
  return {{0, y, x}, {1, y + kPart, x + kPart}};
}

float value(std::int64_t c, const Index3& p) {
  return static_cast<float>(1 + (c * 7919 + p[1] * 263 + p[2] * 131) % 1009);
}

// Whether `path` takes less than 256 MB of the disk.
bool sparse(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && about.st_blocks < (std::int64_t{1} << 28) / 512;
}

void expect_corner(const std::string& path, const Communicator& comm) {
  const SourceInfo info = image_source_info(path, comm);
  ASSERT_EQ(info.box, kImage);
  ASSERT_EQ(info.channels, kChannels);
  std::vector<Box> boxes;
  for (int r = 0; r < comm.size(); ++r) boxes.push_back(corner(r));
  test::Block<float> block(corner(comm.rank()), kChannels, ElementType::float32, -1);
  read_image(path, Layout(boxes), block.view(), comm);
  std::int64_t wrong = 0;
  block.for_each([&](std::int64_t c, const Index3& p, float v) { wrong += v != value(c, p); });
  EXPECT_EQ(wrong, 0) << block.box();
}

TEST(LargeFiles, NpyBeyondTwoToThe31) {
  const Communicator world = Communicator::world();
  const std::string path = "large_files_test.npy";
  if (world.rank() == 0) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(kChannels) +
                         ", " + std::to_string(kSide) + ", " + std::to_string(kSide) + "), }";
    header.resize(117, ' ');
    header += '\n';
    std::ofstream file(path, std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header;
    for (int k = 0; k < 4; ++k) {
      test::Block<float> block(corner(k), kChannels, ElementType::float32, 0);
      block.for_each([&](std::int64_t c, const Index3& p, float) {
        const float v = value(c, p);
        file.seekp(128 + 4 * ((c * kSide + p[1]) * kSide + p[2]));
        file.write(reinterpret_cast<const char*>(&v), sizeof v);
      });
    }
  }
  test::meet(world);
  if (!sparse(path)) {
    if (world.rank() == 0) fs::remove(path);
    GTEST_SKIP() << "this file system has no room for a file of 8.7 GB with holes";
  }
  expect_corner(path, world);
  test::meet(world);
  if (world.rank() == 0) fs::remove(path);
}

TEST(LargeFiles, Hdf5BeyondTwoToThe31) {
  const Communicator world = Communicator::world();
  const std::string path = "large_files_test.h5";
  if (world.size() < 4) GTEST_SKIP() << "a corner for each of four ranks";
  const bool writes = world.rank() < 4;
  const Box box = writes ? corner(world.rank()) : Box();
  test::Block<float> block(box, kChannels, ElementType::float32, 0);
  block.for_each([](std::int64_t c, const Index3& p, float& v) { v = value(c, p); });
  Hdf5File file = Hdf5File::create(path, world);
  file.write("image", kImage, block.view());
  file.close();
  EXPECT_TRUE(sparse(path)) << "what no rank has is a hole";
  expect_corner(path, world);
  test::meet(world);
  if (world.rank() == 0) fs::remove(path);
}

}  // namespace
}  // namespace tessera
