// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/job.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <limits>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "config/job_folder.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using Texts = std::vector<std::string>;

class Job : public testing::Test {
 protected:
  JobConfig parse(const std::string& text, const Texts& overrides = {}) const {
    return parse_job(text, folder.path() + "/photo.yaml", overrides);
  }
  test::JobFolder folder;
};

const std::string simulated = "problem:\n  truth: photo.jpg\n  noise: {gaussian: 0.01}\n";
const std::string measured = "problem:\n  measurements: y.h5\nsolver: {sigma: 0.02}\n";
const std::string eight_blurs =
    "problem:\n"
    "  truth: photo.jpg\n"
    "  operator:\n"
    "    type: stack\n"
    "    parts: [{type: blur, kernel: {gaussian: {sigma: [1 %, 0.5 %]}}}]\n"
    "    angles: {count: 8}\n"
    "  noise: {gaussian: 0.01}\n";

// Jobs that use, together, every key.
const Texts good_jobs = {
    "problem: {truth: {scene: {seed: 3, size: [40000, 30000], channels: 1}}, noise: {gaussian: 0.1}}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.1}, operator: {type: tomography, beam: cone, voxel: "
    "0.2, "
    "views: {count: 12, first: 3, last: 300}, detector: {rows: 4, columns: 5, pitch: 0.5, axis: 1.5}, "
    "source_axis: 50, source_detector: 90, helix: 2}}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.1}, operator: {type: tomography, align: shifts, views: "
    "{angles: "
    "[0, 30], shifts: [0, 0.5]}}}\n",
    "problem: {measurements: y.h5, operator: {type: tomography, rings: keep, hardening: [1, 0.05], views: "
    "{geometry: "
    "k.npy}, paganin: {delta_beta: 100, energy: 20, distance: 300, pixel: 2}}}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.1}, operator: {type: tomography, voxel: [0.2, 0.3], "
    "views: "
    "{vectors: [0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]}, detector: {columns: 9}}}\n",
    simulated,
    measured,
    eight_blurs,
    simulated + "denoiser: {mode: layer, halo_depth: 2}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.1}, operator: {type: blur, method: fft, boundary: zero, "
    "kernel: {file: k.npy, normalize: false, center: [3, 4]}}}\n"
    "denoiser: {network: drunet, weights: random, widths: [8, 16], blocks: 2, mode: patch, patch: 64, batch: "
    "4, precision: bfloat16, early_precision: float16, averaging: cycle}\n"
    "solver: {name: fista, momentum: 4, step: 0.5, sigma: [0.1, 0.05], iterations: 2, stop: {residual: 1e-4, "
    "chi2: 1}}\n",
    "problem: {measurements: y.h5, weights: w.tif, bad: {hot: true, flags: w.tif, bits: [DO_NOT_USE, 4]}, "
    "saturation: 0.99, image: {size: [64, 96], channels: 3, "
    "pixel: [0.1, 0.2], unit: um}, scale: {offset: -3.5, factor: 65535}, seed: 7, "
    "operator: {type: downsampling, factor: 3, phase: [1, 2], kernel: {gaussian: {sigma: 1.6, angle: 30}}}}\n"
    "denoiser: {network: dncnn, weights: random, depth: 5, mode: layer, halo_depth: 2}\n"
    "solver: {name: admm, dual_step: 0.5, prox_iterations: 9, prox_tolerance: 1e-3, step: {linear: [2, 1]}}\n"
    "output: {crop: false, preview: none, snapshots: 5, diagnostics: false, trace: {every: 3}, folder: "
    "/somewhere/else, "
    "checkpoint: {minutes: 0.5, iterations: 10, keep: 3}}\n"
    "domain: {grid: [2, 3], transport: nccl, share_gpu: true}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.1}, operator: {type: tomography, views: {count: 9}}}\n"
    "solver: {name: fbp, window: cosine}\n",
    "problem: {truth: photo.jpg, measurements: y.h5, operator: {type: mask, file: m.png}}\n"
    "denoiser: {network: tv, tv: {weight: 2, iterations: 30, tolerance: 1e-4}}\n"
    "solver: {name: red, lambda: 0.2, sigma: {log: [0.2, 0.01]}, start: photo.jpg}\n"
    "device: cpu\ndeterministic: true\nmemory: 0.5\nwatchdog: 0\nscratch: always\nscratch_folder: "
    "/somewhere/else\n",
    "problem: {truth: photo.jpg, noise: {poisson: 0.01}, operator: {type: stack, parts: [{type: identity}, "
    "{type: mask, keep: 0.3}]}}\n"
    "denoiser: {weights: ./net.safetensors}\nsolver: {relaxation: 0.5, sigma: 0.05, start: zero}\n"
    "output: {preview: a.tif, preview_bits: 16, also: a.ome.zarr, zarr: 0.4}\nmemory: 8 GiB\n",
    "schema: 1\nproblem: {measurements: y.h5}\nsolver: {name: hqs, sigma: {dpir: 0.03}}\n",
    "problem: {measurements: y.h5, noise: {gaussian: 12, poisson: 2.2, unit: file}, dark: w.tif, flat: "
    "w.tif, "
    "scale: {factor: data}}\n",
    "problem: {truth: photo.jpg, noise: {poisson: 0.01}, likelihood: {type: poisson, background: 0.1}}\n"
    "solver: {bounds: [-.inf, 1]}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.01}, likelihood: {type: huber, threshold: 3}}\n"
    "solver: {bounds: nonnegative}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.01}, operator: {type: blur, kernel: {file: k.npy}}, "
    "simulate: {finer: 2, boundary: reflect, kernel: {gaussian: {sigma: [2, 3], angle: 20}}, bits: 8, clip: "
    "true}}\n",
    "problem: {truth: photo.jpg, noise: {gaussian: 0.01}, operator: {type: blur, kernel: {gaussian: {sigma: "
    "2}}}, simulate: {kernel: {file: k.npy, center: [1, 2], normalize: false}}}\n",
};

