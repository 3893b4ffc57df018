// SPDX-License-Identifier: BSD-3-Clause
#include "training_curve.hpp"

#include <gtest/gtest.h>

#include "small_training.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

using test::Folder, test::small;
using training::TrainingCurve;

std::vector<std::int64_t> steps_of(const TrainingCurve& curve) {
  std::vector<std::int64_t> steps;
  for (const TrainingCurve::Row& row : curve.rows()) steps.push_back(row.record.step);
  return steps;
}

TEST(TrainingCurve, comes_back_with_what_was_measured_up_to_the_step_that_was_saved) {
  const Folder folder("curve");
  const std::string path = folder.file("w.curve.csv");
  TrainingCurve written(path, 0);
  written.add(
      {{.step = 10, .loss = 0.25, .learning_rate = 1e-3, .penalty = 2, .norm = 3, .largest_norm = 4}, 1.5});
  written.add({{.step = 20, .loss = 0.125, .psnr = {{25.0 / 255, 30.25}, {0.5, 20}}}, 2.5});
  written.add({{.step = 30, .loss = 0.0625}, 3.5});
  written.save();
  const TrainingCurve read(path, 20);
  EXPECT_EQ(steps_of(read), (std::vector<std::int64_t>{10, 20}));
  const TrainRecord& first = read.rows()[0].record;
  EXPECT_EQ(first.loss, 0.25);
  EXPECT_EQ(first.learning_rate, 1e-3);
  EXPECT_EQ(first.penalty, 2);
  EXPECT_EQ(first.norm, 3);
  EXPECT_EQ(first.largest_norm, 4);
  EXPECT_TRUE(first.psnr.empty());
  EXPECT_EQ(read.rows()[1].seconds, 2.5);
  ASSERT_EQ(read.rows()[1].record.psnr.size(), 2U);
  EXPECT_EQ(read.rows()[1].record.psnr.begin()->second, 30.25);
  EXPECT_NEAR(read.rows()[1].record.psnr.begin()->first, 25.0 / 255, 1e-9);
  EXPECT_TRUE(TrainingCurve(path, 0).rows().empty());  // begun anew

  // A level that no double of 255ths is: one column, before and after.
  TrainingCurve more(path, 0);
  for (double sigma = 0.001; sigma < 0.2; sigma += 0.001) more.add({{.step = 1, .psnr = {{sigma, 30}}}, 1});
  more.save();
  const std::string head = read_text(path).substr(0, read_text(path).find('\n'));
  TrainingCurve again(path, 1);
  for (double sigma = 0.001; sigma < 0.2; sigma += 0.001) again.add({{.step = 2, .psnr = {{sigma, 31}}}, 2});
  again.save();
  EXPECT_EQ(read_text(path).substr(0, read_text(path).find('\n')), head);

  write_text(path, "step,loss\n1,2\n");
  EXPECT_THROW(TrainingCurve(path, 20), InputError);
  write_text(path, read_text(path).substr(0, 4));
  EXPECT_THROW(TrainingCurve(path, 20), InputError);
}

TEST(TrainingCurve, of_a_training_has_a_row_for_each_line_of_its_log_and_goes_on_after_an_interruption) {
  const Folder folder("rows");
  TrainOptions options = small(folder.file("w.safetensors"));
  double sum = 0;  // of the last 20 steps
  options.observe = [&](const TrainRecord& record) { sum += record.step > 40 ? record.loss : 0; };
  options.log_every = 20;
  options.steps = 30;
  ASSERT_EQ(train(options, Communicator{}), 0);
  options.steps = 60;
  ASSERT_EQ(train(options, Communicator{}), 0);
  const TrainingCurve curve(options.output + ".curve.csv", 60);
  EXPECT_EQ(steps_of(curve), (std::vector<std::int64_t>{20, 30, 40, 60}));
  EXPECT_NEAR(curve.rows().back().record.loss, sum / 20, 1e-9);
  EXPECT_LT(curve.rows().back().record.loss, curve.rows().front().record.loss);
  EXPECT_GT(curve.rows().front().seconds, 0);
  for (std::size_t k = 1; k < curve.rows().size(); ++k)
    EXPECT_GT(curve.rows()[k].seconds, curve.rows()[k - 1].seconds);
}

}  // namespace
}  // namespace tessera
