// SPDX-License-Identifier: BSD-3-Clause
#include "job/scan_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/io/image_format.hpp"
#include "tessera/io/image_sink.hpp"

namespace tessera {
namespace {

using Color = std::array<float, 3>;
using Place = std::array<double, 2>;

constexpr Color kInk{0.25F, 0.25F, 0.25F}, kRay{0.6F, 0.6F, 0.6F}, kSource{0.85F, 0.37F, 0.0F},
    kLast{1.0F, 0.78F, 0.35F}, kDetector{0.12F, 0.35F, 0.75F}, kAxis{0.7F, 0.1F, 0.5F},
    kAll{0.66F, 0.87F, 0.64F}, kSome{0.99F, 0.93F, 0.6F}, kNone{0.96F, 0.7F, 0.66F};
constexpr int kPanel = 480, kLegend = 64, kMargin = 24;

// Rows of three dots from the top, an octal digit each, of 0 to 9 and A to Z.
constexpr std::array<int, 36> kGlyphs{075557, 026227, 061247, 061216, 055711, 074616, 074757, 071122, 075757,
                                      075717, 025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755,
                                      072227, 011152, 055655, 044447, 057755, 065555, 025552, 065644, 025573,
                                      065655, 034216, 072222, 055557, 055522, 055775, 055255, 055222, 071247};

class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), values_(static_cast<std::size_t>(3 * width * height), 1.0F) {}

  void blend(int x, int y, const Color& color, double part) {
    if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
    for (std::size_t c = 0; c < 3; ++c) {
      float& v = values_[(c * static_cast<std::size_t>(height_) + static_cast<std::size_t>(y)) *
                             static_cast<std::size_t>(width_) +
                         static_cast<std::size_t>(x)];
      v += static_cast<float>(part) * (color[c] - v);
    }
  }
  void line(const Place& a, const Place& b, double thick, const Color& color, double part = 1) {
    const double dx = b[0] - a[0], dy = b[1] - a[1], square = dx * dx + dy * dy, reach = thick / 2 + 1;
    const auto range = [&](std::size_t d, int end) {
      return std::pair(std::max(0, static_cast<int>(std::min(a[d], b[d]) - reach)),
                       std::min(end - 1, static_cast<int>(std::max(a[d], b[d]) + reach)));
    };
    const auto [left, right] = range(0, width_);
    const auto [top, bottom] = range(1, height_);
    for (int y = top; y <= bottom; ++y)
      for (int x = left; x <= right; ++x) {
        const double t = square > 0 ? std::clamp(((x - a[0]) * dx + (y - a[1]) * dy) / square, 0.0, 1.0) : 0;
        const double off = std::hypot(x - a[0] - t * dx, y - a[1] - t * dy);
        blend(x, y, color, part * std::clamp(thick / 2 + 0.5 - off, 0.0, 1.0));
      }
  }
  void dot(const Place& at, double radius, const Color& color) { line(at, at, 2 * radius, color); }
  void rectangle(int x0, int y0, int wide, int high, const Color& color) {
    for (int y = y0; y < y0 + high; ++y)
      for (int x = x0; x < x0 + wide; ++x) blend(x, y, color, 1);
  }
  // Capitals, digits, dots and signs, twice enlarged; returns where the next would begin.
  int text(int x, int y, std::string_view words) {
    for (const char c : words) {
      const int glyph = c >= '0' && c <= '9'   ? kGlyphs[static_cast<std::size_t>(c - '0')]
                        : c >= 'A' && c <= 'Z' ? kGlyphs[static_cast<std::size_t>(c - 'A' + 10)]
                        : c == '.'             ? 000002
                        : c == '-'             ? 000700
                        : c == '+'             ? 002720
                                               : 0;
      for (int bit = 0; bit < 15; ++bit)
        if (glyph >> (14 - bit) & 1) rectangle(x + 2 * (bit % 3), y + 2 * (bit / 3), 2, 2, kInk);
      x += 8;
    }
    return x;
  }
  void write(const std::string& path) const {
    const auto sink = create_image(path, {.space = ImageSpace(Box::image2d(height_, width_), 3), .bits = 8});
    std::vector<float> row(static_cast<std::size_t>(3 * width_));
    for (int y = 0; y < height_; ++y) {
      for (int c = 0; c < 3; ++c)
        std::copy_n(values_.begin() + (static_cast<std::int64_t>(c) * height_ + y) * width_, width_,
                    row.begin() + static_cast<std::int64_t>(c) * width_);
      sink->write(Box({0, y, 0}, {1, y + 1, width_}), row.data());
    }
    sink->finish();
  }