TEST_F(Job, DefaultsStandInTheStructs) {
  const JobConfig job = parse(simulated);
  EXPECT_EQ(job.problem.truth, folder.path() + "/photo.jpg");
  EXPECT_EQ(job.problem.op.type, "identity");
  EXPECT_EQ(job.solver.name, "hqs") << "one pass of the network denoises";
  EXPECT_EQ(job.solver.iterations, 1);
  EXPECT_TRUE(job.solver.step.automatic);
  EXPECT_TRUE(job.solver.sigma.automatic);
  EXPECT_FALSE(job.solver.lambda.has_value());
  EXPECT_FALSE(job.execution.patch.has_value());
  EXPECT_EQ(job.output.folder, folder.path() + "/runs/photo");
  EXPECT_EQ(job.folder, folder.path());
  EXPECT_EQ(job.text, simulated);
}

TEST_F(Job, PathsBeginAtHomeAndHoldVariablesAsAShellReadsThem) {
  ::setenv("HOME", folder.path().c_str(), 1);
  ::setenv("TESSERA_TEST_NAME", "photo", 1);
  const std::string given = "problem: {truth: '~/${TESSERA_TEST_NAME}.jpg', noise: {gaussian: 0.01}}\n";
  EXPECT_EQ(parse(given).problem.truth, folder.path() + "/photo.jpg");
  const auto output = [&](const std::string& path) {
    return parse(given, {"output.folder='" + path + "'"}).output.folder;
  };
  EXPECT_EQ(output("~"), folder.path());
  EXPECT_EQ(output("$HOME/$TESSERA_TEST_NAME-2/~"), folder.path() + "/photo-2/~");
  EXPECT_EQ(output("a~b/5$/$5"), folder.path() + "/a~b/5$/$5") << "none of them";
  EXPECT_EQ(write_job(parse(given)).find('$'), std::string::npos) << "what is written stands for itself";
  EXPECT_THROW(output("${TESSERA_TEST_NONE}/x"), InputError);
  EXPECT_THROW(output("~root/x"), InputError);
}

TEST_F(Job, BoundaryIsCircularWhenSimulatedAndValidForRealData) {
  const std::string blur = "  operator: {type: blur, kernel: {gaussian: {sigma: 1.6}}}\n";
  EXPECT_EQ(parse(simulated + blur).problem.op.boundary, "circular");
  EXPECT_EQ(parse("problem:\n  measurements: y.h5\n" + blur + "solver: {sigma: 0.1}\n").problem.op.boundary,
            "valid");
}

