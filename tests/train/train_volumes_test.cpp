// SPDX-License-Identifier: BSD-3-Clause
// Training on volumes: what is drawn, what is read and cut out of files, and the training itself.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "loader.hpp"
#include "small_training.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/image_format.hpp"
#include "volume_scenes.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::Folder, test::largest_difference, test::small_volumes;
using training::Draws;
using training::Picture;

std::vector<float> drawn(std::int64_t item, std::int64_t channels, std::int64_t side) {
  std::vector<float> values(static_cast<std::size_t>(channels * side * side * side), -1.0F);
  Draws draws(3, 5, item);
  training::drawn_volume(channels, side, draws, values.data());
  return values;
}

TEST(DrawnVolume, is_a_function_of_its_item_in_zero_to_one) {
  std::set<std::vector<float>> seen;
  for (std::int64_t item = 0; item < 40; ++item)
    for (const std::int64_t channels : {1, 3}) {
      const std::vector<float> values = drawn(item, channels, 16);
      EXPECT_EQ(values, drawn(item, channels, 16));
      for (const float v : values) ASSERT_TRUE(v >= 0 && v <= 1) << item;
      seen.insert(values);
    }
  EXPECT_EQ(seen.size(), 80U);
}

// Rows and columns are alike in the mean over many; slices of some lie farther apart, so that they differ more.
TEST(DrawnVolume, has_an_axis_of_thick_slices_and_two_that_are_alike) {
  constexpr std::int64_t n = 20, items = 400;
  std::array<double, 3> change{};
  std::int64_t flat = 0;
  for (std::int64_t item = 0; item < items; ++item) {
    const std::vector<float> v = drawn(item, 1, n);
    const auto [least, most] = std::minmax_element(v.begin(), v.end());
    flat += *most - *least < 1e-3F;
    for (std::int64_t z = 0; z + 1 < n; ++z)
      for (std::int64_t y = 0; y + 1 < n; ++y)
        for (std::int64_t x = 0; x + 1 < n; ++x) {
          const std::int64_t at = (z * n + y) * n + x;
          change[0] += std::abs(v[at + n * n] - v[at]);
          change[1] += std::abs(v[at + n] - v[at]);
          change[2] += std::abs(v[at + 1] - v[at]);
        }
  }
  EXPECT_LT(flat, items / 10);
  EXPECT_NEAR(change[1] / change[2], 1, 0.1);
  EXPECT_GT(change[0] / change[2], 1.1);
}

/// A cube whose voxels all differ.
Picture numbered(std::int64_t side, bool thick) {
  Picture p{.name = "numbered", .height = side, .width = side, .values = {}, .depth = side, .thick = thick};
  for (std::int64_t i = 0; i < side * side * side; ++i) p.values.push_back(static_cast<std::uint8_t>(i));
  return p;
}

TEST(VolumeCrop, is_turned_by_all_symmetries_of_the_cube_or_by_those_that_keep_slices) {
  const Index3 cube{4, 4, 4};
  for (const bool thick : {false, true}) {
    const Picture picture = numbered(4, thick);
    std::set<std::vector<float>> seen;
    for (std::int64_t item = 0; item < 1000; ++item) {
      std::vector<float> out(64);
      Draws draws(1, 2, item);
      training::photograph_crop(picture, false, cube, draws, out.data());
      std::vector<float> sorted = out;
      std::sort(sorted.begin(), sorted.end());
      for (std::size_t i = 0; i < 64; ++i) ASSERT_FLOAT_EQ(sorted[i], static_cast<float>(i) / 255.0F);
      // Neighbors of a slice: 1 and 4 apart, along z 16; of thick ones only that.
      const float along_z = std::abs(out[16] - out[0]) * 255.0F;
      if (thick) {
        EXPECT_NEAR(along_z, 16, 1e-3);
      }
      seen.insert(out);
    }
    EXPECT_EQ(seen.size(), thick ? 16U : 48U);
  }
}