 private:
  int width_, height_;
  std::vector<float> values_;
};

Vector3 along(const Vector3& a, double t, const Vector3& b) {
  return {a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]};
}
double length(const Vector3& a) { return std::hypot(a[0], a[1], a[2]); }

// A view as it is drawn: of a parallel beam the direction stands for a source, and the detector outside of the image.
struct Shown {
  Vector3 source;
  std::array<Vector3, 4> corners, far;  // far: where a corner's ray comes from
};

Shown shown(const ProjectionGeometry& g, const ProjectionView& view, double away) {
  Shown out{view.source, {}, {}};
  Vector3 center = view.center;
  Vector3 way = view.source;
  if (g.beam == Beam::parallel) {
    way = along({}, 1 / length(way), way);
    const double at =
        (center[0] - g.axis[0]) * way[0] + (center[1] - g.axis[1]) * way[1] + center[2] * way[2];
    if (std::abs(at) < away) center = along(center, -away - at, way);
    out.source = along(g.axis, 1.1 * away, way);
  }
  for (std::size_t k = 0; k < 4; ++k) {
    const double across = (k == 0 || k == 3 ? -0.5 : 0.5) * static_cast<double>(g.columns),
                 down = (k < 2 ? -0.5 : 0.5) * static_cast<double>(g.rows);
    out.corners[k] = along(along(center, across, view.u), down, view.v);
    out.far[k] = g.beam == Beam::parallel ? along(out.corners[k], 2.1 * away, way) : view.source;
    if (g.beam == Beam::fan) out.far[k][2] = out.corners[k][2];
  }
  return out;
}

// A picture's plane through the axis: right and down in it; and how the whole is put onto a panel.
class Panel {
 public:
  Panel(const ProjectionGeometry& g, const Vector3& right, const Vector3& down, int left, double inside,
        bool shorter)
      : g_(g), right_(right), down_(down), left_(left), inside_(inside), shorter_(shorter) {}

  void see(const Vector3& p) {
    const Place at = flat(p);
    for (std::size_t d = 0; d < 2; ++d) {
      low_[d] = std::min(low_[d], at[d]);
      high_[d] = std::max(high_[d], at[d]);
    }
  }
  double span() const { return std::max(high_[0] - low_[0], high_[1] - low_[1]); }
  void scale(double pixels) { scale_ = pixels; }
  Place place(const Vector3& p) const {
    const Place at = flat(p);
    return {left_ + 0.5 * kPanel + scale_ * (at[0] - 0.5 * (low_[0] + high_[0])),
            0.5 * kPanel + scale_ * (at[1] - 0.5 * (low_[1] + high_[1]))};
  }
  // Of a pixel within the image, where nothing is drawn shorter.
  Vector3 point(double x, double y) const {
    const double a = (x - left_ - 0.5 * kPanel) / scale_ + 0.5 * (low_[0] + high_[0]),
                 b = (y - 0.5 * kPanel) / scale_ + 0.5 * (low_[1] + high_[1]);
    return along(along(g_.axis, a, right_), b, down_);
  }
  void path(Canvas& canvas, const Vector3& a, const Vector3& b, double thick, const Color& color,
            double part = 1) const {
    const int pieces = shorter_ ? 64 : 1;
    for (int k = 0; k < pieces; ++k) {
      const auto at = [&](int i) {
        const double t = static_cast<double>(i) / pieces;
        return place({a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])});
      };
      canvas.line(at(k), at(k + 1), thick, color, part);
    }
  }
  int left() const { return left_; }

 private:
  Place flat(const Vector3& p) const {
    const Vector3 off{p[0] - g_.axis[0], p[1] - g_.axis[1], p[2]};
    const double away = length(off),
                 part = shorter_ && away > inside_ ? inside_ * (1 + std::log(away / inside_)) / away : 1;
    const auto dot = [&](const Vector3& d) { return part * (off[0] * d[0] + off[1] * d[1] + off[2] * d[2]); };
    return {dot(right_), dot(down_)};
  }
  const ProjectionGeometry& g_;
  Vector3 right_, down_;
  int left_;
  double inside_;
  bool shorter_;
  Place low_{1e300, 1e300}, high_{-1e300, -1e300};
  double scale_ = 1;
};