TEST_F(Job, NoiseOfMeasurementsIsKnownOnlyWhenTheyAreLoaded) {
  for (const char* problem : {"{measurements: y.h5}", "{measurements: y.h5, noise: {gaussian: 0.01}}",
                              "{truth: photo.jpg, noise: {poisson: 0.01}}",
                              "{truth: photo.jpg, noise: {gaussian: 2, unit: file}}"}) {
    const JobConfig job = parse(concat("problem: ", problem, "\nsolver: {name: hqs}\n"));
    EXPECT_TRUE(job.solver.sigma.automatic) << problem;
    EXPECT_TRUE(job.solver.step.automatic) << problem;
    EXPECT_EQ(parse(concat("problem: ", problem, "\nsolver: {name: hqs, sigma: dpir}\n")).solver.sigma.last,
              0);
  }
}

// What a file of measurements says of its problem.
class JobOfAFile : public Job {
 protected:
  JobConfig take(const std::string& text, const std::string& said) const {
    return parse_job(text, folder.path() + "/photo.yaml", {}, {folder.path() + "/y.h5", said});
  }
  const std::string said =
      "problem:\n  operator: {type: blur, boundary: circular, kernel: {file: \":/kernels/0\", center: [1, "
      "2]}}\n"
      "  scale: {offset: 3, factor: 255}\n  noise: {gaussian: 0.02}\n  seed: 7\n"
      "  image: {size: [40, 50], channels: 3}\n";
};

TEST_F(JobOfAFile, HoldsWhereTheJobSaysNothing) {
  const JobConfig job = take("problem: {measurements: y.h5}\nsolver: {name: hqs}\n", said);
  EXPECT_EQ(std::get<KernelConfig::File>(job.problem.op.kernel.form).path,
            folder.path() + "/y.h5:/kernels/0");
  EXPECT_EQ(job.problem.op.boundary, "circular");
  EXPECT_EQ(job.problem.scale.factor, 255);
  EXPECT_EQ(job.problem.scale.offset, 3);
  EXPECT_EQ(job.problem.noise.gaussian, 0.02);
  EXPECT_EQ(job.problem.seed, 7);
  EXPECT_EQ(job.problem.image.size, (std::vector<std::int64_t>{40, 50}));
  EXPECT_EQ(job.notices,
            Texts{"operator, noise, seed, scale and image size as " + folder.path() + "/y.h5 says"});
}

TEST_F(JobOfAFile, GivesWayToTheJobWithANote) {
  const JobConfig job = take(
      "problem:\n  measurements: y.h5\n  truth: photo.jpg\n  noise: {poisson: 0.5}\n  seed: 7\n"
      "  scale: {factor: 100}\n  operator: {type: blur, kernel: {gaussian: {sigma: 2}}}\n",
      said);
  EXPECT_TRUE(job.problem.image.size.empty()) << "the truth has it";
  EXPECT_EQ(job.problem.noise.gaussian, 0) << "gaussian and poisson are one statement";
  EXPECT_EQ(job.problem.noise.poisson, 0.5);
  EXPECT_EQ(job.problem.scale.factor, 100);
  EXPECT_EQ(job.problem.scale.offset, 3);
  EXPECT_EQ(job.problem.op.boundary, "circular") << "the boundary that the data have";
  const std::string file = folder.path() + "/y.h5";
  EXPECT_EQ(job.notices, (Texts{"scale as " + file + " says",
                                "operator, scale and noise as the job says, not as " + file + " does"}));
}

TEST_F(JobOfAFile, IsWrittenSoThatItReadsBack) {
  JobConfig job = parse(
      "problem: {measurements: y.h5, image: {size: [40, 50], channels: 3}, seed: 7, noise: {gaussian: 0.02}, "
      "scale: {offset: 3, factor: 255}, operator: {type: blur, boundary: circular, kernel: {file: k.npy, "
      "center: [1, 2]}}}\n");
  std::get<KernelConfig::File>(job.problem.op.kernel.form).path = ":/kernels/0";
  const JobConfig again = take("problem: {measurements: y.h5}\n", write_problem(job));
  std::get<KernelConfig::File>(job.problem.op.kernel.form).path = folder.path() + "/y.h5:/kernels/0";
  EXPECT_TRUE(again.problem == job.problem) << write_problem(job);
}