TEST(VolumeCrop, lies_inside_and_half_the_resolution_takes_means_of_eight) {
  Picture picture = numbered(8, true);
  picture.values.clear();
  for (std::int64_t i = 0; i < 512; ++i)  // 10 a slice, less than 1 a row
    picture.values.push_back(static_cast<std::uint8_t>(10 * (i / 64) + i / 8 % 8));
  std::set<float> firsts;
  for (std::int64_t item = 0; item < 300; ++item) {
    std::vector<float> out(27), half(64);
    Draws draws(1, 2, item), others(1, 3, item);
    training::photograph_crop(picture, false, {3, 3, 3}, draws, out.data());
    EXPECT_NEAR(std::abs(out[9] - out[0]) * 255, 10, 1e-3);
    firsts.insert(std::min(out[0], out[18]));
    training::photograph_crop(picture, true, {4, 4, 4}, others, half.data());
    EXPECT_NEAR(std::abs(half[16] - half[0]) * 255, 20, 1e-3);
    const float first = *std::min_element(half.begin(), half.end());
    EXPECT_NEAR(first * 255, 5.5, 1e-3);  // slices 0 and 1, rows 0 and 1
  }
  EXPECT_GE(firsts.size(), 6U);  // of every slice that a crop may begin with
}

/// A volume in a file; values rise along z from -1 to 3.
void write_volume(const std::string& path, const Index3& size, double spacing_of_slices) {
  ImageRecord record{.space = ImageSpace(Box({0, 0, 0}, size))};
  for (std::size_t axis = 0; axis < 3; ++axis)
    record.space.grid[axis].spacing = axis == 0 ? spacing_of_slices : 1.0,
    record.space.grid[axis].unit = "um";
  std::vector<float> values(static_cast<std::size_t>(record.space.box.pixels()));
  const auto slice = static_cast<std::int64_t>(values.size()) / size[0];
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        -1 + 4 * static_cast<float>(static_cast<std::int64_t>(i) / slice) / static_cast<float>(size[0] - 1);
  const ImageFormat& format = output_format(path);
  const auto sink = format.create(path, record, Communicator{});
  if (format.shared)
    sink->write_block({.data = values.data(),
                       .box = record.space.box,
                       .channel_stride = record.space.box.pixels(),
                       .stride = {slice, size[2], 1},
                       .device = {}});
  else
    for (std::int64_t z = 0; z < size[0]; ++z)
      sink->write(Box({z, 0, 0}, {z + 1, size[1], size[2]}), values.data() + z * slice);
  sink->finish();
}

TEST(Volumes, are_read_from_all_pages_with_their_range_and_spacing) {
  const Folder folder("stacks");
  write_volume(folder.file("a.tif"), {5, 12, 10}, 1);
  write_volume(folder.file("b.h5"), {9, 8, 11}, 3);
  const std::string path = fs::path(folder.file("a.tif")).parent_path().string();
  const std::vector<Picture> read = training::read_pictures({path}, {}, 1, Axes::volume);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].size(), (Index3{5, 12, 10}));
  EXPECT_EQ(read[1].size(), (Index3{9, 8, 11}));
  EXPECT_TRUE(read[1].thick);
  for (const Picture& p : read) {
    EXPECT_EQ(p.values.front(), 0);
    EXPECT_EQ(p.values.back(), 255);
    EXPECT_EQ(p.values[p.values.size() / 2], 128);
  }
  EXPECT_EQ(training::read_pictures({folder.file("b.h5") + ":/image"}, {}, 1, Axes::volume).size(), 1U);
  EXPECT_EQ(training::read_pictures({path}, {"a"}, 1, Axes::volume).size(), 1U);
  EXPECT_THROW(training::read_pictures({path}, {"a", "b"}, 1, Axes::volume), InputError);
}

