// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/train.hpp"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "small_training.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::Folder, test::largest_difference, test::small;

void write_gray_or_rgb(const std::string& path, const Box& box, std::int64_t channels,
                       const std::vector<float>& values) {
  const auto sink = create_image(path, {.space = ImageSpace(box, channels), .bits = 8});
  sink->write(box, values.data());
  sink->finish();
}

TEST(Train, loss_falls_and_the_weights_load_with_their_noise_range) {
  const Folder folder("falls");
  TrainOptions options = small(folder.file("w.safetensors"));
  options.steps = 150;
  std::vector<double> losses;
  options.observe = [&](const TrainRecord& record) { losses.push_back(record.loss); };
  ASSERT_EQ(train(options, Communicator{}), 0);
  ASSERT_EQ(losses.size(), 150u);
  double first = 0, last = 0;
  for (int i = 0; i < 10; ++i) {
    first += losses[i];
    last += losses[140 + i];
  }
  EXPECT_LT(last, 0.75 * first);
  const Network network = load_network("drunet", options.output, 1);
  EXPECT_EQ(network.options.widths, options.network.widths);
  EXPECT_EQ(network.options.blocks, 1);
  ASSERT_TRUE(network.sigma_range);
  EXPECT_EQ(*network.sigma_range, options.sigma);
}

TEST(Train, pictures_smaller_than_the_crop_are_left_out_or_refused) {
  const Folder folder("little");
  const auto picture = [&](const std::string& name, std::int64_t side) {
    write_gray_or_rgb(folder.file(name), Box::image2d(side, side), 1, std::vector<float>(side * side, 0.5F));
  };
  TrainOptions options = small(folder.file("w.safetensors"));
  options.steps = 2;
  options.dead_leaves = 0;
  options.photographs = {folder.file(".")};
  picture("tiny.png", 5);
  EXPECT_THROW(train(options, Communicator{}), InputError);
  picture("large.png", options.crop + 3);
  EXPECT_EQ(train(options, Communicator{}), 0);
}

TEST(Train, resumed_training_equals_uninterrupted_training) {
  const Folder folder("resume");
  TrainOptions whole = small(folder.file("whole.safetensors"));
  ASSERT_EQ(train(whole, Communicator{}), 0);
  TrainOptions parts = small(folder.file("parts.safetensors"));
  parts.seconds = 1e-9;  // stops after every step, with its state saved
  int calls = 1;
  while (train(parts, Communicator{}) == 85 && calls < 20) ++calls;
  EXPECT_EQ(calls, 20);
  parts.seconds = 0;
  ASSERT_EQ(train(parts, Communicator{}), 0);
  EXPECT_EQ(
      largest_difference(load_network("drunet", whole.output, 1), load_network("drunet", parts.output, 1)),
      0.0);
  // Nothing is left to do: calling again keeps what is there.
  EXPECT_EQ(train(parts, Communicator{}), 0);
}

TEST(Train, another_seed_trains_another_network) {
  const Folder folder("seed");
  TrainOptions a = small(folder.file("a.safetensors")), b = small(folder.file("b.safetensors"));
  a.steps = b.steps = 3;
  b.seed = 1;
  ASSERT_EQ(train(a, Communicator{}), 0);
  ASSERT_EQ(train(b, Communicator{}), 0);
  EXPECT_GT(largest_difference(load_network("drunet", a.output, 1), load_network("drunet", b.output, 1)),
            1e-3);
}

TEST(Train, gray_training_starts_from_color_weights) {
  const Folder folder("gray");
  TrainOptions color = small(folder.file("color.safetensors"));
  color.network.channels = 3;
  color.steps = 5;
  ASSERT_EQ(train(color, Communicator{}), 0);
  TrainOptions gray = small(folder.file("gray.safetensors"));
  gray.start = color.output;
  gray.steps = 1;
  gray.learning_rate = 1e-12;
  ASSERT_EQ(train(gray, Communicator{}), 0);
  const Network from = load_network("drunet", color.output, 3), to = load_network("drunet", gray.output, 1);
  EXPECT_LT(to.weights.at("m_tail.weight")
                .sub(from.weights.at("m_tail.weight").mean(at::IntArrayRef{0}, true))
                .abs()
                .max()
                .item<double>(),
            1e-6);
  EXPECT_LT(to.weights.at("m_body.0.res.0.weight")
                .sub(from.weights.at("m_body.0.res.0.weight"))
                .abs()
                .max()
                .item<double>(),
            1e-6);
}

