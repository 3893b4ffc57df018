// SPDX-License-Identifier: BSD-3-Clause
// What the threads of the GPU's kernels do, thread by thread on the host, against the definition.
#include "tessera/physics/ray_projector.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "physics/projector_cases.hpp"
#include "projector/ray_body.hpp"
#include "support/threads.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

using test::random_numbers;

at::Tensor tensor_of(const std::vector<double>& numbers, const Box& box, at::ScalarType type) {
  at::Tensor t = at::empty({box.extent(0), box.extent(1), box.extent(2)}, at::kDouble);
  std::copy(numbers.begin(), numbers.end(), t.mutable_data_ptr<double>());
  return t.to(type);
}
at::Tensor part_of(const at::Tensor& all, const Box& whole, const Box& part) {
  at::Tensor t = all;
  for (std::size_t d = 0; d < 3; ++d)
    t = t.narrow(static_cast<std::int64_t>(d), part.lo()[d] - whole.lo()[d], part.extent(d));
  return t.contiguous();
}
double product_of(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) * b.to(at::kDouble)).sum().item().toDouble();
}
double difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor d = a.to(at::kDouble) - b.to(at::kDouble);
  return std::sqrt(product_of(d, d) / product_of(b, b));
}

at::Tensor project(RayProjector& p, const at::Tensor& x, const Box& samples) {
  const at::Tensor y = at::full({samples.extent(0), samples.extent(1), samples.extent(2)}, -1e9, x.options());
  p.load(x);
  p.project(samples, y);
  return y;
}
at::Tensor gather(const RayProjector& p, const Box& block, const at::Tensor& y, const Box& samples) {
  const at::Tensor x = at::zeros({block.extent(0), block.extent(1), block.extent(2)}, y.options());
  p.gather(samples, y, x);
  return x;
}

std::vector<Box> cuts_of(const Box& box, const Index3& parts) {
  std::vector<Box> all;
  const auto edge = [&](std::size_t axis, std::int64_t k) {
    return box.lo()[axis] + box.extent(axis) * k / parts[axis];
  };
  for (std::int64_t i = 0; i < parts[0]; ++i)
    for (std::int64_t j = 0; j < parts[1]; ++j)
      for (std::int64_t k = 0; k < parts[2]; ++k) {
        const Box part({edge(0, i), edge(1, j), edge(2, k)},
                       {edge(0, i + 1), edge(1, j + 1), edge(2, k + 1)});
        if (!part.empty()) all.push_back(part);
      }
  return all;
}

// Of tasks so small threads would wait for each other most of the time.
class OneThread : public ::testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
[[maybe_unused]] const auto* const kOneThread = ::testing::AddGlobalTestEnvironment(new OneThread);

std::vector<test::ProjectorCase> all_cases() {
  std::vector<test::ProjectorCase> all = test::projector_cases();
  CircularScan scan;
  scan.beam = Beam::fan;
  scan.angles = test::angles(7, 6.28, 0.1);
  scan.rows = 43;
  scan.columns = 77;
  scan.source_axis = 90;
  scan.source_detector = 100;
  scan.detector_shift = {0.3, 5};  // rows that see no slice before and behind
  all.push_back({"fan, level stack", std::make_shared<const ProjectionGeometry>(
                                         circular_geometry(scan, {{37, 21, 40}, {1, 1, 1}}))});
  scan.beam = Beam::cone;
  scan.detector_shift = {};
  scan.columns = 61;
  scan.source_axis = 60;
  scan.source_detector = 120;
  scan.helical_pitch = 9;
  scan.column_pitch = scan.row_pitch = 2;
  all.push_back({"cone, few slices", std::make_shared<const ProjectionGeometry>(
                                         circular_geometry(scan, {{3, 33, 29}, {1, 1, 1}}))});
  all.push_back({"cone, one slice", std::make_shared<const ProjectionGeometry>(
                                        circular_geometry(scan, {{1, 33, 29}, {1, 1, 1}}))});
  return all;
}

