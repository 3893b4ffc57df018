// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/ray_projector.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "ray_task.hpp"
#include "tessera/core/error.hpp"
#include "view_lines.hpp"

namespace tessera {
namespace {

using rays::View;
using rays::Way;

constexpr std::int64_t kSector = 8;  // numbers that memory is read in, at least
constexpr std::int64_t kFewSlices =
    8;  // of a block: below, neighbors along columns fill a warp better than along rows

Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double dot(const Vector3& a, const Vector3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// Where the view sees voxels: numerators and depth are linear in (1, d, h, w), as project_point() has them.
void set_seen(const ProjectionGeometry& g, const ProjectionView& shape, View& view) {
  const Vector3 n = cross(shape.u, shape.v);
  const double square = dot(n, n);
  const auto seen = [&](double d, double h, double w) {
    Vector3 p;
    const double index[3] = {w, h, d};
    for (std::size_t k = 0; k < 3; ++k)
      p[k] = (index[k] - 0.5 * static_cast<double>(g.volume.size[2 - k] - 1)) * g.volume.voxel[k];
    const double z = p[2];
    if (g.beam == Beam::fan) p[2] = shape.source[2];
    const auto minus = [](const Vector3& a, const Vector3& b) {
      return Vector3{a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    };
    double depth = 1;
    Vector3 off =
        minus(p, shape.center);  // from the detector's middle to where the point is seen, times depth
    if (g.beam == Beam::parallel) {
      const double t = -dot(off, n) / dot(shape.source, n);
      for (std::size_t k = 0; k < 3; ++k) off[k] += t * shape.source[k];
    } else {
      depth = dot(minus(p, shape.source), n) / dot(minus(shape.center, shape.source), n);
      for (std::size_t k = 0; k < 3; ++k)
        off[k] = depth * (shape.source[k] - shape.center[k]) + p[k] - shape.source[k];
    }
    const double column =
        dot(cross(off, shape.v), n) / square + depth * 0.5 * static_cast<double>(g.columns - 1);
    const double row =
        g.beam == Beam::fan
            ? (z - shape.center[2]) / shape.v[2] + 0.5 * static_cast<double>(g.rows - 1)
            : dot(cross(shape.u, off), n) / square + depth * 0.5 * static_cast<double>(g.rows - 1);
    return std::array<double, 3>{column, row, depth};
  };
  const std::array<double, 3> all[4] = {seen(0, 0, 0), seen(1, 0, 0), seen(0, 1, 0), seen(0, 0, 1)};
  for (int k = 0; k < 4; ++k) {
    view.column[k] = all[k][0] - (k > 0 ? all[0][0] : 0);
    view.row[k] = all[k][1] - (k > 0 ? all[0][1] : 0);
    view.depth[k] = all[k][2] - (k > 0 ? all[0][2] : 0);
  }
}

// Columns by which float32 may misplace a pixel; none where it would not do.
std::optional<float> rim_of(const ProjectionGeometry& g, const View& view) {
  const double high = static_cast<double>(g.volume.size[1]), wide = static_cast<double>(g.volume.size[2]);
  double least = std::numeric_limits<double>::infinity();
  for (const double h : {-1.0, high})
    for (const double w : {-1.0, wide})
      least = std::min(least, view.depth[0] + view.depth[2] * h + view.depth[3] * w);
  const auto size = [&](const double(&a)[4]) {
    return std::abs(a[0]) + std::abs(a[2]) * (high + 1) + std::abs(a[3]) * (wide + 1);
  };
  constexpr double kRounding = 4 * 6e-8;  // of a sum of three products
  const double depth = kRounding * size(view.depth);
  if (depth > 0.1 * least) return std::nullopt;
  return static_cast<float>(
      1e-4 + 2 * (kRounding * size(view.column) + depth * static_cast<double>(g.columns + 2)) / least);
}

// Whether the rays of a view keep to the middles of slices.
bool is_level(const ProjectionGeometry& g, std::int64_t index) {
  const ProjectionView& view = g.views[static_cast<std::size_t>(index)];
  if (g.beam == Beam::cone || view.u[2] != 0 || view.v[0] != 0 || view.v[1] != 0 || view.v[2] <= 0)
    return false;
  if (g.beam == Beam::parallel && view.source[2] != 0) return false;
  const RowSlices rows = row_slices(g, index);
  return std::abs(rows.start - std::round(rows.start)) < 1e-9 &&
         std::abs(rows.step - 1) * static_cast<double>(g.rows) < 1e-9;
}

// What the adjoint of level and upright views must know; false: the view is neither.
bool set_upright(const ProjectionGeometry& g, std::int64_t index, View& view) {
  if (!view_traits(g, index).fast) return false;
  const std::optional<float> rim = rim_of(g, view);
  if (!rim) return false;
  const ProjectionView& shape = view.shape;
  const Box seen = shadow(g, g.volume.box(), index);
  for (std::int64_t i = seen.lo()[2]; i < seen.hi()[2]; ++i)
    view.mains |= 1 << (main_axis(g.volume, ray_of(g, shape, seen.lo()[1], i).direction) - 1);
  for (int k = 0; k < 3; ++k) {
    view.near_column[k] = static_cast<float>(view.column[k > 0 ? k + 1 : 0]);
    view.near_depth[k] = static_cast<float>(view.depth[k > 0 ? k + 1 : 0]);
  }
  view.rim = *rim;
  const RowSlices rows = row_slices(g, index);
  const bool cone = g.beam == Beam::cone;
  view.slice = rows.start;
  view.row_step = rows.step;
  view.rise = cone ? (shape.center[2] - shape.source[2]) / g.volume.voxel[2] -
                         0.5 * static_cast<double>(g.rows - 1) * rows.step
                   : 0;
  view.opens = cone ? 1 : 0;
  const bool level = is_level(g, index);
  view.shift = level ? -static_cast<std::int32_t>(std::llround(rows.start)) : 0;
  view.way = level ? Way::level : Way::upright;
  return true;
}

View view_of(const ProjectionGeometry& g, std::int64_t index, bool fast) {
  View view{};
  view.shape = g.views[static_cast<std::size_t>(index)];
  view.way = Way::any;
  set_seen(g, view.shape, view);
  if (fast) set_upright(g, index, view);
  return view;
}

// Rows that may meet a voxel of an upright view.
std::int64_t taps_of(const ProjectionGeometry& g, std::int64_t index) {
  const double step =
      g.beam == Beam::cone ? view_traits(g, index).row_step_least : std::abs(row_slices(g, index).step);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(2 / step - 1e-6)));
}

bool slices_inside(const Box& block) { return block.extent(0) >= kFewSlices; }

std::int64_t pixel_of(const Box& block) {  // numbers from one pixel's slices to the next one's
  return rays::shares(kSector + block.extent(0) + 1, kSector) * kSector;
}

std::int64_t copy_numbers(const Box& block) {
  if (block.empty()) return 0;
  const std::int64_t pixels = (block.extent(1) + 2) * (block.extent(2) + 2);
  return slices_inside(block) ? pixels * pixel_of(block) : 2 * pixels * (block.extent(0) + 2);
}

}  // namespace

struct RayProjector::State {
  std::shared_ptr<const ProjectionGeometry> geometry;
  Box block;
  at::TensorOptions options;
  std::function<void*()> stream;
  RaySpace space{};
  std::vector<Way> ways;
  bool level = true;  // all views
  std::int64_t taps = 1;
  at::Tensor views;                         // of bytes
  at::Tensor at, slope, start, rate, main;  // of columns
  at::Tensor copies[2];                     // of the block; slices outside: cells along w, along h
  const View* view_data() const {
    return reinterpret_cast<const View*>(views.const_data_ptr<std::uint8_t>());
  }

