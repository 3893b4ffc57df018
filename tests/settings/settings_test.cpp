// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/settings/settings.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/app/operator_table.hpp"
#include "tessera/app/reconstruct.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

JobConfig job_of(const std::string& rest, const std::string& op = "identity") {
  know_choices();
  return parse_job(
      "schema: 1\nproblem: {truth: {scene: {size: [64, 64]}}, noise: {gaussian: 0.01}, operator: {type: " +
          op + "}}\noutput: {folder: out}\n" + rest,
      "job.yaml", {});
}

Facts picture(std::int64_t channels = 3) {
  Facts facts;
  facts.image = ImageSpace(Box::image2d(100, 120), channels);
  facts.identity = facts.pointwise = facts.takes_level = facts.network_takes_level = true;
  facts.shipped = channels == 1 || channels == 3;
  return facts;
}

Facts seen(const Facts::Samples& samples) {
  Facts facts = picture();
  facts.samples = samples;
  return facts;
}

struct Row {
  const char* name;
  std::string job;
  Facts facts;
  std::string denoiser, solver;
  std::int64_t iterations;
};

TEST(Settings, RulesDecideWhatTheJobLeavesOpenAndNothingElse) {
  const FewBright faint{.seen = "0.1 % are bright", .faint = true, .least = 1e-3},
      stars{.seen = "0.1 % are bright", .starry = true, .gain_known = true},
      unknown{.seen = "0.1 % are bright", .starry = true};
  const Facts::Samples holes{.noise = 0.004, .missing = 0.02, .marked = true, .weighed = true};
  Facts::Samples strong = holes, most_missing = holes;
  strong.noise = 0.05;
  most_missing.noise = 0.05;
  most_missing.missing = 0.5;
  const Facts::Samples uneven{.noise = 0.05, .missing = 0, .marked = false, .weighed = true};
  const auto few = [](const FewBright& found) {
    return seen({.noise = 1e-4, .missing = 0, .marked = false, .weighed = false, .few_bright = found});
  };
  const std::vector<Row> rows{
      {"denoising is one pass", "", picture(), "drunet", "hqs", 1},
      {"nothing new is seen", "", seen({.noise = 0.05}), "drunet", "hqs", 1},
      {"no network for five channels", "", picture(5), "tv", "admm", 60},
      {"unless the job names one", "denoiser: {network: none}\n", picture(5), "none", "pgd", 20},
      {"holes in little noise", "", seen(holes), "drunet", "admm", 16},
      {"a few holes in strong noise are denoising", "", seen(strong), "drunet", "hqs", 5},
      {"much to be filled", "", seen(most_missing), "drunet", "admm", 16},
      {"a named solver stays", "solver: {name: hqs}\n", seen(holes), "drunet", "hqs", 20},
      {"named iterations stay", "solver: {iterations: 5}\n", seen(holes), "drunet", "hqs", 5},
      {"samples that differ", "", seen(uneven), "drunet", "hqs", 5},
      {"one pass that was asked for", "solver: {iterations: 1}\n", seen(uneven), "drunet", "hqs", 1},
      {"few are bright", "", few(faint), "tv", "admm", 60},
      {"under a network by name", "denoiser: {network: drunet}\n", few(faint), "drunet", "hqs", 1},
      {"counts of stars", "", few(stars), "none", "richardson_lucy", 100},
      {"counts of stars, named solver", "solver: {name: hqs}\n", few(stars), "drunet", "hqs", 20},
      {"what may be counts", "", few(unknown), "drunet", "hqs", 1},
  };
  for (const Row& row : rows) {
    const JobConfig asked = job_of(row.job);
    const Settings settings = decide(asked, row.facts);
    EXPECT_EQ(settings.denoiser.network, row.denoiser) << row.name;
    EXPECT_EQ(settings.solver.name, row.solver) << row.name;
    EXPECT_EQ(settings.solver.iterations, row.iterations) << row.name;
    const bool other =
        settings.denoiser.network != asked.denoiser.network || settings.solver.name != asked.solver.name;
    EXPECT_TRUE(!other || !settings.reasons.empty()) << row.name;
    EXPECT_EQ(settings.likelihood.type == "poisson", row.solver == "richardson_lucy") << row.name;
    // Whoever asks twice gets the same answer, and a job that says it decides nothing.
    EXPECT_TRUE(decide(asked, row.facts).same(settings)) << row.name;
    const JobConfig said = parse_job(write_job(with_settings(asked, settings)), "job.yaml", {});
    EXPECT_TRUE(decide(said, row.facts).same(settings)) << row.name;
  }
}