std::vector<std::int64_t> some_views(const ProjectionGeometry& g, std::int64_t most) {
  std::vector<std::int64_t> out;
  const std::int64_t n = std::ssize(g.views), count = std::min(n, most);
  for (std::int64_t k = 0; k < count; ++k) out.push_back(k * n / count);
  return out;
}

Vector3 half_sides(const ProjectionGeometry& g) {
  Vector3 half{};
  for (std::size_t d = 0; d < 3; ++d)
    half[d] = 0.5 * g.volume.voxel[d] * static_cast<double>(g.volume.size[2 - d]);
  return half;
}

// What of the plane's part in the image is seen, by blocks of pixels.
void paint_seen(Canvas& canvas, const Panel& panel, const ProjectionGeometry& g) {
  constexpr int kBlock = 3;
  const Vector3 half = half_sides(g);
  const std::vector<std::int64_t> views = some_views(g, 60);
  for (int y = 0; y < kPanel; y += kBlock)
    for (int x = panel.left(); x < panel.left() + kPanel; x += kBlock) {
      const Vector3 p = panel.point(x + 0.5 * kBlock, y + 0.5 * kBlock);
      if (std::abs(p[0]) > half[0] || std::abs(p[1]) > half[1] || std::abs(p[2]) > half[2]) continue;
      std::int64_t seen = 0;
      for (const std::int64_t v : views) {
        const auto [column, row] = project_point(g, v, p);
        seen += column > -0.5 && column < static_cast<double>(g.columns) - 0.5 &&
                (g.volume.size[0] == 1 || (row > -0.5 && row < static_cast<double>(g.rows) - 0.5));
      }
      canvas.rectangle(x, y, kBlock, kBlock, seen == std::ssize(views) ? kAll : seen > 0 ? kSome : kNone);
    }
}

void paint_views(Canvas& canvas, const Panel& panel, const ProjectionGeometry& g, double away) {
  for (const std::int64_t v : some_views(g, 24)) {
    const Shown view = shown(g, g.views[static_cast<std::size_t>(v)], away);
    for (std::size_t k = 0; k < 4; ++k)
      panel.path(canvas, view.corners[k], view.corners[(k + 1) % 4], 1, kDetector, v == 0 ? 0 : 0.25);
  }
  const Shown first = shown(g, g.views.front(), away);
  for (std::size_t k = 0; k < 4; ++k) {
    panel.path(canvas, first.far[k], first.corners[k], 1, kRay);
    panel.path(canvas, first.corners[k], first.corners[(k + 1) % 4], 3, kDetector);
  }
  for (const std::int64_t v : some_views(g, 720)) {
    const double part =
        std::ssize(g.views) > 1 ? static_cast<double>(v) / static_cast<double>(g.views.size() - 1) : 0;
    Color color{};
    for (std::size_t c = 0; c < 3; ++c)
      color[c] = kSource[c] + static_cast<float>(part) * (kLast[c] - kSource[c]);
    canvas.dot(panel.place(shown(g, g.views[static_cast<std::size_t>(v)], away).source), 2, color);
  }
  canvas.dot(panel.place(first.source), 5, kSource);
}

void paint_panel(Canvas& canvas, const Panel& panel, const ProjectionGeometry& g, double away, bool top) {
  paint_seen(canvas, panel, g);
  const Vector3 half = half_sides(g);
  const auto corner = [&](int k) {
    return Vector3{k & 1 ? half[0] : -half[0], k & 2 ? half[1] : -half[1], k & 4 ? half[2] : -half[2]};
  };
  for (int a = 0; a < 8; ++a)
    for (int bit = 1; bit < 8; bit *= 2)
      if (!(a & bit)) panel.path(canvas, corner(a), corner(a | bit), 1, kInk);
  paint_views(canvas, panel, g, away);
  if (top) {
    const Place at = panel.place(g.axis);
    canvas.line({at[0] - 6, at[1]}, {at[0] + 6, at[1]}, 2, kAxis);
    canvas.line({at[0], at[1] - 6}, {at[0], at[1] + 6}, 2, kAxis);
  } else {
    const double high = std::max(1.3 * half[2], 0.4 * std::hypot(half[0], half[1]));
    for (int k = 0; k < 10; ++k) {
      const auto at = [&](double part) { return Vector3{g.axis[0], g.axis[1], high * (part / 5 - 1)}; };
      panel.path(canvas, at(k), at(k + 0.6), 2, kAxis);
    }
  }
}