  template <class Task, class... More>
  void run(const Task& task, More... more) const {
    if (!options.device().is_cuda()) return rays::on_host(task, more...);
    const c10::DeviceGuard guard(options.device());
    rays::on_device(task, more..., stream());
  }

  rays::Columns columns() const {
    if (!at.defined()) return {};
    return {at.data_ptr<std::int64_t>(), slope.data_ptr<std::int64_t>(), start.data_ptr<double>(),
            rate.data_ptr<double>(), main.data_ptr<std::int32_t>()};
  }

  static rays::SampleBox samples_of(const Box& b) {
    return {b.lo()[0], b.extent(0), b.lo()[1], b.extent(1), b.lo()[2], b.extent(2)};
  }

  void set_views() {
    const auto count = static_cast<std::int64_t>(geometry->views.size());
    const bool fast = options.dtype() == at::kFloat;
    const auto bytes = static_cast<std::int64_t>(sizeof(View));
    at::Tensor host = at::empty({count * bytes}, at::kByte);
    bool any_fast = false;
    for (std::int64_t v = 0; v < count; ++v) {
      const View view = view_of(*geometry, v, fast);
      ways.push_back(view.way);
      any_fast = any_fast || view.way != Way::any;
      level = level && is_level(*geometry, v);
      if (view.way == Way::upright) taps = std::max(taps, taps_of(*geometry, v));
      std::memcpy(host.mutable_data_ptr<std::uint8_t>() + v * bytes, &view, sizeof(View));
    }
    views = host.to(options.device());
    if (!any_fast) return;
    const auto numbers = [&](at::ScalarType type) {
      return at::empty({count * space.columns}, options.dtype(type));
    };
    at = numbers(at::kLong);
    slope = numbers(at::kLong);
    start = numbers(at::kDouble);
    rate = numbers(at::kDouble);
    main = numbers(at::kInt);
    run(rays::ColumnTask{space, view_data(), count, columns()});
  }