TEST_F(JobOfAFile, IsFoundByItsKeyAlone) {
  const std::string path = folder.path() + "/photo.yaml";
  EXPECT_EQ(named_measurements("problem: {measurements: y.h5, nonsense: 3}\n", path, {}),
            folder.path() + "/y.h5");
  EXPECT_EQ(named_measurements(simulated, path, {}), "");
  EXPECT_EQ(named_measurements(simulated, path, {"problem.measurements=/a/b.h5"}), "/a/b.h5");
}

TEST_F(Job, AnglesTurnOnePartWithBothEnds) {
  const OperatorConfig op = parse(eight_blurs).problem.op;
  ASSERT_EQ(op.parts.size(), 8u);
  for (std::size_t k = 0; k < 8; ++k) {
    const auto& g = std::get<KernelConfig::Gaussian>(op.parts[k].kernel.form);
    EXPECT_TRUE(g.sigma_is_share);
    EXPECT_EQ(g.sigma, (std::array<double, 2>{0.01, 0.005}));
    EXPECT_DOUBLE_EQ(g.angle, 180.0 * static_cast<double>(k) / 7.0);
    EXPECT_EQ(op.parts[k].boundary, "circular");
  }
}

TEST_F(Job, BoundsHaveTheirForms) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto bounds = [&](const std::string& text) {
    return parse(simulated + "solver: {bounds: " + text + "}\n").solver.bounds;
  };
  using Ends = std::array<double, 2>;
  EXPECT_FALSE(bounds("none").has_value());
  EXPECT_EQ(bounds("nonnegative"), (Ends{0, kInfinity}));
  EXPECT_EQ(bounds("[0, 1]"), (Ends{0, 1}));
  EXPECT_EQ(bounds("[-.inf, 0.5]"), (Ends{-kInfinity, 0.5}));
}

TEST_F(Job, SchedulesHaveTheirForms) {
  const auto sigma = [&](const std::string& text) {
    return parse(simulated + "solver: {sigma: " + text + "}\n").solver.sigma;
  };
  EXPECT_EQ(sigma("0.2").values, std::vector<double>{0.2});
  EXPECT_EQ(sigma("[0.2, 0.1]").values, (std::vector<double>{0.2, 0.1}));
  EXPECT_EQ(sigma("{log: [0.2, 0.01]}").form, "log");
  EXPECT_EQ(sigma("{linear: [0.2, 0]}").first, 0.2);
  EXPECT_EQ(sigma("{dpir: 0.03}").last, 0.03);
}

TEST_F(Job, OverridesReplaceAddReachIntoListsAndTakeAway) {
  const JobConfig job =
      parse(eight_blurs + "solver: {name: red, lambda: 0.1}\n",
            {"solver.lambda=0.3", "solver.iterations=7", "output={preview: none}",
             "problem.operator.parts.0.kernel.gaussian.sigma=[2, 3]", "problem.operator.angles.count=2"});
  EXPECT_EQ(job.solver.lambda, 0.3);
  EXPECT_EQ(job.solver.iterations, 7);
  EXPECT_EQ(job.output.preview, "");
  ASSERT_EQ(job.problem.op.parts.size(), 2u);
  EXPECT_EQ(std::get<KernelConfig::Gaussian>(job.problem.op.parts[1].kernel.form).sigma[1], 3);
  EXPECT_EQ(job.text.find("0.3"), std::string::npos) << "the text stays as given";

  const JobConfig file =
      parse(eight_blurs, {"problem.operator.angles=null", "problem.operator.parts.0.kernel={file: k.npy}"});
  EXPECT_EQ(std::get<KernelConfig::File>(file.problem.op.parts[0].kernel.form).path,
            folder.path() + "/k.npy");
}