TEST(TrainVolumes, loss_falls_and_the_weights_load) {
  const Folder folder("volumes");
  TrainOptions options = small_volumes(folder.file("w.safetensors"));
  options.steps = 120;
  double first = 0, last = 0;
  options.observe = [&](const TrainRecord& record) {
    (record.step <= 10 ? first : last) += record.step <= 10 || record.step > 110 ? record.loss : 0;
  };
  ASSERT_EQ(train(options, Communicator{}), 0);
  EXPECT_LT(last, 0.75 * first);
  const Network network = load_network("drunet3d", options.output, 1);
  EXPECT_EQ(network.graph.axes(), Axes::volume);
  EXPECT_EQ(*network.sigma_range, options.sigma);
}

TEST(TrainVolumes, resumes_bit_for_bit_with_orbits_and_any_workers) {
  const Folder folder("volumes_resume");
  TrainOptions whole = small_volumes(folder.file("whole.safetensors"));
  whole.steps = 6;
  whole.jacobian = {.weight = 1e-2, .orbits = 4, .batch = 2, .length = 3};
  whole.workers = 0;
  ASSERT_EQ(train(whole, Communicator{}), 0);
  TrainOptions parts = whole;
  parts.output = folder.file("parts.safetensors");
  parts.seconds = 1e-9;
  parts.workers = 2;
  int calls = 1;
  while (train(parts, Communicator{}) == 85 && calls < 6) ++calls;
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(largest_difference(load_network("drunet3d", whole.output, 1),
                               load_network("drunet3d", parts.output, 1)),
            0.0);
}

TEST(TrainVolumes, penalty_on_the_jacobian_lowers_the_norm_that_it_estimates) {
  const Folder folder("volumes_penalty");
  const auto mean_norm = [&](double weight, const char* name) {
    TrainOptions options = small_volumes(folder.file(name));
    options.steps = 40;
    options.jacobian = {
        .weight = weight, .bound = 0.5, .orbits = 4, .batch = 2, .length = 30, .sigma = {0.02, 0.2}};
    double sum = 0;
    options.observe = [&](const TrainRecord& record) { sum += record.step > 30 ? record.norm / 10 : 0; };
    EXPECT_EQ(train(options, Communicator{}), 0);
    return sum;
  };
  const double without = mean_norm(1e-12, "without.safetensors"), with = mean_norm(1, "with.safetensors");
  EXPECT_GT(without, 0.85) << "nothing to lower: the comparison says nothing";
  EXPECT_LT(with, 0.8 * without);
}

TEST(TrainVolumes, files_are_learned_from_and_scored) {
  const Folder folder("volumes_files");
  write_volume(folder.file("a.tif"), {9, 12, 10}, 1);  // no side a multiple of the alignment: padded
  write_volume(folder.file("b.tif"), {4, 30, 30}, 1);  // fewer slices than a crop: left out
  const std::string path = fs::path(folder.file("a.tif")).parent_path().string();
  const Folder elsewhere("volumes_sheet");
  TrainOptions options = small_volumes(elsewhere.file("w.safetensors"));
  options.dead_leaves = 0;
  options.steps = 4;
  options.photographs = {path};
  options.validate = folder.file("a.tif");
  options.validate_sigma = {0.1};
  double psnr = 0;
  options.observe = [&](const TrainRecord& r) { psnr = r.psnr.empty() ? psnr : r.psnr.at(0.1); };
  ASSERT_EQ(train(options, Communicator{}), 0);
  EXPECT_NEAR(psnr, 20, 3);  // close to D(x) = x, whose PSNR at this noise is 20 dB
  EXPECT_EQ(open_image(options.output + ".png")->info().box, Box::image2d(12, 3 * 10));
  options.photographs = {folder.file("b.tif")};
  try {
    train(options, Communicator{});
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "all 1 volumes of train.volumes are smaller than 8 x 8 x 8 (train.crop) name larger ones, or "
        "lower train.crop");
  }
  const TrainOptions job = parse_train_job(
      "train:\n  network: {name: drunet3d, channels: 1}\n  volumes: [stacks]\n  output: w.safetensors\n",
      "/jobs/t.yaml");
  EXPECT_EQ(job.photographs, (std::vector<std::string>{"/jobs/stacks"}));
}

}  // namespace
}  // namespace tessera