class RayProjectorTest : public ::testing::TestWithParam<test::ProjectorCase> {
 protected:
  const ProjectionGeometry& g() const { return *GetParam().geometry; }
  Box volume() const { return g().volume.box(); }
  at::Tensor x(at::ScalarType type) const {
    return tensor_of(random_numbers(volume().pixels(), 1), volume(), type);
  }
  at::Tensor y(at::ScalarType type) const {
    return tensor_of(random_numbers(g().samples().pixels(), 2), g().samples(), type);
  }
  RayProjector of(const Box& block, at::ScalarType type) const {
    return {GetParam().geometry, block, at::TensorOptions(type), {}};
  }
  // By the definition, from the numbers in float32.
  at::Tensor ax() const {
    const at::Tensor from = x(at::kFloat).to(at::kDouble), to = at::empty_like(y(at::kDouble));
    project_plain(g(), volume(), from.const_data_ptr<double>(), g().samples(), to.data_ptr<double>());
    return to;
  }
  at::Tensor aty() const {
    const at::Tensor from = y(at::kFloat).to(at::kDouble), to = at::empty_like(x(at::kDouble));
    gather_plain(g(), volume(), g().samples(), from.const_data_ptr<double>(), to.data_ptr<double>());
    return to;
  }
};

TEST_P(RayProjectorTest, InFloatIsTheDefinitionToRounding) {
  RayProjector p = of(volume(), at::kFloat);
  const at::Tensor x = this->x(at::kFloat), y = this->y(at::kFloat), ax = this->ax(), aty = this->aty();
  const at::Tensor forward = project(p, x, g().samples()), back = gather(p, volume(), y, g().samples());
  ASSERT_GT(product_of(ax, ax), 1);
  EXPECT_LT(difference(forward, ax), 1e-6);
  EXPECT_LT(difference(back, aty), 1e-6);
  EXPECT_NEAR(product_of(forward, y), product_of(x, back),
              1e-6 * std::sqrt(product_of(ax, ax) * product_of(y, y)));
}

TEST_P(RayProjectorTest, InDoubleItsAdjointIsExact) {
  RayProjector p = of(volume(), at::kDouble);
  const at::Tensor x = this->x(at::kFloat).to(at::kDouble), y = this->y(at::kFloat).to(at::kDouble),
                   forward = project(p, x, g().samples()), back = gather(p, volume(), y, g().samples());
  EXPECT_LT(difference(forward, ax()), 1e-13);
  EXPECT_LT(difference(back, aty()), 1e-13);
  EXPECT_NEAR(product_of(forward, y), product_of(x, back),
              1e-12 * std::sqrt(product_of(forward, forward) * product_of(y, y)));
}

TEST_P(RayProjectorTest, BlocksAddUpToTheVolume) {
  const at::Tensor x = this->x(at::kFloat), y = this->y(at::kFloat);
  const Box samples = g().samples();
  RayProjector whole = of(volume(), at::kFloat);
  const at::Tensor ax = project(whole, x, samples), aty = gather(whole, volume(), y, samples);
  for (const Index3& parts : {Index3{3, 1, 1}, Index3{1, 3, 2}, Index3{2, 2, 2}}) {
    SCOPED_TRACE(concat(parts[0], parts[1], parts[2]));
    const at::Tensor sum = at::zeros_like(y);
    for (const Box& block : cuts_of(volume(), parts)) {
      const Box cast = shadow(g(), block, 0, samples.hi()[0]);
      RayProjector part = of(block, at::kFloat);
      at::Tensor to = sum;
      for (std::size_t d = 0; d < 3; ++d)
        to = to.narrow(static_cast<std::int64_t>(d), cast.lo()[d], cast.extent(d));
      to.add_(project(part, part_of(x, volume(), block), cast));
      EXPECT_TRUE(gather(part, block, part_of(y, samples, cast), cast).equal(part_of(aty, volume(), block)))
          << block;  // the same bits
    }
    EXPECT_LT(difference(sum, ax), 1e-6);
  }
}

TEST_P(RayProjectorTest, ThreadsDoNotChangeABit) {
  const at::Tensor x = this->x(at::kFloat), y = this->y(at::kFloat);
  test::same_on_any_threads([&] {
    RayProjector p = of(volume(), at::kFloat);
    return std::vector<at::Tensor>{project(p, x, g().samples()), gather(p, volume(), y, g().samples())};
  });
}