TEST_F(Job, WrittenJobGivesTheSameRun) {
  for (const std::string& text : good_jobs) {
    JobConfig job = parse(text);
    const std::string written = write_job(job);
    // From another folder: every path has become absolute.
    JobConfig again = parse_job(written, "/elsewhere/resolved.yaml", {});
    EXPECT_EQ(write_job(again), written);
    again.folder = job.folder;
    again.text = job.text;
    EXPECT_TRUE(again == job) << written;
  }
}

TEST_F(Job, ACopyElsewhereSaysWhereItsPathsBegin) {
  const std::string text =
      "problem: {measurements: y.h5, weights: w.tif, operator: {type: mask, file: m.png}}\n";
  const std::string copy = "/elsewhere/photo.yaml", said = "relative_to='" + folder.path() + "'";
  const JobConfig original = parse_job(text, folder.path() + "/photo.yaml", {});
  EXPECT_EQ(write_job(parse_job(text, copy, {said})), write_job(original));
  EXPECT_EQ(original.output.folder, folder.path() + "/runs/photo");
  EXPECT_EQ(named_measurements(text, copy, {said}), folder.path() + "/y.h5");
  EXPECT_EQ(write_job(parse_job(text + "relative_to: ..\n", folder.path() + "/copies/photo.yaml", {})),
            write_job(original));
  EXPECT_THROW(parse_job(text, copy, {}), InputError);
  EXPECT_THROW(parse_job(text, copy, {"relative_to=/no/such/folder"}), InputError);
  EXPECT_THROW(parse_job(text, folder.path() + "/photo.yaml", {"relative_to=[a, b]"}), InputError);
}

TEST_F(Job, GoodJobsUseEveryKey) {
  std::string all;
  for (const std::string& text : good_jobs) all += write_job(parse(text));
  for (const KeyInfo& key : job_keys()) {
    if (key.path.find(".angles.") != std::string::npos) continue;  // written as parts
    if (key.path == "relative_to") continue;                       // written paths are absolute
    EXPECT_NE(all.find(key.path.substr(key.path.rfind('.') + 1) + ':'), std::string::npos) << key.path;
  }
}

TEST_F(Job, SharesReadBackExactly) {
  for (int i = 1; i < 1000; ++i) {
    const std::string percent = std::to_string(i) + "e-1 %";
    JobConfig job =
        parse(simulated + "  operator: {type: blur, kernel: {gaussian: {sigma: " + percent + "}}}\n");
    JobConfig again = parse_job(write_job(job), "/r.yaml", {});
    ASSERT_TRUE(again.problem.op == job.problem.op) << percent;
  }
}

TEST_F(Job, QuotedAndOddNamesOfFilesSurvive) {
  const std::string name = "a \"b\" \\ null: #1.png";
  std::ofstream(folder.path() + '/' + name).flush();
  const JobConfig job = parse("problem: {truth: 'a \"b\" \\ null: #1.png', noise: {gaussian: 0.1}}\n");
  EXPECT_EQ(job.problem.truth, folder.path() + '/' + name);
  EXPECT_EQ(parse_job(write_job(job), "/r.yaml", {}).problem.truth, job.problem.truth);
}

TEST_F(Job, DifferingKeysAreNamedByTheirPaths) {
  const std::string before = write_job(parse(eight_blurs));
  EXPECT_EQ(differing_keys(before, before), Texts{});
  const auto against = [&](const Texts& overrides) {
    return differing_keys(before, write_job(parse(eight_blurs, overrides)));
  };
  EXPECT_EQ(against({"solver.iterations=7"}), Texts{"solver.iterations"});
  EXPECT_EQ(against({"problem.operator.angles.count=3"}), Texts{"problem.operator.parts"});
  const std::string longer = std::string(100, 'a');
  EXPECT_EQ(differing_keys(write_job(parse(simulated, {"output.folder=" + longer + "/x"})),
                           write_job(parse(simulated, {"output.folder=" + longer + "/y"}))),
            Texts{"output.folder"});
  const Texts network = against({"denoiser={network: tv}", "solver.sigma=0.1"});
  EXPECT_NE(std::find(network.begin(), network.end(), "denoiser.network"), network.end());
  EXPECT_NE(std::find(network.begin(), network.end(), "denoiser.tv.weight"), network.end());
}

}  // namespace
}  // namespace tessera
