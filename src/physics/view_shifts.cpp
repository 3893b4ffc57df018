// SPDX-License-Identifier: BSD-3-Clause
// Views that stand aside, each by itself: moved onto the projections of their common picture.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>

#include "tessera/physics/alignment.hpp"
#include "tessera/physics/projector.hpp"
#include "tessera/physics/ramp_filter.hpp"

namespace tessera {
namespace {

ProjectionGeometry moved(const ProjectionGeometry& g, const std::vector<double>& shifts) {
  ProjectionGeometry out = g;
  for (std::size_t k = 0; k < shifts.size(); ++k)
    for (std::size_t d = 0; d < 3; ++d) out.views[k].center[d] += shifts[k] * g.views[k].u[d];
  return out;
}

// What the picture of all views looks like from where they stand, (views, columns).
at::Tensor reprojected(const std::shared_ptr<const ProjectionGeometry>& g, const at::Tensor& row,
                       const DirectReconstruction& direct) {
  const at::Tensor y = row.unsqueeze(1).to(at::kFloat);
  const at::Tensor q = ramp_filtered(y * direct_weights(*g, direct, g->samples()).to(at::kFloat),
                                     direct.pitch, RampWindow::hann, direct.sharp)
                           .contiguous();
  at::Tensor x = at::zeros({1, g->volume.size[1], g->volume.size[2]}, at::kFloat);
  backproject_pixels(*g, g->volume.box(), g->samples(), q, x);
  x.clamp_min_(0);
  at::Tensor p = at::zeros({row.size(0), 1, row.size(1)}, at::kFloat);
  Projector projector(g, g->volume.box());
  projector.load(x.const_data_ptr<float>());
  projector.project(g->samples(), p.mutable_data_ptr<float>());
  return p.squeeze(1).to(at::kDouble);
}

// Less what a constant, cosine and sine of the views' angles say of them, as an axis or an object elsewhere would do.
void without_sine(std::vector<double>& shifts, const std::vector<double>& angles) {
  double normal[3][4] = {};
  for (std::size_t k = 0; k < shifts.size(); ++k) {
    const double row[4] = {1, std::cos(angles[k]), std::sin(angles[k]), shifts[k]};
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j) normal[i][j] += row[i] * row[j];
  }
  for (int i = 0; i < 3; ++i) {
    if (!(normal[i][i] > 1e-9)) return;
    for (int j = 0; j < 3; ++j) {
      if (j == i) continue;
      const double part = normal[j][i] / normal[i][i];
      for (int k = i; k < 4; ++k) normal[j][k] -= part * normal[i][k];
    }
  }
  for (std::size_t k = 0; k < shifts.size(); ++k)
    shifts[k] -= normal[0][3] / normal[0][0] + normal[1][3] / normal[1][1] * std::cos(angles[k]) +
                 normal[2][3] / normal[2][2] * std::sin(angles[k]);
}

class Settling {
 public:
  Settling(const at::Tensor& row, const ProjectionGeometry& geometry)
      : row_(row), geometry_(geometry), how_(direct_reconstruction(geometry)) {
    for (const ProjectionView& view : geometry.views) angles_.push_back(std::atan2(-view.u[1], view.u[0]));
  }
  // Moves views onto their projections, about an axis so many columns right of where it is said to; squares of what is
  // left. `error`: of one view.
  double settle(std::vector<double>& shifts, double axis, int rounds, double& error) const {
    constexpr double kStill = 0.005, kEager = 1.3, kStride = 1.5;
    const std::int64_t views = row_.size(0), columns = row_.size(1);
    std::vector<double> way(shifts.size());
    double left = 0;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> all = shifts;
      for (double& shift : all) shift -= axis;
      const at::Tensor p =
          reprojected(std::make_shared<const ProjectionGeometry>(moved(geometry_, all)), row_, how_)
              .contiguous();
      const double *const seen = row_.const_data_ptr<double>(), *const drawn = p.const_data_ptr<double>();
      double errors = 0;
      left = 0;
      for (std::int64_t k = 0; k < views; ++k) {
        // The view is its projection moved by d, of another level: y = (1 + a) p - d p', least squares.
        double pp = 0, ps = 0, ss = 0, ep = 0, es = 0, ee = 0;
        for (std::int64_t i = 1; i + 1 < columns; ++i) {
          const double at = drawn[k * columns + i],
                       slope = 0.5 * (drawn[k * columns + i + 1] - drawn[k * columns + i - 1]),
                       e = seen[k * columns + i] - at;
          pp += at * at;
          ps += at * slope;
          ss += slope * slope;
          ep += e * at;
          es += e * slope;
          ee += e * e;
        }
        const double det = pp * ss - ps * ps, d = det > 0 ? -(es * pp - ep * ps) / det : 0;
        // A detector whose middle goes right by s sees what lies there s columns earlier.
        way[static_cast<std::size_t>(k)] = std::clamp(-kEager * d, -kStride, kStride);
        if (ss > 0) errors += ee / static_cast<double>(columns) / ss / static_cast<double>(views);
        left += ee;
      }
      without_sine(way, angles_);
      double most = 0;
      for (std::size_t k = 0; k < way.size(); ++k) {
        shifts[k] += way[k];
        most = std::max(most, std::abs(way[k]));
      }
      error = std::sqrt(errors);
      if (most < kStill) break;
    }
    return left;
  }

 private:
  const at::Tensor& row_;
  const ProjectionGeometry& geometry_;
  DirectReconstruction how_;
  std::vector<double> angles_;
};

}  // namespace

ViewShifts find_view_shifts(const at::Tensor& row, const ProjectionGeometry& geometry, bool axis) {
  constexpr int kRounds = 30, kSome = 12;
  ViewShifts out;
  out.columns.assign(static_cast<std::size_t>(row.size(0)), 0);
  if (const std::string why = refuse_direct(geometry); !why.empty()) {
    out.problem = "it " + why;
    return out;
  }
  const Settling views(row, geometry);
  // The axis that leaves the least, by parabolas.
  if (axis) views.settle(out.columns, 0, kSome, out.error);
  for (const double h : {0.8, 0.4, 0.2}) {
    if (!axis) break;
    std::array<double, 3> left{};
    for (int k = 0; k < 3; ++k) {
      std::vector<double> columns = out.columns;
      left[static_cast<std::size_t>(k)] = views.settle(columns, out.axis + (k - 1) * h, kSome, out.error);
    }
    const double bend = left[0] - 2 * left[1] + left[2];
    if (bend > 0) out.axis += std::clamp(0.5 * h * (left[0] - left[2]) / bend, -h, h);
  }
  views.settle(out.columns, out.axis, kRounds, out.error);
  return out;
}

}  // namespace tessera
