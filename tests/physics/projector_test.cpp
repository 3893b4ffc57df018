// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/projector.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "physics/projector_cases.hpp"
#include "projector/ray.hpp"

namespace tessera {
namespace {

using test::all_kernels;
using test::random_numbers;

std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }
template <class A, class B>
double inner(const std::vector<A>& a, const std::vector<B>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}
template <class A, class B>
double distance(const std::vector<A>& a, const std::vector<B>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return std::sqrt(sum / inner(b, b));
}

template <class T>
std::vector<T> cut(const std::vector<T>& all, const Box& whole, const Box& part) {
  std::vector<T> out;
  for (std::int64_t a = part.lo()[0]; a < part.hi()[0]; ++a)
    for (std::int64_t b = part.lo()[1]; b < part.hi()[1]; ++b)
      for (std::int64_t c = part.lo()[2]; c < part.hi()[2]; ++c)
        out.push_back(all[static_cast<std::size_t>(
            ((a - whole.lo()[0]) * whole.extent(1) + b - whole.lo()[1]) * whole.extent(2) + c -
            whole.lo()[2])]);
  return out;
}

// Samples of a part, zeros elsewhere, added to what is there.
template <class T>
void put(std::vector<T>& all, const Box& whole, const Box& part, const std::vector<T>& values) {
  std::size_t n = 0;
  for (std::int64_t a = part.lo()[0]; a < part.hi()[0]; ++a)
    for (std::int64_t b = part.lo()[1]; b < part.hi()[1]; ++b)
      for (std::int64_t c = part.lo()[2]; c < part.hi()[2]; ++c)
        all[static_cast<std::size_t>(((a - whole.lo()[0]) * whole.extent(1) + b - whole.lo()[1]) *
                                         whole.extent(2) +
                                     c - whole.lo()[2])] += values[n++];
}

std::vector<float> project(Projector& projector, const std::vector<float>& x, const Box& samples) {
  std::vector<float> y(static_cast<std::size_t>(samples.pixels()), -1e9F);
  projector.load(x.data());
  projector.project(samples, y.data());
  return y;
}
std::vector<float> gather(Projector& projector, const std::vector<float>& y, const Box& samples) {
  std::vector<float> x(static_cast<std::size_t>(projector.block().pixels()), -1e9F);
  projector.clear();
  projector.gather(samples, y.data());
  projector.store(x.data());
  return x;
}

// By the ray's own weights.
bool ray_touches(const ProjectionGeometry& g, const Box& block, std::int64_t view, std::int64_t row,
                 std::int64_t column) {
  bool touched = false;
  for_taps(
      line_of(g.volume, ray_of(g, g.views[static_cast<std::size_t>(view)], row, column)), block,
      [&](std::int64_t, std::int64_t, std::int64_t, double weight) { touched = touched || weight > 1e-6; });
  return touched;
}

// Blocks that cut a volume along several axes, of uneven sizes.
std::vector<Box> cuts_of(const Box& box, int way) {
  const auto at = [&](std::size_t axis, int parts) {
    std::vector<std::int64_t> edges{box.lo()[axis]};
    for (int k = 1; k < parts; ++k) edges.push_back(box.lo()[axis] + box.extent(axis) * k / parts);
    edges.push_back(box.hi()[axis]);
    return edges;
  };
  const std::vector<std::int64_t> d = at(0, way == 0 ? 3 : 1), h = at(1, way == 0 ? 1 : 3),
                                  w = at(2, way == 2 ? 2 : 1);
  std::vector<Box> all;
  for (std::size_t i = 0; i + 1 < d.size(); ++i)
    for (std::size_t j = 0; j + 1 < h.size(); ++j)
      for (std::size_t k = 0; k + 1 < w.size(); ++k) {
        const Box part({d[i], h[j], w[k]}, {d[i + 1], h[j + 1], w[k + 1]});
        if (!part.empty()) all.push_back(part);
      }
  return all;
}

class ProjectorTest : public ::testing::TestWithParam<test::ProjectorCase> {
 protected:
  const ProjectionGeometry& g() const { return *GetParam().geometry; }
  Box volume() const { return g().volume.box(); }
  std::vector<double> x() const { return random_numbers(volume().pixels(), 1); }
  std::vector<double> y() const { return random_numbers(g().samples().pixels(), 2); }
};

TEST_P(ProjectorTest, AdjointIsExactInDouble) {
  const std::vector<double> x = this->x(), y = this->y();
  std::vector<double> ax(y.size()), aty(x.size());
  project_plain(g(), volume(), x.data(), g().samples(), ax.data());
  gather_plain(g(), volume(), g().samples(), y.data(), aty.data());
  ASSERT_GT(inner(ax, ax), 1);
  EXPECT_NEAR(inner(ax, y), inner(x, aty), 1e-12 * std::sqrt(inner(ax, ax) * inner(y, y)));
}

TEST_P(ProjectorTest, KernelsAreTheDefinitionToRounding) {
  const std::vector<float> x = floats(this->x()), y = floats(this->y());
  std::vector<double> ax(y.size()), aty(x.size());
  project_plain(g(), volume(), std::vector<double>(x.begin(), x.end()).data(), g().samples(), ax.data());
  gather_plain(g(), volume(), g().samples(), std::vector<double>(y.begin(), y.end()).data(), aty.data());
  for (const ProjectorKernels kernels : all_kernels()) {
    SCOPED_TRACE(static_cast<int>(kernels));
    Projector projector(GetParam().geometry, volume(), kernels);
    const std::vector<float> forward = project(projector, x, g().samples()),
                             back = gather(projector, y, g().samples());
    EXPECT_LT(distance(forward, ax), 2e-6);
    EXPECT_LT(distance(back, aty), 2e-6);
    EXPECT_NEAR(inner(forward, y), inner(x, back), 1e-6 * std::sqrt(inner(ax, ax) * inner(y, y)));
  }
}

TEST_P(ProjectorTest, BlocksAddUpToTheVolume) {
  const std::vector<float> x = floats(this->x()), y = floats(this->y());
  const Box samples = g().samples();
  for (const ProjectorKernels kernels : all_kernels()) {
    SCOPED_TRACE(static_cast<int>(kernels));
    Projector whole(GetParam().geometry, volume(), kernels);
    const std::vector<float> ax = project(whole, x, samples), aty = gather(whole, y, samples);
    for (int way = 0; way < 3; ++way) {
      SCOPED_TRACE(way);
      std::vector<float> sum(y.size()), put_together(x.size());
      for (const Box& block : cuts_of(volume(), way)) {
        const Box cast = shadow(g(), block, 0, samples.hi()[0]);
        Projector part(GetParam().geometry, block, kernels);
        put(sum, samples, cast, project(part, cut(x, volume(), block), cast));
        put(put_together, volume(), block, gather(part, cut(y, samples, cast), cast));
      }
      EXPECT_LT(distance(sum, ax), 2e-6);
      EXPECT_TRUE(put_together == aty);  // the same bits
    }
  }
}

TEST_P(ProjectorTest, ShadowsHoldEveryRayAndLittleElse) {
  const Box block = cuts_of(volume(), 2).back();
  std::int64_t loose = 0;
  for (std::int64_t v = 0; v < g().samples().hi()[0]; ++v) {
    const Box cast = shadow(g(), block, v);
    Box touched;
    for (std::int64_t j = 0; j < g().rows; ++j)
      for (std::int64_t i = 0; i < g().columns; ++i)
        if (ray_touches(g(), block, v, j, i)) touched = touched.hull({{v, j, i}, {v + 1, j + 1, i + 1}});
    EXPECT_TRUE(cast.contains(touched)) << "view " << v << ": " << cast << " against " << touched;
    for (std::size_t d = 1; d < 3; ++d) {
      loose = std::max(loose, touched.lo()[d] - cast.lo()[d]);
      loose = std::max(loose, cast.hi()[d] - touched.hi()[d]);
    }
    if (touched.empty()) loose = 0;
  }
  EXPECT_LE(loose, 2);
}

TEST_P(ProjectorTest, AnyBoxOfSamplesAndBatchesOfViews) {
  const std::vector<float> x = floats(this->x());
  const Box samples = g().samples();
  const Box some({3, g().rows / 3, 7}, {samples.hi()[0] - 2, g().rows - g().rows / 4, g().columns - 5});
  for (const ProjectorKernels kernels : all_kernels()) {
    SCOPED_TRACE(static_cast<int>(kernels));
    Projector projector(GetParam().geometry, volume(), kernels);
    const std::vector<float> all = project(projector, x, samples), part = project(projector, x, some);
    EXPECT_LT(distance(part, cut(all, samples, some)), 2e-6);
    std::vector<float> twice = part;
    projector.project(some, twice.data(), ProjectorInto::add);
    for (std::size_t i = 0; i < part.size(); ++i)
      ASSERT_NEAR(twice[i], 2 * part[i], 1e-5 * (1 + std::abs(part[i])));
    // The adjoint of these samples, in batches, against zeros around them in one.
    const std::vector<float> y = cut(floats(this->y()), samples, some);
    std::vector<float> around(static_cast<std::size_t>(samples.pixels()));
    put(around, samples, some, y);
    const std::vector<float> wanted = gather(projector, around, samples);
    std::vector<float> got(wanted.size());
    const std::int64_t middle = (some.lo()[0] + some.hi()[0]) / 2;
    const Box first(some.lo(), {middle, some.hi()[1], some.hi()[2]}),
        second({middle, some.lo()[1], some.lo()[2]}, some.hi());
    projector.clear();
    projector.gather(first, cut(y, some, first).data());
    projector.gather(second, cut(y, some, second).data());
    projector.store(got.data());
    EXPECT_LT(distance(got, wanted), 2e-6);
    projector.store(got.data(), ProjectorInto::add);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], 2 * wanted[i], 1e-4);
  }
}

TEST_P(ProjectorTest, ThreadsDoNotChangeABit) {
  const std::vector<float> x = floats(this->x()), y = floats(this->y());
  std::vector<float> ax, aty;
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    Projector projector(GetParam().geometry, volume());
    const std::vector<float> forward = project(projector, x, g().samples()),
                             back = gather(projector, y, g().samples());
    if (threads == 1) {
      ax = forward;
      aty = back;
    }
    EXPECT_TRUE(forward == ax);
    EXPECT_TRUE(back == aty);
  }
  at::set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Beams, ProjectorTest, ::testing::ValuesIn(test::projector_cases()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase_if(name, [](char c) { return c == ','; });
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace tessera