  void make_copies() {
    const std::int64_t d = block.extent(0) + 2, h = block.extent(1) + 2, w = block.extent(2) + 2;
    if (slices_inside(block)) {
      copies[0] = at::zeros({h, w, pixel_of(block)}, options);
    } else {
      copies[0] = at::zeros({d, h, w}, options);
      copies[1] = at::zeros({d, w, h}, options);
    }
  }

  // The block's own voxels in a copy, as (d, h, w).
  at::Tensor inside(int which) const {
    const auto cut = [&](const at::Tensor& t, std::int64_t axis, std::size_t of, std::int64_t first) {
      return t.narrow(axis, first, block.extent(of));
    };
    const at::Tensor& all = copies[which];
    if (slices_inside(block)) return cut(cut(cut(all, 0, 1, 1), 1, 2, 1), 2, 0, kSector).permute({2, 0, 1});
    return which == 0 ? cut(cut(cut(all, 0, 0, 1), 1, 1, 1), 2, 2, 1)
                      : cut(cut(cut(all, 0, 0, 1), 1, 2, 1), 2, 1, 1).permute({0, 2, 1});
  }

  template <class T>
  void project(const Box& samples, const at::Tensor& y, ProjectorInto into) const {
    rays::ProjectTask<T> task{};
    task.space = space;
    task.views = view_data();
    task.lo = block.lo();
    task.hi = block.hi();
    for (int axis = 0; axis < 3; ++axis) {
      const at::Tensor voxels = inside(axis == 2 && !slices_inside(block) ? 1 : 0);
      task.volume[axis] = voxels.const_data_ptr<T>();
      for (int of = 0; of < 3; ++of) task.stride[axis][of] = voxels.stride(of);
    }
    task.samples = samples_of(samples);
    task.y = y.data_ptr<T>();
    task.by_rows = slices_inside(block);
    task.add = into == ProjectorInto::add;
    run(task);
  }

  void gather_fast(const Box& samples, const float* y, float* x, Way way) const {
    const std::int32_t run_of = way == Way::upright             ? rays::kUprightRun
                                : geometry->volume.size[0] == 1 ? 1
                                                                : rays::kLevelRun;
    const std::int64_t rim = way == Way::upright ? taps : run_of;
    const rays::SampleBox s = samples_of(samples);
    TESSERA_VALIDATE((s.rows + 2 * rim) * s.columns <= std::numeric_limits<std::int32_t>::max(), "a view of ",
                     s.rows, " x ", s.columns,
                     " samples (a GPU's indices of it have 31 bits) use a part of it");
    const at::Tensor scaled = at::empty({s.views * (s.rows + 2 * rim) * s.columns}, options);
    run(rays::ScaleTask{space, view_data(), s, y, rim, scaled.mutable_data_ptr<float>()});
    run(rays::GatherTask{space, view_data(), block.lo(), block.hi(), columns(), s,
                         scaled.const_data_ptr<float>(), rim, run_of, static_cast<std::int32_t>(taps), x},
        way);
  }

  template <class T>
  void gather(const Box& samples, const T* y, T* x, Way way) const {
    if constexpr (std::is_same_v<T, float>)
      if (way != Way::any) return gather_fast(samples, y, x, way);
    run(rays::GatherAnyTask<T>{space, view_data(), block.lo(), block.hi(), samples_of(samples), y, x});
  }

