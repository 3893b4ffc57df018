// SPDX-License-Identifier: BSD-3-Clause
// What a scan is and sees, in words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "job/tomography.hpp"
#include "tessera/physics/ramp_filter.hpp"
#include "tessera/physics/scan_coverage.hpp"
#include "tessera/physics/upright_detector.hpp"

namespace tessera {
namespace {

double length(const Vector3& a) { return std::hypot(a[0], a[1], a[2]); }

// The least and the largest angle, degrees; a view is less than half a turn from the one before.
std::array<double, 2> angle_range(const ProjectionGeometry& g) {
  std::array<double, 2> range{};
  double last = 0;
  for (std::size_t k = 0; k < g.views.size(); ++k) {
    double angle = std::atan2(-g.views[k].u[1], g.views[k].u[0]) * 180 / std::numbers::pi + 0.0;  // and no -0
    if (k > 0) angle += 360 * std::round((last - angle) / 360);
    range =
        k == 0 ? std::array{angle, angle} : std::array{std::min(range[0], angle), std::max(range[1], angle)};
    last = angle;
  }
  return range;
}

double degrees(double sine) { return std::asin(std::clamp(sine, -1.0, 1.0)) * 180 / std::numbers::pi; }

// What of a geometry is more than a circle with an upright detector, and whether it can be inverted in one pass.
std::vector<std::string> beyond_circle(const ProjectionGeometry& g) {
  std::vector<std::string> out;
  const ProjectionView& first = g.views.front();
  std::vector<std::string> parts;
  if (g.beam == Beam::parallel && first.source[2] != 0)
    parts.push_back(fmt::format("rays lean by {:.4g} degrees out of the slices (laminography)",
                                degrees(std::abs(first.source[2]) / length(first.source))));
  const auto [low, high] = std::minmax_element(
      g.views.begin(), g.views.end(), [](const auto& a, const auto& b) { return a.source[2] < b.source[2]; });
  if (g.beam == Beam::cone && (low->source[2] != 0 || high->source[2] != 0))
    parts.push_back(
        high->source[2] - low->source[2] > 1e-9 * length(first.source)
            ? fmt::format("the source goes from {:.4g} to {:.4g} along the axis (a helix, or like one)",
                          low->source[2], high->source[2])
            : fmt::format("the source stands {:.4g} {} the middle slice", std::abs(low->source[2]),
                          low->source[2] > 0 ? "behind" : "before"));
  if (!is_upright(g))
    parts.push_back(
        fmt::format("the detector is turned: in the first view its rows run down by {:.3g} degrees, and the "
                    "steps between them "
                    "lean by {:.3g} degrees off the axis",
                    degrees(first.u[2] / length(first.u)),
                    degrees(std::hypot(first.v[0], first.v[1]) / length(first.v))));
  if (g.axis != Vector3{})
    parts.push_back(fmt::format("the axis passes the image {:.4g} down and {:.4g} right of its middle",
                                g.axis[1] / g.volume.voxel[1], g.axis[0] / g.volume.voxel[0]));
  if (length(first.v) > 0 && std::abs(length(first.v) / length(first.u) - 1) > 1e-6 && g.rows > 1)
    parts.push_back(fmt::format("rows {:.6g} apart", length(first.v)));
  std::string line;
  for (const std::string& part : parts) line += (line.empty() ? "" : "; ") + part;
  if (!line.empty()) out.push_back(std::move(line));
  if (const std::string why = refuse_direct(g); !why.empty()) out.push_back("not for fbp: it " + why);
  return out;
}

}  // namespace

std::vector<std::string> in_words(const ProjectionGeometry& g) {
  const std::array<double, 2> range = angle_range(g);
  const auto [least, most] = std::minmax_element(
      g.views.begin(), g.views.end(), [](const auto& a, const auto& b) { return length(a.u) < length(b.u); });
  std::string scan =
      fmt::format("{} beam, {} view{} from {:.6g} to {:.6g} degrees, detector of {} x {} of pitch {:.6g}",
                  word(g.beam), g.views.size(), g.views.size() == 1 ? "" : "s", range[0], range[1], g.rows,
                  g.columns, length(least->u));
  if (length(most->u) - length(least->u) > 1e-6 * length(most->u))
    scan += fmt::format(" to {:.6g}", length(most->u));
  if (g.beam != Beam::parallel)
    scan += fmt::format(", magnification {:.4g}: {:.4g} at the axis", magnification(g, 0),
                        length(least->u) / magnification(g, 0));
  const FieldOfView field = field_of_view(g);
  const Coverage covered = coverage(g);
  const bool picture = g.volume.size[0] == 1;
  std::string seen =
      field.radius > 0
          ? fmt::format("all views see a disk of radius {:.4g} around the axis",
                        field.radius / g.volume.voxel[0]) +
                (picture ? ""
                         : fmt::format(" and a height of {:.4g} there", field.height / g.volume.voxel[2])) +
                " (voxels)"
          : "not all views see the axis";
  const auto percent = [](double share) {
    return share > 0 && share < 0.005 ? std::string("less than 1") : fmt::format("{:.0f}", 100 * share);
  };
  if (covered.partly > 0)
    seen += fmt::format("; about {} % of the {} lie outside of some views", percent(covered.partly),
                        picture ? "pixels" : "voxels");
  if (covered.unseen > 0) seen += fmt::format(", {} % of all", percent(covered.unseen));
  std::vector<std::string> lines{std::move(scan), std::move(seen)};
  for (std::string& more : beyond_circle(g)) lines.push_back(std::move(more));
  return lines;
}

}  // namespace tessera
