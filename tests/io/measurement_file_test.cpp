// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/measurement_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

struct Block {
  std::vector<float> data;
  ArrayView view;
  Block(const Box& box, std::int64_t channels) : data(static_cast<std::size_t>(box.pixels() * channels), -7) {
    view.data = data.data();
    view.box = box;
    view.channels = channels;
    view.channel_stride = box.pixels();
    view.stride = {box.extent(1) * box.extent(2), box.extent(2), 1};
  }
  /// Every sample becomes its own address in the global array, plus `shift`.
  std::vector<float> addresses(const Box& global, float shift) const {
    std::vector<float> out;
    for (std::int64_t c = 0; c < view.channels; ++c)
      for (std::int64_t z = view.box.lo()[0]; z < view.box.hi()[0]; ++z)
        for (std::int64_t y = view.box.lo()[1]; y < view.box.hi()[1]; ++y)
          for (std::int64_t x = view.box.lo()[2]; x < view.box.hi()[2]; ++x)
            out.push_back(shift +
                          static_cast<float>(
                              ((c * global.extent(0) + z) * global.extent(1) + y) * global.extent(2) + x));
    return out;
  }
};

Layout row_layout(const Box& global, int ranks) {
  std::vector<Box> boxes;
  for (std::int64_t r = 0; r < ranks; ++r)
    boxes.emplace_back(Index3{0, global.extent(1) * r / ranks, 0},
                       Index3{global.extent(0), global.extent(1) * (r + 1) / ranks, global.extent(2)});
  return Layout(boxes);
}

// Blocks of this rank and the parts that look at them.
struct Parts {
  std::vector<Block> blocks;
  std::vector<MeasurementPart> parts;
  Parts(const std::vector<std::pair<Box, std::int64_t>>& grids, const Communicator& comm) {
    blocks.reserve(grids.size());
    for (const auto& [grid, channels] : grids) {
      const Layout layout = row_layout(grid, comm.size());
      blocks.emplace_back(layout.box(comm.rank()), channels);
      parts.push_back({grid, layout, blocks.back().view});
    }
  }
  void address(float shift) {
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const std::vector<float> values = blocks[k].addresses(parts[k].box, shift);
      std::copy(values.begin(), values.end(), blocks[k].data.begin());
    }
  }
};

TEST(MeasurementFile, PartsAndWeightsComeBackOnEveryNumberOfRanks) {
  std::string first;
  const std::vector<std::pair<Box, std::int64_t>> grids{
      {Box::image2d(103, 57), 3}, {Box::image2d(3, 2), 1}, {Box({0, 0, 0}, {5, 9, 7}), 2}};
  test::on_groups([&](const Communicator& comm) {
    const std::string path = concat("y_", comm.size(), ".h5"), job = "problem:\n# \xC3\xA9\n";
    Parts samples(grids, comm), weights(grids, comm);
    samples.address(0);
    weights.address(0.5F);
    write_measurements("bare_" + path, samples.parts, {}, {.job = job}, comm);
    write_measurements(path, samples.parts, weights.parts, {.job = job}, comm);
    comm.barrier();
    const std::string sum = sha256(path);
    if (first.empty()) first = sum;
    EXPECT_EQ(sum, first);
    EXPECT_FALSE(has_weights("bare_" + path, comm));
    EXPECT_TRUE(has_weights(path, comm));
    EXPECT_EQ(Hdf5File::open(path, comm).text_attribute("/measurements", "job"), job);

    const std::vector<MeasurementPartInfo> info = measurement_info(path, comm);
    ASSERT_EQ(info.size(), grids.size());
    Parts y(grids, comm), w(grids, comm);
    read_measurements(path, "measurements", y.parts, comm);
    read_measurements(path, "weights", w.parts, comm);
    for (std::size_t k = 0; k < grids.size(); ++k) {
      EXPECT_EQ(info[k].source.box, grids[k].first);
      EXPECT_EQ(info[k].source.channels, grids[k].second);
      EXPECT_EQ(info[k].source.full_scale, 1);
      EXPECT_EQ(y.blocks[k].data, samples.blocks[k].data);
      EXPECT_EQ(w.blocks[k].data, weights.blocks[k].data);
    }
    EXPECT_THROW(read_measurements("bare_" + path, "weights", w.parts, comm), InputError);
    y.parts.pop_back();
    EXPECT_THROW(read_measurements(path, "measurements", y.parts, comm), InputError);
    comm.barrier();
  });
}

