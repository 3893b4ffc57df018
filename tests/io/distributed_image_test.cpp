// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/distributed_image.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "io/pictures.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

// Uneven columns and rows; from three ranks on the last one is empty.
Layout cut(const Box& image, int ranks) {
  const int active = ranks > 2 ? ranks - 1 : ranks, columns = active % 2 == 0 ? 2 : 1,
            rows = active / columns;
  std::vector<Box> boxes;
  for (int k = 0; k < active; ++k) {
    const int i = k / columns, j = k % columns;
    boxes.emplace_back(Index3{0, image.extent(1) * i / rows, image.extent(2) * j / columns},
                       Index3{1, image.extent(1) * (i + 1) / rows, image.extent(2) * (j + 1) / columns});
  }
  boxes.resize(static_cast<std::size_t>(ranks));
  return Layout(boxes);
}

template <class T>
struct Block {
  std::vector<T> data;
  ArrayView view;
  Block(const Box& box, std::int64_t channels)
      : data(static_cast<std::size_t>(box.pixels() * channels), T(-7)) {
    view.data = data.data();
    view.box = box;
    view.channels = channels;
    view.channel_stride = 1;  // channels last, so that no code may assume dense planes
    view.stride = {box.extent(1) * box.extent(2) * channels, box.extent(2) * channels, channels};
    view.type = sizeof(T) == 8 ? ElementType::float64 : ElementType::float32;
  }
  T& at(std::int64_t c, std::int64_t y, std::int64_t x) {
    return data[static_cast<std::size_t>((y - view.box.lo()[1]) * view.stride[1] +
                                         (x - view.box.lo()[2]) * view.stride[2] + c)];
  }
};

template <class T>
void expect_equal(Block<T>& block, const std::vector<float>& whole, const Box& image) {
  int wrong = 0;
  const Box& box = block.view.box;
  for (std::int64_t c = 0; c < block.view.channels; ++c)
    for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
      for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x)
        wrong += block.at(c, y, x) !=
                 whole[static_cast<std::size_t>((c * image.extent(1) + y) * image.extent(2) + x)];
  EXPECT_EQ(wrong, 0) << box;
}

template <class T>
void expect_read(const std::string& path, const std::vector<float>& whole, const Communicator& comm,
                 int halo = 0) {
  SCOPED_TRACE(path);
  const SourceInfo info = image_source_info(path, comm);
  ASSERT_EQ(static_cast<std::size_t>(info.channels * info.box.pixels()), whole.size());
  std::vector<Box> boxes;
  for (int r = 0; r < comm.size(); ++r)  // boxes that overlap are legal where one reads
    boxes.push_back(
        cut(info.box, comm.size()).box(r).grow({{0, halo, halo}, {0, halo, halo}}).intersect(info.box));
  const Layout layout(boxes);
  Block<T> block(layout.box(comm.rank()), info.channels);
  read_image(path, layout, block.view, comm);
  expect_equal(block, whole, info.box);
  // Visited, each sample comes to one rank once.
  std::array<double, 3> seen{}, wanted{};
  const auto add = [](std::array<double, 3>& sums, double v) {
    sums[0] += 1;
    sums[1] += v;
    sums[2] += v * v;
  };
  visit_samples(path, comm, [&](const double* first, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k) add(seen, first[k]);
  });
  comm.all_reduce(seen, Reduce::sum);
  for (const float v : whole) add(wanted, v);
  EXPECT_EQ(seen[0], wanted[0]);
  for (const std::size_t k : {1U, 2U}) EXPECT_NEAR(seen[k], wanted[k], 1e-9 * wanted[k]);
}