TEST(Train, photographs_are_learned_from_scored_and_left_out_by_name) {
  const Folder folder("photographs");
  for (const char* name : {"a.png", "b.png"}) {
    std::vector<float> values(3 * 40 * 32);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5F + 0.4F * std::sin(0.05F * i);
    write_gray_or_rgb(folder.file(name), Box::image2d(40, 32), 3, values);
  }
  const std::string pictures = fs::path(folder.file("a.png")).parent_path().string();
  TrainOptions options = small(folder.file("w.safetensors"));
  options.network.channels = 3;
  options.dead_leaves = 0;
  options.steps = 4;
  options.photographs = {pictures};
  options.validate = pictures;
  options.validate_sigma = {0.1};
  double psnr = 0;
  options.observe = [&](const TrainRecord& r) { psnr = r.psnr.empty() ? psnr : r.psnr.at(0.1); };
  ASSERT_EQ(train(options, Communicator{}), 0);
  EXPECT_NEAR(psnr, 20, 3);                           // close to D(x) = x, whose PSNR at this noise is 20 dB
  EXPECT_FALSE(fs::exists(options.output + ".png"));  // it would be one of the pictures
  const Folder elsewhere("sheet");
  TrainOptions other = options;
  other.output = elsewhere.file("w.safetensors");
  ASSERT_EQ(train(other, Communicator{}), 0);
  const auto sheet = open_image(other.output + ".png");  // noisy, denoised, clean
  EXPECT_EQ(sheet->info().box, Box::image2d(40, 3 * 32));
  EXPECT_EQ(sheet->info().channels, 3);
  // The same weights measured alone, without a step.
  options.start = options.output;
  options.output = folder.file("none.safetensors");
  options.steps = 0;
  const double trained = psnr;
  psnr = 0;
  ASSERT_EQ(train(options, Communicator{}), 0);
  EXPECT_DOUBLE_EQ(psnr, trained);
  EXPECT_FALSE(fs::exists(options.output));
  options.exclude = {"a", fs::path(pictures).filename().string() + "/b"};
  EXPECT_THROW(train(options, Communicator{}), InputError);
}

TEST(Train, penalty_on_the_jacobian_lowers_the_norm_that_it_estimates) {
  const Folder folder("penalty");
  const auto mean_norm = [&](double weight, const char* name) {
    TrainOptions options = small(folder.file(name));
    options.steps = 40;
    options.jacobian = {
        .weight = weight, .bound = 0.5, .orbits = 4, .batch = 2, .length = 30, .sigma = {0.02, 0.2}};
    double sum = 0;
    options.observe = [&](const TrainRecord& record) {
      EXPECT_GT(record.norm, 0);
      EXPECT_GE(record.largest_norm, record.norm);
      if (record.step > 30) sum += record.norm / 10;
    };
    EXPECT_EQ(train(options, Communicator{}), 0);
    return sum;
  };
  // The penalty pulls towards D' = 1/2, where the norm is 0.
  const double without = mean_norm(1e-12, "without.safetensors"), with = mean_norm(1, "with.safetensors");
  EXPECT_GT(without, 0.85) << "nothing to lower: the comparison says nothing";
  EXPECT_LT(with, 0.8 * without);
}

TEST(Train, training_with_orbits_resumes_bit_for_bit) {
  const Folder folder("orbits");
  TrainOptions whole = small(folder.file("whole.safetensors"));
  whole.steps = 12;
  whole.jacobian = {.weight = 1e-2, .orbits = 5, .batch = 2, .length = 3};
  ASSERT_EQ(train(whole, Communicator{}), 0);
  TrainOptions parts = whole;
  parts.output = folder.file("parts.safetensors");
  parts.seconds = 1e-9;
  int calls = 1;
  while (train(parts, Communicator{}) == 85 && calls < 12) ++calls;
  EXPECT_EQ(calls, 12);
  EXPECT_EQ(
      largest_difference(load_network("drunet", whole.output, 1), load_network("drunet", parts.output, 1)),
      0.0);
  // The state of a training with orbits is none of a training without.
  parts.jacobian.weight = 0;
  EXPECT_THROW(train(parts, Communicator{}), InputError);
}