TEST(Settings, IterationsFollowWhatAnOperatorTells) {
  const auto iterations = [](bool convolves, bool scans, double per_pixel, const std::string& more = "") {
    Facts facts = seen({.noise = 0.01, .per_pixel = per_pixel});
    facts.identity = facts.pointwise = false;
    facts.convolves = convolves;
    facts.scans = scans;
    const Settings settings = decide(job_of(more, "blur, kernel: {gaussian: {sigma: 1}}"), facts);
    return settings.solver.name == "hqs" ? settings.solver.iterations : -1;
  };
  EXPECT_EQ(iterations(true, false, 1), 5);
  EXPECT_EQ(iterations(true, false, 0.1), 5);  // coarser samples
  EXPECT_EQ(iterations(false, true, 0.5), 5);
  EXPECT_EQ(iterations(false, true, 0.3), 12);  // few views
  EXPECT_EQ(iterations(false, false, 1), 12);   // nothing is known
  EXPECT_EQ(iterations(false, true, 0.3, "solver: {iterations: 5}\n"), 5);
  EXPECT_EQ(iterations(false, true, 0.3, "solver: {name: hqs}\n"), 20);
}

TEST(Settings, ArraysGetWhatAJobOfTheirKindGets) {
  know_choices();
  const JobConfig asked = parse_job("schema: 1\n", "settings", {}, {}, Purpose::arrays);
  Facts facts = picture();
  EXPECT_EQ(decide(asked, facts).solver.iterations, 1);
  facts.identity = false;
  EXPECT_EQ(decide(asked, facts).solver.name, "admm");
  facts.pointwise = false;
  EXPECT_EQ(decide(asked, facts).solver.name, "hqs");
  EXPECT_EQ(decide(asked, facts).solver.iterations, Chosen::more_passes);
}

// Of an image that is no constant, this rank's pixels; every fifth is not measured.
Tensors with_holes(const ProductSpace& range, int rank) {
  const Box& block = range.block(0, rank);
  at::Tensor y = at::arange(block.pixels(), at::kFloat).reshape({1, block.extent(1), block.extent(2)});
  y = y.div(40).sin().mul(0.3).add(0.5);
  y.view(-1).slice(0, 0, std::nullopt, 5).fill_(NAN);
  return {y};
}

TEST(Settings, ArraysWithHolesAreReconstructedAsMasks) {
  ArrayProblem problem;
  problem.image = ImageSpace(Box::image2d(48, 40));
  std::vector<std::unique_ptr<LocalOperator>> parts;
  parts.push_back(make_identity());
  problem.op = plan_local_stack(std::move(parts));
  problem.noise = 0.005;
  problem.samples = with_holes;
  const Reconstruction r = reconstruct(problem, "", Communicator());
  EXPECT_EQ(r.loop.iterations, Chosen::masked_passes);
  EXPECT_TRUE(r.image.isfinite().all().item<bool>());
  const auto said = std::count_if(r.notices.begin(), r.notices.end(), [](const std::string& line) {
    return line.find("as for a mask") != std::string::npos;
  });
  EXPECT_EQ(said, 1);

  problem.samples = [](const ProductSpace& range, int rank) {
    return Tensors{with_holes(range, rank)[0][0]};  // no channels
  };
  try {
    reconstruct(problem, "", Communicator());
    ADD_FAILURE() << "was taken";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("has 2 axes (channels, rows, columns are wanted)"),
              std::string::npos)
        << e.what();
  }
}

TEST(Settings, EveryRowHasANameOfItsOwn) {
  std::vector<std::string> names;
  for (const SettingsRule& rule : rule_table()) {
    EXPECT_EQ(std::count(names.begin(), names.end(), rule.name), 0) << rule.name;
    EXPECT_TRUE(rule.decide) << rule.name;
    names.push_back(rule.name);
  }
  EXPECT_GE(names.size(), 5U);
}

}  // namespace
}  // namespace tessera