void put_npy(const std::string& path, const std::string& shape, const std::string& order,
             const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  std::string bytes("\x93NUMPY\1\0", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(DistributedImage, EveryFormatOnEveryNumberOfRanksEqualsTheWhole) {
  const Communicator world = Communicator::world();
  constexpr std::int64_t kHeight = 331, kWidth = 4099;  // a band is some 170 rows in color: several of them
  if (world.rank() == 0) {
    test::write_scene("color.png", 3, kHeight, kWidth, 16);
    test::write_scene("gray.tif", 1, kHeight, kWidth, 8);
    test::write_scene("color.jpg", 3, 97, 203, 8);
    std::vector<std::uint8_t> samples(static_cast<std::size_t>(kHeight * kWidth * 3));
    for (std::size_t k = 0; k < samples.size(); ++k) samples[k] = static_cast<std::uint8_t>(k * 37 % 251);
    test::save_with_vips("turned.tif", samples, kWidth, kHeight, 3, VIPS_FORMAT_UCHAR,
                         VIPS_INTERPRETATION_sRGB, 6);
    test::write_scene("one_pixel.png", 3, 1, 1, 8);
    const std::vector<float> values = test::scene(2, 37, 53, 255);
    put_npy("c.npy", "(2, 37, 53)", "False", values);
    std::vector<float> fortran(values.size());
    for (std::size_t c = 0; c < 2; ++c)
      for (std::size_t y = 0; y < 37; ++y)
        for (std::size_t x = 0; x < 53; ++x) fortran[c + 2 * (y + 37 * x)] = values[(c * 37 + y) * 53 + x];
    put_npy("fortran.npy", "(2, 37, 53)", "True", fortran);
    Block<float> block(Box::image2d(37, 53), 2);
    for (std::int64_t c = 0; c < 2; ++c)
      for (std::int64_t y = 0; y < 37; ++y)
        for (std::int64_t x = 0; x < 53; ++x)
          block.at(c, y, x) = values[static_cast<std::size_t>((c * 37 + y) * 53 + x)];
    Hdf5File file = Hdf5File::create("two.h5", Communicator());
    file.write("/image", Box::image2d(37, 53), block.view);
    file.write("/other/name", Box::image2d(37, 53), block.view);
    file.close();
  }
  world.barrier();
  const std::vector<float> arrays = test::scene(2, 37, 53, 255);
  std::vector<std::pair<std::string, std::vector<float>>> pictures;
  for (const std::string path : {"color.png", "gray.tif", "color.jpg", "turned.tif", "one_pixel.png"})
    pictures.emplace_back(path, test::read_all(path));
  EXPECT_EQ(image_source_info("turned.tif", world).note, "EXIF orientation 6 applied");
  EXPECT_EQ(image_source_info("color.png", world).full_scale, 65535);
  EXPECT_EQ(image_source_info("two.h5", world).channels, 2);
  test::on_groups([&](const Communicator& comm) {
    for (const auto& [path, whole] : pictures) {
      expect_read<float>(path, whole, comm);
      expect_read<double>(path, whole, comm, 9);
    }
    for (const std::string path : {"c.npy", "fortran.npy", "two.h5", "two.h5:/image", "two.h5:/other/name"})
      expect_read<double>(path, arrays, comm);
  });
}

TEST(DistributedImage, AScaleThatIsNoneIsRefused) {
  if (test::other_rank()) return;
  for (const double factor : {0.0, -2.0, std::numeric_limits<double>::quiet_NaN()}) {
    Block<float> block(Box::image2d(4, 5), 1);
    Hdf5File file = Hdf5File::create("factor.h5", Communicator());
    file.write("/image", Box::image2d(4, 5), block.view);
    file.set_attribute("/image", "factor", factor);
    file.close();
    EXPECT_THROW(image_source_info("factor.h5", Communicator()), InputError) << factor;
  }
}

TEST(DistributedImage, PicturesAreGatheredBandByBand) {
  const Box image = Box({0, 5, -3}, {1, 5 + 263, -3 + 5003});  // a crop keeps its own coordinates
  const std::vector<float> scene = test::scene(3, 263, 5003, 65535);
  test::on_groups([&](const Communicator& comm) {
    const Layout plain = cut(Box::image2d(263, 5003), comm.size());
    std::vector<Box> boxes;
    for (int r = 0; r < comm.size(); ++r) boxes.push_back(plain.box(r).shift(image.lo()));
    const Layout layout(boxes);
    Block<float> block(layout.box(comm.rank()), 3);
    const Box& box = block.view.box;
    for (std::int64_t c = 0; c < 3; ++c)
      for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
        for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x)
          block.at(c, y, x) = scene[static_cast<std::size_t>((c * 263 + y - 5) * 5003 + x + 3)];
    const std::string path = concat("gathered_", comm.size(), ".tif");
    const ImageRecord record{.space = ImageSpace(image, 3), .bits = 16};
    write_image(path, record, layout, block.view, comm);
    comm.barrier();
    std::vector<float> back = test::read_all(path);
    ASSERT_EQ(back.size(), scene.size());
    int wrong = 0;
    for (std::size_t k = 0; k < back.size(); ++k) wrong += back[k] / 65535 != scene[k];
    EXPECT_EQ(wrong, 0);
    EXPECT_THROW(write_image("no_such_folder/a.png", record, layout, block.view, comm), RunError);
    EXPECT_THROW(write_image("a.jpg", record, layout, block.view, comm), InputError);
    comm.barrier();
  });
}

TEST(DistributedImage, DamageIsOneMessageOnAllRanks) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0) {
    test::write_scene("whole.png", 3, 600, 4000, 8);
    test::write_scene("whole.tif", 3, 600, 900, 8);
    for (const std::string name : {"png", "tif"}) {
      const std::string bytes = read_text("whole." + name);
      std::ofstream("half." + name, std::ios::binary) << bytes.substr(0, bytes.size() * 6 / 10);
    }
    put_npy("last.npy", "(600, 900, 3)", "False", std::vector<float>(600 * 900 * 3));
  }
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    for (const auto& [path, says, image] : std::vector<std::tuple<std::string, std::string, Box>>{
             {"half.png", "half.png", Box::image2d(600, 4000)},
             {"half.tif", "half.tif", Box::image2d(600, 900)},
             {"whole.png", "are needed", Box::image2d(601, 4000)},
             {"whole.png", "are needed", Box::image2d(600, 4001)},
             {"last.npy", "move its last axis", Box::image2d(600, 900)},
             {"no_such.png", "No such file", Box::image2d(1, 1)},
             {"no_such.h5", "No such file", Box::image2d(1, 1)},
             {"picture.bmp", "suffix", Box::image2d(1, 1)}}) {
      SCOPED_TRACE(path);
      const Layout layout = cut(image, comm.size());
      Block<float> block(layout.box(comm.rank()), 3);
      std::string message;
      try {
        read_image(path, layout, block.view, comm);
      } catch (const InputError& e) {
        message = e.what();
      }
      EXPECT_NE(message.find(says), std::string::npos) << message;
      EXPECT_EQ(message, comm.broadcast(message, 0));
    }
  });
}