TEST(MeasurementFile, OneArrayIsAMeasurementAndOneWeightServesAllChannels) {
  const Communicator world = Communicator::world();
  const Box grid = Box::image2d(31, 17);
  if (world.rank() == 0) {
    Parts color({{grid, 3}, {grid, 3}}, Communicator()), gray({{grid, 1}}, Communicator());
    color.address(0);
    gray.address(0.25F);
    Hdf5File file = Hdf5File::create("image.h5", Communicator());
    file.write("/image", grid, color.parts[0].block);
    file.write("/entry/w", grid, gray.parts[0].block);
    file.close();
    Hdf5File two = Hdf5File::create("two_parts.h5", Communicator());
    two.write("/measurements/0", grid, color.parts[0].block);
    two.write("/measurements/1", grid, color.parts[1].block);
    two.write("/weights/1", grid, gray.parts[0].block);
    two.close();
  }
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    Parts y({{grid, 3}}, comm), w({{grid, 3}}, comm), both({{grid, 3}, {grid, 3}}, comm);
    EXPECT_EQ(measurement_info("image.h5", comm).size(), 1U);
    EXPECT_FALSE(has_weights("image.h5", comm));
    read_measurements("image.h5", "measurements", y.parts, comm);
    EXPECT_EQ(y.blocks[0].data, y.blocks[0].addresses(grid, 0));
    read_measurements("image.h5:/entry/w", "weights", w.parts, comm);
    read_measurements("two_parts.h5", "weights", both.parts, comm);
    const Block gray(y.parts[0].block.box, 1);
    std::vector<float> expected;
    for (int c = 0; c < 3; ++c)
      for (const float v : gray.addresses(grid, 0.25F)) expected.push_back(v);
    EXPECT_EQ(w.blocks[0].data, expected);
    EXPECT_EQ(both.blocks[0].data, std::vector<float>(expected.size(), 1));
    EXPECT_EQ(both.blocks[1].data, expected);
    EXPECT_THROW(read_measurements("image.h5:/entry/w", "measurements", y.parts, comm), InputError);
    EXPECT_THROW(read_measurements("image.h5", "measurements", both.parts, comm), InputError);
    Parts larger({{Box::image2d(31, 18), 3}}, comm);
    EXPECT_THROW(read_measurements("image.h5", "measurements", larger.parts, comm), InputError);
  });
}

std::string info_error(const std::string& path, const Communicator& comm) {
  try {
    measurement_info(path, comm);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(MeasurementFile, UnfittingFilesAreOneMessageOnAllRanks) {
  const Communicator world = Communicator::world();
  const std::vector<std::pair<std::string, std::string>> cases{{"no_zero.h5", "no dataset /measurements/0"},
                                                               {"gap.h5", "no dataset /measurements/1"},
                                                               {"grid.h5", "write one weight per sample"},
                                                               {"orphan.h5", "/weights/4 has no measurement"},
                                                               {"future.h5", "schema 2"}};
  if (world.rank() == 0)
    for (const auto& [path, says] : cases) {
      const Box grid = Box::image2d(4, 6), other = Box::image2d(6, 4);
      Block y(grid, 1), wrong(other, 1);
      Hdf5File file = Hdf5File::create(path, Communicator());
      file.write(path == "no_zero.h5" ? "/measurements/1" : "/measurements/0", grid, y.view);
      if (path == "gap.h5") file.write("/measurements/2", grid, y.view);
      if (path == "grid.h5") file.write("/weights/0", other, wrong.view);
      if (path == "orphan.h5") file.write("/weights/4", grid, y.view);
      if (path == "future.h5") file.set_attribute("/measurements", "schema", 2.0);
      file.close();
    }
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    for (const auto& [path, says] : cases) {
      const std::string message = info_error(path, comm);
      EXPECT_NE(message.find(says), std::string::npos) << message;
      EXPECT_NE(message.find(path), std::string::npos) << message;
      EXPECT_EQ(message, comm.broadcast(message, 0));
    }
  });
}

}  // namespace
}  // namespace tessera