TEST_P(RayProjectorTest, AnyBoxOfSamplesAndBatchesOfViews) {
  const at::Tensor x = this->x(at::kFloat);
  const Box samples = g().samples();
  const Box some({1, g().rows / 3, 7}, {samples.hi()[0] - 2, g().rows - g().rows / 4, g().columns - 5});
  RayProjector p = of(volume(), at::kFloat);
  const at::Tensor all = project(p, x, samples), part = project(p, x, some);
  EXPECT_TRUE(part.equal(part_of(all, samples, some)));
  const at::Tensor twice = part.clone();
  p.project(some, twice, ProjectorInto::add);
  EXPECT_TRUE(twice.equal(2 * part));
  // The adjoint of these samples, in batches, against zeros around them in one.
  const at::Tensor y = part_of(this->y(at::kFloat), samples, some);
  at::Tensor around = at::zeros_like(this->y(at::kFloat)), to = around;
  for (std::size_t d = 0; d < 3; ++d)
    to = to.narrow(static_cast<std::int64_t>(d), some.lo()[d], some.extent(d));
  to.copy_(y);
  const std::int64_t middle = (some.lo()[0] + some.hi()[0]) / 2;
  const Box first(some.lo(), {middle, some.hi()[1], some.hi()[2]}),
      second({middle, some.lo()[1], some.lo()[2]}, some.hi());
  const at::Tensor got = gather(p, volume(), part_of(y, some, first), first);
  p.gather(second, part_of(y, some, second), got);
  EXPECT_LT(difference(got, gather(p, volume(), around, samples)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Beams, RayProjectorTest, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == ','; });
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

// Scans that nobody thought of, and a block of each: pitches from a fifth to four times a voxel, sides that differ, sources
// near the volume, offsets, detectors that see a part.
TEST(RayProjector, RandomScansAreTheDefinitionToRounding) {
  std::mt19937 engine(5);
  const auto draw = [&](double lo, double hi) {
    return std::uniform_real_distribution<double>(lo, hi)(engine);
  };
  const auto whole = [&](int lo, int hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(engine);
  };
  constexpr int kScans = 300;
  int seen = 0;
  for (int n = 0; n < kScans; ++n) {
    SCOPED_TRACE(n);
    const VolumeGrid grid{{whole(1, 30), whole(1, 30), whole(1, 30)},
                          {draw(0.5, 2), draw(0.5, 2), draw(0.5, 2)}};
    const double radius = std::hypot(static_cast<double>(grid.size[1] + 3) * grid.voxel[1],
                                     static_cast<double>(grid.size[2] + 3) * grid.voxel[0]) /
                          2;
    CircularScan scan;
    scan.beam = static_cast<Beam>(n % 3);
    scan.angles = test::angles(5, draw(0.5, 7), draw(-3, 3));
    scan.rows = whole(1, 40);
    scan.columns = whole(1, 60);
    scan.source_axis = radius * draw(1.05, 5);
    scan.source_detector = scan.source_axis * draw(1, 3);
    const double magnified = scan.beam == Beam::parallel ? 1 : scan.source_detector / scan.source_axis;
    scan.column_pitch = draw(0.2, 4) * magnified;
    scan.row_pitch = draw(0.2, 4) * (scan.beam == Beam::cone ? magnified : 1);
    scan.axis_offset = draw(-4, 4);
    scan.detector_shift = {draw(-5, 5), draw(-5, 5)};
    if (n % 2 == 0) scan.helical_pitch = draw(-9, 9);
    const auto g = std::make_shared<const ProjectionGeometry>(circular_geometry(scan, grid));
    const Box block = cuts_of(grid.box(), {2, 2, 2}).back(), samples = g->samples();
    const at::Tensor x = tensor_of(random_numbers(block.pixels(), 1), block, at::kFloat),
                     y = tensor_of(random_numbers(samples.pixels(), 2), samples, at::kFloat);
    const at::Tensor ax = at::empty(y.sizes(), at::kDouble), aty = at::empty(x.sizes(), at::kDouble),
                     exact_x = x.to(at::kDouble), exact_y = y.to(at::kDouble);
    project_plain(*g, block, exact_x.const_data_ptr<double>(), samples, ax.data_ptr<double>());
    gather_plain(*g, block, samples, exact_y.const_data_ptr<double>(), aty.data_ptr<double>());
    RayProjector p(g, block, at::TensorOptions(at::kFloat), {});
    const auto worst = [](const at::Tensor& got, const at::Tensor& wanted) {
      return (got.to(at::kDouble) - wanted).abs().max().item().toDouble() /
             (1 + wanted.abs().max().item().toDouble());
    };
    seen += ax.abs().max().item().toDouble() > 0.1;
    EXPECT_LT(worst(project(p, x, samples), ax), 3e-6);
    EXPECT_LT(worst(gather(p, block, y, samples), aty), 3e-6);
  }
  EXPECT_GT(seen, kScans / 2);
}

TEST(RayProjector, ABlockWithoutVoxelsProjectsToZeros) {
  const auto geometry = test::projector_cases().front().geometry;
  RayProjector p(geometry, Box{}, at::TensorOptions(at::kFloat), {});
  const Box samples = geometry->samples();
  const at::Tensor y = at::full({samples.extent(0), samples.extent(1), samples.extent(2)}, 3.0F);
  p.load(at::empty({0}));
  p.project(samples, y, ProjectorInto::add);
  EXPECT_EQ(y.min().item<float>(), 3);
  p.project(samples, y);
  EXPECT_EQ(y.abs().max().item<float>(), 0);
}

// A picture of 2^32 pixels and more, whose few touched pages exist: no offset wraps.
TEST(RayProjector, OffsetsBeyond31BitsAreRight) {
  constexpr std::int64_t kSide = 66000, kStride = kSide + 2;
  const auto map = [](std::int64_t numbers) {
    void* p = mmap(nullptr, static_cast<std::size_t>(numbers) * 4, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<float*>(p);
  };
  float *volume = map(kStride * kStride), *x = map(kSide * kSide);
  if (!volume || !x) GTEST_SKIP() << "no 40 GiB of address space";
  CircularScan scan;
  scan.angles = {0};  // rays go down the rows
  scan.columns = kSide;
  const ProjectionGeometry g = circular_geometry(scan, {{1, kSide, kSide}, {1, 1, 1}});
  rays::View view{};
  view.shape = g.views[0];
  rays::ProjectTask<float> task{};
  task.space = ray_space(g);
  task.views = &view;
  task.lo = {0, 0, 0};
  task.hi = g.volume.size;
  for (int axis = 0; axis < 3; ++axis) {
    task.volume[axis] = volume + kStride + 1;
    task.stride[axis][0] = kStride * kStride;  // of the only slice: never multiplied by more than 0
    task.stride[axis][1] = kStride;
    task.stride[axis][2] = 1;
  }
  float sums[3] = {};
  task.samples = {0, 1, 0, 1, kSide - 3, 3};
  task.y = sums;
  for (std::int64_t row = kSide - 3; row < kSide; ++row)
    for (std::int64_t column = kSide - 3; column < kSide; ++column)
      volume[(row + 1) * kStride + column + 1] = static_cast<float>(1 + column - (kSide - 3));
  for (std::int32_t thread = 0; thread < 3; ++thread) rays::project_thread(task, 0, thread);
  EXPECT_EQ(sums[0], 3);
  EXPECT_EQ(sums[1], 6);
  EXPECT_EQ(sums[2], 9);

  // The last pixels gather what the last columns saw.
  const float y[3] = {1, 2, 3};
  const rays::SampleBox samples{0, 1, 0, 1, kSide - 3, 3};
  const rays::GatherAnyTask<float> back{task.space, &view, task.lo, task.hi, samples, y, x};
  for (int k = 0; k < 4; ++k) view.column[k] = view.row[k] = view.depth[k] = 0;
  view.column[3] = view.row[1] = view.depth[0] = 1;  // voxel (d, h, w) at row d and column w
  const std::int64_t last = rays::blocks(back) - 1;
  for (std::int32_t thread = 0; thread < rays::kThreads; ++thread)
    rays::gather_any_thread(back, last, thread);
  EXPECT_EQ(x[kSide * kSide - 1], 3);
  EXPECT_EQ(x[kSide * kSide - 2], 2);
  EXPECT_EQ(x[kSide * kSide - 1 - kSide], 3);
  munmap(volume, static_cast<std::size_t>(kStride * kStride) * 4);
  munmap(x, static_cast<std::size_t>(kSide * kSide) * 4);
}

TEST(RayProjector, FixedCoordinatesAndWholeNumbers) {
  for (const double v : {-3.25, -1e-11, 0.0, 0.5, 0.999999999, 7.0, 1234.625, -2047.75}) {
    const std::int64_t x = rays::fixed(v);
    EXPECT_NEAR(static_cast<double>(rays::cell_of(x)) + static_cast<double>(rays::part_of(x)), v, 2e-7);
    EXPECT_GE(rays::part_of(x), 0);
    EXPECT_LT(rays::part_of(x), 1);
  }
  for (float v = -40; v < 40; v += 0.07F) {
    const rays::Whole n = rays::rounded_up(v);
    EXPECT_EQ(n.value, static_cast<float>(n.number));
    EXPECT_TRUE(n.value > v - 1e-5F && n.value <= v + 1.00001F) << v << " " << n.value;
  }
}

}  // namespace
}  // namespace tessera