// 144 MB of samples in the file, 41 MB of float32 per rank: a rank that held the whole would pass the limit.
TEST(DistributedImage, MemoryOfARankIsItsRegionAndABand) {
  const Communicator world = Communicator::world();
  constexpr std::int64_t kSide = 4900;
  if (world.rank() == 0) {
    for (const std::string path : {"large.png", "large.tif"}) {
      const auto sink = test::create_picture(path, kSide, kSide, 3, 16);
      std::vector<float> rows(static_cast<std::size_t>(3 * 100 * kSide));
      for (std::size_t k = 0; k < rows.size(); ++k) rows[k] = static_cast<float>(k % 1000) / 1000;
      for (std::int64_t y = 0; y < kSide; y += 100)
        sink->write(Box({0, y, 0}, {1, y + 100, kSide}), rows.data());
      sink->finish();
    }
  }
  world.barrier();
  std::vector<Box> boxes;
  for (int r = 0; r < world.size(); ++r)
    boxes.emplace_back(Index3{0, kSide * r / world.size(), 0},
                       Index3{1, kSide * (r + 1) / world.size(), kSide});
  const Layout layout(boxes);
  for (const std::string path : {"large.png", "large.tif"}) {
    malloc_trim(0);  // what the picture before left behind would serve this one unseen
    std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // VmHWM starts again at VmRSS
    const std::int64_t before = resident_bytes();
    if (resident_peak_bytes() > before + (8 << 20)) GTEST_SKIP() << "this kernel does not reset VmHWM";
    {
      Block<float> block(layout.box(world.rank()), 3);
      read_image(path, layout, block.view, world);
    }
    const std::int64_t region = layout.box(world.rank()).pixels() * 3 * 4;
    const std::int64_t peak = resident_peak_bytes() - before;
    RecordProperty("peak_" + path.substr(6), std::to_string(peak));
    if (world.rank() < 2)
      std::printf("rank %d: %s, region %.1f MiB, peak %.1f MiB\n", world.rank(), path.c_str(),
                  region / 1048576.0, peak / 1048576.0);
    EXPECT_GT(peak, region / 2) << "nothing was measured";
    EXPECT_LT(peak, region * 3 / 2 + (64 << 20)) << path;
  }
}

}  // namespace
}  // namespace tessera