TEST(Train, job_file_is_read_and_bad_ones_are_refused_with_their_line) {
  const TrainOptions o = parse_train_job(
      "schema: 1\ntrain:\n  network: {name: drunet, channels: 1, widths: [8, 16], blocks: 2}\n"
      "  photographs: [a, ../b]\n  output: w.safetensors\n  sigma: [0, 50/255]\n  minutes: 1.5\n"
      "  validate: {folder: v, sigma: [25/255], every: 7}\n"
      "  optimizer: muon\n  loss: l2\n  weight_decay: 1/100\n  workers: 3\n  prefetch: 4\n"
      "  jacobian: {weight: 1e-2, bound: 0.9, orbits: 7, batch: 2, length: 9, power_iterations: 3,"
      " sigma: [1/255, 0.1]}\n",
      "/jobs/train.yaml");
  EXPECT_EQ(o.network.widths, (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(o.photographs, (std::vector<std::string>{"/jobs/a", "/b"}));
  EXPECT_EQ(o.output, "/jobs/w.safetensors");
  EXPECT_DOUBLE_EQ(o.sigma.second, 50.0 / 255);
  EXPECT_DOUBLE_EQ(o.seconds, 90);
  EXPECT_EQ(o.validate_every, 7);
  EXPECT_EQ(o.optimizer, OptimizerKind::muon);
  EXPECT_EQ(o.loss, Loss::l2);
  EXPECT_DOUBLE_EQ(o.weight_decay, 0.01);
  EXPECT_EQ(o.workers, 3);
  EXPECT_EQ(o.prefetch, 4);
  EXPECT_DOUBLE_EQ(o.jacobian.weight, 1e-2);
  EXPECT_DOUBLE_EQ(o.jacobian.bound, 0.9);
  EXPECT_EQ(o.jacobian.orbits, 7);
  EXPECT_EQ(o.jacobian.batch, 2);
  EXPECT_EQ(o.jacobian.length, 9);
  EXPECT_EQ(o.jacobian.power_iterations, 3);
  EXPECT_DOUBLE_EQ(o.jacobian.sigma.first, 1.0 / 255);
  EXPECT_DOUBLE_EQ(o.jacobian.sigma.second, 0.1);

  const auto network = [](const std::string& text) {
    return parse_train_job("train:\n  network: {name: restormer" + text + "}\n  output: w.safetensors\n",
                           "t.yaml")
        .network;
  };
  EXPECT_EQ(network("").stages.size(), 5U);
  EXPECT_TRUE(network(", blocks: 1").stages.empty());  // not the published numbers of blocks
  EXPECT_EQ(network(", blocks: 1").blocks, 1);

  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_train_job(text, "t.yaml");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(message("train:\n  stepz: 3\n").find("t.yaml:2: unknown key train.stepz"), std::string::npos);
  EXPECT_NE(message("train:\n  stepz: 3\n").find("did you mean train.steps?"), std::string::npos);
  EXPECT_NE(message("train:\n  steps: many\n").find("t.yaml:2: train.steps"), std::string::npos);
  EXPECT_NE(message("train: [\n").find("not YAML"), std::string::npos);
  EXPECT_NE(message("schema: 1\n").find("no train section"), std::string::npos);
  EXPECT_NE(message("train:\n  jacobian: {bond: 1}\n").find("did you mean train.jacobian.bound?"),
            std::string::npos);
  EXPECT_NE(message("train:\n  jacobian: {sigma: [1]}\n").find("train.jacobian.sigma has 1"),
            std::string::npos);
  EXPECT_NE(
      message("train:\n  optimizer: sgd\n").find("t.yaml:2: train.optimizer is sgd (known: adam, muon)"),
      std::string::npos);
  EXPECT_NE(message("train:\n  sigma: [1]\n").find("train.sigma has 1"), std::string::npos);
}

TEST(Train, bad_options_are_refused_before_anything_is_written) {
  const Folder folder("bad");
  const auto refused = [&](const std::function<void(TrainOptions&)>& spoil) {
    TrainOptions options = small(folder.file("w.safetensors"));
    spoil(options);
    EXPECT_THROW(train(options, Communicator{}), InputError);
    EXPECT_FALSE(fs::exists(folder.file("w.safetensors")));
  };
  refused([](TrainOptions& o) { o.crop = 15; });
  refused([](TrainOptions& o) { o.batch = 0; });
  refused([](TrainOptions& o) { o.workers = -1; });
  refused([](TrainOptions& o) { o.workers = 1000; });
  refused([](TrainOptions& o) { o.prefetch = 0; });
  refused([](TrainOptions& o) { o.precision = Precision::tf32; });
  refused([](TrainOptions& o) { o.weight_decay = -0.1; });
  refused([](TrainOptions& o) { o.dead_leaves = 0.5; });
  refused([](TrainOptions& o) { o.photographs = {"/nowhere"}; });
  refused([](TrainOptions& o) { o.start = "/nowhere.safetensors"; });
  refused([](TrainOptions& o) { o.network.widths = {4}; });
  refused([](TrainOptions& o) { o.output.clear(); });
  refused([](TrainOptions& o) { o.jacobian.weight = -1; });
  refused([](TrainOptions& o) { o.jacobian.batch = o.jacobian.orbits + 1; });
  refused([](TrainOptions& o) { o.jacobian.power_iterations = 0; });
  refused([](TrainOptions& o) { o.jacobian.sigma = {0, 0.1}; });
}

}  // namespace
}  // namespace tessera