void paint_legend(Canvas& canvas, const ProjectionGeometry& g, double scale, bool shorter) {
  canvas.text(10, 10, "FROM ABOVE");
  canvas.text(kPanel + 10, 10, "FROM THE SIDE");
  const int first = kPanel + 8, second = kPanel + 30;
  const auto area = [&](int x, const Color& color, std::string_view words) {
    canvas.rectangle(x, first, 12, 12, color);
    return canvas.text(x + 18, first + 1, words) + 20;
  };
  int x = area(10, kAll, "SEEN BY ALL VIEWS");
  x = area(x, kSome, "BY SOME");
  x = area(x, kNone, "BY NONE");
  const auto mark = [&](const Color& color, std::string_view words) {
    canvas.rectangle(x, first + 4, 12, 4, color);
    x = canvas.text(x + 18, first + 1, words) + 20;
  };
  canvas.dot({x + 6.0, first + 6.0}, 5, kSource);
  x = canvas.text(x + 18, first + 1, g.beam == Beam::parallel ? "DIRECTION OF RAYS" : "SOURCE") + 20;
  mark(kDetector, "DETECTOR");
  mark(kAxis, "AXIS");
  const double most = 100 / scale, power = std::pow(10, std::floor(std::log10(most))),
               bar = power * (most >= 5 * power   ? 5
                              : most >= 2 * power ? 2
                                                  : 1);
  canvas.line({10, second + 6.0}, {10 + bar * scale, second + 6.0}, 3, kInk);
  x = canvas.text(static_cast<int>(10 + bar * scale) + 10, second + 1, fmt::format("{:.6g}", bar)) + 20;
  canvas.text(x, second + 1,
              shorter ? "FIRST VIEW IN FULL   NOT TO SCALE OUTSIDE OF THE IMAGE" : "FIRST VIEW IN FULL");
}

}  // namespace

void draw_scan(const std::string& path, const ProjectionGeometry& g) {
  constexpr double kFar = 8;
  const Vector3 half = half_sides(g);
  const double inside =
                   1.05 * length({half[0] + std::abs(g.axis[0]), half[1] + std::abs(g.axis[1]), half[2]}),
               away = 1.3 * inside;
  double most = inside;
  std::vector<Vector3> all;
  for (const ProjectionView& view : g.views) {
    const Shown seen = shown(g, view, away);
    all.push_back(seen.source);
    all.insert(all.end(), seen.corners.begin(), seen.corners.end());
  }
  for (int k = 0; k < 8; ++k)
    all.push_back({k & 1 ? half[0] : -half[0], k & 2 ? half[1] : -half[1], k & 4 ? half[2] : -half[2]});
  for (const Vector3& p : all) most = std::max(most, length({p[0] - g.axis[0], p[1] - g.axis[1], p[2]}));
  const bool shorter = most > kFar * inside;

  const ProjectionView& first = g.views.front();
  Vector3 aside{first.source[0], first.source[1], 0};  // to the side where the first rays come from: left
  if (g.beam != Beam::parallel) aside = {aside[0] - g.axis[0], aside[1] - g.axis[1], 0};
  aside =
      length(aside) > 1e-6 * length(first.source) ? along({}, -1 / length(aside), aside) : Vector3{1, 0, 0};
  Panel top(g, {1, 0, 0}, {0, 1, 0}, 0, inside, shorter), side(g, aside, {0, 0, 1}, kPanel, inside, shorter);
  for (const Vector3& p : all) {
    top.see(p);
    side.see(p);
  }
  const double scale = (kPanel - 2 * kMargin) / std::max(top.span(), side.span());
  top.scale(scale);
  side.scale(scale);
  Canvas canvas(2 * kPanel, kPanel + kLegend);
  paint_panel(canvas, top, g, away, true);
  paint_panel(canvas, side, g, away, false);
  canvas.line({kPanel, 0}, {kPanel, kPanel - 1.0}, 1, kRay);
  paint_legend(canvas, g, scale, shorter);
  canvas.write(path);
}

}  // namespace tessera