  // Views that go one way, one run of them after the other.
  template <class T>
  void gather_all(const Box& samples, const at::Tensor& y, const at::Tensor& x) const {
    const std::int64_t last = samples.hi()[0], per_view = samples.extent(1) * samples.extent(2);
    for (std::int64_t v = samples.lo()[0]; v < last;) {
      const Way way = ways[static_cast<std::size_t>(v)];
      std::int64_t end = v + 1;
      while (end < last && ways[static_cast<std::size_t>(end)] == way) ++end;
      gather<T>(Box({v, samples.lo()[1], samples.lo()[2]}, {end, samples.hi()[1], samples.hi()[2]}),
                y.const_data_ptr<T>() + (v - samples.lo()[0]) * per_view, x.data_ptr<T>(), way);
      v = end;
    }
  }

  void check(const at::Tensor& t, std::int64_t numbers, const char* what) const {
    TESSERA_EXPECT(t.is_contiguous() && t.numel() == numbers && t.dtype() == options.dtype() &&
                       t.device().type() == options.device().type(),
                   what, " of a projector has ", t.numel(), " numbers instead of ", numbers,
                   ", gaps, or another type or device");
  }
};

RayProjector::RayProjector(std::shared_ptr<const ProjectionGeometry> geometry, const Box& block,
                           at::TensorOptions options, std::function<void*()> stream)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.geometry = std::move(geometry);
  s.block = block;
  s.options = options;
  s.stream = std::move(stream);
  s.space = ray_space(*s.geometry);
  TESSERA_EXPECT(s.geometry->volume.box().contains(block), "a projector of block ", block,
                 " (it leaves the volume ", s.geometry->volume.box(), ")");
  if (block.empty()) return;
  s.set_views();
  // Strides across a line's main axis have 31 bits, but for that from slice to slice where lines keep to one.
  const std::int64_t row =
      (block.extent(2) + 2) * (slices_inside(block) ? pixel_of(block) : block.extent(1) + 2);
  TESSERA_VALIDATE(row <= std::numeric_limits<std::int32_t>::max() || (!slices_inside(block) && s.level),
                   "a block of ", block.extent(0), " x ", block.extent(1), " x ", block.extent(2),
                   " voxels (a GPU's indices of a slice have 31 bits) cut it, on more ranks");
  s.make_copies();
}

RayProjector::~RayProjector() = default;
RayProjector::RayProjector(RayProjector&&) noexcept = default;
RayProjector& RayProjector::operator=(RayProjector&&) noexcept = default;

void RayProjector::load(const at::Tensor& x) {
  const State& s = *state_;
  if (s.block.empty()) return;
  s.check(x, s.block.pixels(), "the block");
  const at::Tensor voxels = x.view({s.block.extent(0), s.block.extent(1), s.block.extent(2)});
  for (int which = 0; which < (slices_inside(s.block) ? 1 : 2); ++which) s.inside(which).copy_(voxels);
}

void RayProjector::project(const Box& samples, const at::Tensor& y, ProjectorInto into) const {
  const State& s = *state_;
  s.check(y, samples.pixels(), "the samples");
  if (samples.empty()) return;
  if (s.block.empty()) {
    if (into == ProjectorInto::replace) y.zero_();
    return;
  }
  if (s.options.dtype() == at::kDouble)
    s.project<double>(samples, y, into);
  else
    s.project<float>(samples, y, into);
}

void RayProjector::gather(const Box& samples, const at::Tensor& y, const at::Tensor& x) const {
  const State& s = *state_;
  if (samples.empty() || s.block.empty()) return;
  s.check(y, samples.pixels(), "the samples");
  s.check(x, s.block.pixels(), "the block");
  if (s.options.dtype() == at::kDouble)
    s.gather_all<double>(samples, y, x);
  else
    s.gather_all<float>(samples, y, x);
}

std::int64_t ray_projector_bytes(const ProjectionGeometry& g, const Box& block, std::int64_t samples,
                                 std::int64_t element_bytes) {
  const auto views = static_cast<std::int64_t>(g.views.size());
  const std::int64_t a_column = 4 * 8 + 4;
  // The copy of samples has some rows of zeros, about a run before and behind.
  const std::int64_t rows = std::max<std::int64_t>(1, g.rows);
  const std::int64_t padded = samples / rows * (rows + 2 * (g.volume.size[0] == 1 ? 1 : rays::kLevelRun));
  return (copy_numbers(block) + padded) * element_bytes +
         views * (g.columns * a_column + static_cast<std::int64_t>(sizeof(View)));
}

}  // namespace tessera
