// SPDX-License-Identifier: BSD-3-Clause
#include "volume_scenes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace tessera::training {
namespace {

using Vector = std::array<double, 3>;  // (z, y, x), in pixels
using Color = std::array<float, 3>;    // of channels

constexpr double kTurn = 2 * std::numbers::pi;

double between(Draws& draws, double low, double high) { return low + (high - low) * draws.uniform(); }
double between_logs(Draws& draws, double low, double high) {
  return low * std::pow(high / low, draws.uniform());
}
bool chance(Draws& draws, double share) { return draws.uniform() < share; }

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/// Evenly on the sphere.
Vector direction(Draws& draws) {
  const double z = between(draws, -1, 1), angle = kTurn * draws.uniform(), r = std::sqrt(1 - z * z);
  return {z, r * std::cos(angle), r * std::sin(angle)};
}

/// Three axes of a rectangular frame, evenly over all turns.
std::array<Vector, 3> frame(Draws& draws) {
  const Vector a = direction(draws);
  Vector b = direction(draws);
  const double along = dot(a, b), length = std::sqrt(std::max(1e-12, 1 - along * along));
  for (std::size_t i = 0; i < 3; ++i) b[i] = (b[i] - along * a[i]) / length;
  return {a, b, {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]}};
}

float clamp01(float v) { return std::clamp(v, 0.0F, 1.0F); }

/// Values at the voxels with a mean of 0 and a standard deviation of 1, about.
struct Waves {
  std::vector<float> values;
  double steepness = 1;  // usual slope, per pixel
};

/// An opaque thing. Its own coordinates are u = axes * (p - center).
struct Thing {
  Vector center{}, half{};
  std::array<Vector, 3> axes{};
  bool box = false;
  double wall = 0;              // 0: full
  const Waves* fold = nullptr;  // where it is above `level`, and nowhere else
  double level = 0;
  Color color{};
  Vector slope{};  // of brightness, along its axes
  const Waves* texture = nullptr;
  float contrast = 0;  // of the texture
};

class Canvas {
 public:
  Canvas(std::int64_t channels, std::int64_t side, Draws& draws);
  void things();
  void threads(bool in_the_dark);
  void cells();
  void background(double texture);
  /// Blur, and the contrast of the whole.
  void develop(float* out);

 private:
  Waves waves();
  Color color(double light);
  Vector somewhere(double margin);
  void look(Thing& thing, double size);
  void paint(const Thing& thing);
  double inside(const Thing& thing, const Vector& u, const Vector& lengths) const;
  void spot(const Vector& center, double width, float weight, std::vector<float>& mask) const;
  void blend(const std::vector<float>& mask, const Color& color, bool added);
  void blur(std::size_t axis, double sigma);
  std::int64_t at(std::int64_t z, std::int64_t y, std::int64_t x) const { return (z * n_ + y) * n_ + x; }

  Draws& draws_;
  std::int64_t channels_, n_, voxels_;
  double slice_ = 1;  // from slice to slice, pixels
  double edge_ = 1;   // width of edges, voxels
  std::array<Waves, 2> waves_;
  std::vector<float> values_;
};

Canvas::Canvas(std::int64_t channels, std::int64_t side, Draws& draws)
    : draws_(draws), channels_(channels), n_(side), voxels_(side * side * side) {
  if (chance(draws_, 0.3)) slice_ = between(draws_, 1.5, 5);
  if (chance(draws_, 0.5)) edge_ = 0.1;  // a voxel is in or out, as in segmentations and sharp scans
  for (Waves& waves : waves_) waves = this->waves();
  values_.assign(static_cast<std::size_t>(channels_ * voxels_), 0.0F);
}

Waves Canvas::waves() {
  const auto count =
      chance(draws_, 0.15) ? 1 + draws_.below(3) : static_cast<std::int64_t>(between_logs(draws_, 8, 40));
  const double shortest = between_logs(draws_, 3, 12), longest = shortest * between_logs(draws_, 1.5, 16);
  const double power = between(draws_, 0, 1.6);  // of the amplitude, in the wavelength
  Waves w{std::vector<float>(static_cast<std::size_t>(voxels_), 0.0F), 0};
  double energy = 1e-12, slopes = 0;
  std::array<std::vector<float>, 3> cosine, sine;
  for (std::size_t axis = 0; axis < 3; ++axis) cosine[axis].resize(n_), sine[axis].resize(n_);
  for (std::int64_t i = 0; i < count; ++i) {
    const double length = between_logs(draws_, shortest, longest), phase = kTurn * draws_.uniform();
    Vector k = direction(draws_);
    for (double& component : k) component *= kTurn / length;
    k[0] *= slice_;
    const double amplitude = std::pow(length / shortest, power);
    if (std::abs(k[0]) > 0.8 * std::numbers::pi) continue;  // finer than the slices can hold
    energy += 0.5 * amplitude * amplitude;
    slopes += 0.5 * amplitude * amplitude * dot(k, k);
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (std::int64_t p = 0; p < n_; ++p) {
        const double turn = k[axis] * static_cast<double>(p) + (axis == 0 ? phase : 0.0);
        cosine[axis][p] = static_cast<float>(std::cos(turn));
        sine[axis][p] = static_cast<float>(std::sin(turn));
      }
    for (std::int64_t z = 0; z < n_; ++z)
      for (std::int64_t y = 0; y < n_; ++y) {
        const auto a = static_cast<float>(amplitude);
        const float real = a * (cosine[0][z] * cosine[1][y] - sine[0][z] * sine[1][y]);
        const float imaginary = a * (sine[0][z] * cosine[1][y] + cosine[0][z] * sine[1][y]);
        float* row = w.values.data() + at(z, y, 0);
        for (std::int64_t x = 0; x < n_; ++x) row[x] += real * cosine[2][x] - imaginary * sine[2][x];
      }
  }
  const auto scale = static_cast<float>(1 / std::sqrt(energy));
  for (float& v : w.values) v *= scale;
  w.steepness = std::sqrt(std::max(1e-6, slopes / energy));
  return w;
}

Color Canvas::color(double light) {
  Color c{};
  for (std::int64_t i = 0; i < channels_; ++i)
    c[i] = static_cast<float>(light + (channels_ == 1 ? 0.0 : 0.4 * (draws_.uniform() - 0.5)));
  return c;
}

Vector Canvas::somewhere(double margin) {
  const auto side = static_cast<double>(n_);
  return {between(draws_, -margin, side * slice_ + margin), between(draws_, -margin, side + margin),
          between(draws_, -margin, side + margin)};
}

void Canvas::background(double texture) {
  const Color base = color(draws_.uniform());
  const Vector slope = direction(draws_);
  const double steep = chance(draws_, 0.5) ? between(draws_, 0, 0.5) / static_cast<double>(n_) : 0.0;
  const float contrast = static_cast<float>(texture * between(draws_, 0.05, 0.3));
  for (std::int64_t c = 0; c < channels_; ++c)
    for (std::int64_t z = 0; z < n_; ++z)
      for (std::int64_t y = 0; y < n_; ++y)
        for (std::int64_t x = 0; x < n_; ++x) {
          const Vector p{static_cast<double>(z), static_cast<double>(y), static_cast<double>(x)};
          values_[c * voxels_ + at(z, y, x)] =
              base[c] + static_cast<float>(steep * dot(slope, p)) + contrast * waves_[0].values[at(z, y, x)];
        }
}

// Color, slope and texture of a thing.
void Canvas::look(Thing& thing, double size) {
  thing.color = color(draws_.uniform());
  if (chance(draws_, 0.5))
    for (double& slope : thing.slope) slope = between(draws_, -0.3, 0.3) / size;
  if (chance(draws_, 0.45)) {
    thing.texture = &waves_[static_cast<std::size_t>(draws_.below(2))];
    thing.contrast = static_cast<float>(between_logs(draws_, 0.02, 0.25));
  }
}

void Canvas::things() {
  const auto side = static_cast<double>(n_);
  const double smallest = between_logs(draws_, 1, 5), largest = 1.2 * side;
  const double power = between(draws_, 1, 3);  // sizes have the density r^(-power - 1)
  const auto count = static_cast<std::int64_t>(between_logs(draws_, 12, 600));
  for (std::int64_t i = 0; i < count; ++i) {
    const double u = draws_.uniform();
    const double size =
        std::pow(std::pow(smallest, -power) + u * (std::pow(largest, -power) - std::pow(smallest, -power)),
                 -1 / power);
    Thing t;
    t.axes = frame(draws_);
    t.center = somewhere(size);
    t.half = {size, size, size};
    const double kind = draws_.uniform();
    if (kind < 0.25) {  // a ball
    } else if (kind < 0.5) {
      for (double& half : t.half) half *= between(draws_, 0.3, 1);
    } else if (kind < 0.6) {  // a shell
      t.wall = std::min(between_logs(draws_, 1, 4), 0.6 * size);
    } else if (kind < 0.78) {
      t.box = true;
      for (double& half : t.half) half *= between(draws_, 0.2, 0.8);
    } else if (kind < 0.84) {  // a sheet
      t.box = true;
      t.half = {between_logs(draws_, 0.5, 4), 4 * side * slice_, 4 * side * slice_};
      if (chance(draws_, 0.3)) t.half[0] = side;  // half of the space, about
    } else if (kind < 0.9) {                      // a rod
      t.box = chance(draws_, 0.3);
      t.half = {between_logs(draws_, 0.6, 3), 0, 3 * size};
      t.half[1] = t.half[0];
    } else {  // folds
      t.fold = &waves_[static_cast<std::size_t>(draws_.below(2))];
      t.level = between(draws_, -0.8, 0.8);
      for (double& half : t.half) half = std::max(2 * half, 0.4 * side);
    }
    look(t, t.half[2] > size ? side : size);
    paint(t);
  }
}

// Distance in voxels to the surface, positive inside, to first order. `lengths`: of its axes as the voxels count.
double Canvas::inside(const Thing& t, const Vector& u, const Vector& lengths) const {
  double depth = 0;
  if (t.box) {
    depth = (t.half[0] - std::abs(u[0])) / lengths[0];
    for (std::size_t i = 1; i < 3; ++i) depth = std::min(depth, (t.half[i] - std::abs(u[i])) / lengths[i]);
  } else {
    const Vector v{u[0] / t.half[0], u[1] / t.half[1], u[2] / t.half[2]};
    const double q = std::sqrt(dot(v, v)) + 1e-9;
    Vector g{};
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t axis = 0; axis < 3; ++axis) g[axis] += v[i] / t.half[i] * t.axes[i][axis];
    g[0] *= slice_;
    depth = (1 - q) * q / (std::sqrt(dot(g, g)) + 1e-9);
  }
  return t.wall > 0 ? std::min(depth, t.wall - depth) : depth;
}

void Canvas::paint(const Thing& t) {
  const double reach =
      t.box ? std::sqrt(dot(t.half, t.half)) : *std::max_element(t.half.begin(), t.half.end());
  Index3 begin{}, end{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const double step = axis == 0 ? slice_ : 1.0, last = static_cast<double>(n_);
    begin[axis] = static_cast<std::int64_t>(std::clamp((t.center[axis] - reach) / step - 1, 0.0, last));
    end[axis] = static_cast<std::int64_t>(std::clamp((t.center[axis] + reach) / step + 2, 0.0, last));
  }
  Vector lengths{};
  for (std::size_t i = 0; i < 3; ++i) {
    const Vector a{t.axes[i][0] * slice_, t.axes[i][1], t.axes[i][2]};
    lengths[i] = std::sqrt(dot(a, a));
  }
  for (std::int64_t z = begin[0]; z < end[0]; ++z)
    for (std::int64_t y = begin[1]; y < end[1]; ++y)
      for (std::int64_t x = begin[2]; x < end[2]; ++x) {
        const Vector p{static_cast<double>(z) * slice_ - t.center[0], static_cast<double>(y) - t.center[1],
                       static_cast<double>(x) - t.center[2]};
        const Vector u{dot(t.axes[0], p), dot(t.axes[1], p), dot(t.axes[2], p)};
        double depth = inside(t, u, lengths);
        const std::int64_t place = at(z, y, x);
        if (t.fold) depth = std::min(depth, (t.fold->values[place] - t.level) / t.fold->steepness);
        if (depth <= -0.5) continue;
        const float share = clamp01(static_cast<float>(depth / edge_) + 0.5F);
        const float more =
            static_cast<float>(dot(t.slope, u)) + (t.texture ? t.contrast * t.texture->values[place] : 0.0F);
        for (std::int64_t c = 0; c < channels_; ++c) {
          float& value = values_[c * voxels_ + place];
          value += share * (t.color[c] + more - value);
        }
      }
}

// A soft ball: mask = max(mask, weight * exp(-r^2 / (2 width^2))).
void Canvas::spot(const Vector& center, double width, float weight, std::vector<float>& mask) const {
  std::array<std::vector<float>, 3> falls;
  Index3 begin{}, end{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const double step = axis == 0 ? slice_ : 1.0, last = static_cast<double>(n_);
    begin[axis] = static_cast<std::int64_t>(std::clamp((center[axis] - 3 * width) / step, 0.0, last));
    end[axis] = static_cast<std::int64_t>(std::clamp((center[axis] + 3 * width) / step + 1, 0.0, last));
    for (std::int64_t i = begin[axis]; i < end[axis]; ++i) {
      const double distance = (static_cast<double>(i) * step - center[axis]) / width;
      falls[axis].push_back(static_cast<float>(std::exp(-0.5 * distance * distance)));
    }
  }
  for (std::int64_t z = begin[0]; z < end[0]; ++z)
    for (std::int64_t y = begin[1]; y < end[1]; ++y) {
      const float of_row = weight * falls[0][z - begin[0]] * falls[1][y - begin[1]];
      float* row = mask.data() + at(z, y, 0);
      for (std::int64_t x = begin[2]; x < end[2]; ++x)
        row[x] = std::max(row[x], of_row * falls[2][x - begin[2]]);
    }
}

void Canvas::blend(const std::vector<float>& mask, const Color& color, bool added) {
  for (std::int64_t c = 0; c < channels_; ++c)
    for (std::int64_t i = 0; i < voxels_; ++i) {
      float& value = values_[c * voxels_ + i];
      value += mask[i] * (added ? color[c] : color[c] - value);
    }
}

// Curved threads and blobs, in a dark, uneven background or over what is there.
void Canvas::threads(bool in_the_dark) {
  if (in_the_dark) {
    const Color dark = color(between(draws_, 0, 0.2));
    const auto uneven = static_cast<float>(chance(draws_, 0.6) ? between(draws_, 0, 0.08) : 0.0);
    for (std::int64_t c = 0; c < channels_; ++c)
      for (std::int64_t i = 0; i < voxels_; ++i)
        values_[c * voxels_ + i] = dark[c] + uneven * waves_[0].values[i];
  }
  const double usual = between_logs(draws_, 0.5, 2);
  std::vector<float> mask(static_cast<std::size_t>(voxels_), 0.0F);
  for (std::int64_t thread = 1 + draws_.below(16); thread > 0; --thread) {
    Vector p = somewhere(2), v = direction(draws_);
    const double width = usual * between(draws_, 0.7, 1.4), bend = between(draws_, 0.02, 0.25);
    const auto weight = static_cast<float>(between(draws_, 0.3, 1));
    const double step = std::max(0.5, 0.7 * width);
    for (auto left = static_cast<std::int64_t>(2 * static_cast<double>(n_) / step); left > 0; --left) {
      const Vector turned = direction(draws_);
      for (std::size_t i = 0; i < 3; ++i) v[i] += bend * turned[i];
      const double length = std::sqrt(dot(v, v)) + 1e-9;
      for (std::size_t i = 0; i < 3; ++i) v[i] /= length, p[i] += step * v[i];
      spot(p, width, weight, mask);
    }
  }
  for (std::int64_t blob = chance(draws_, 0.6) ? draws_.below(30) : 0; blob > 0; --blob) {
    const Vector center = somewhere(2);
    const double width = between_logs(draws_, 0.6, 5);
    spot(center, width, static_cast<float>(between(draws_, 0.2, 1)), mask);
  }
  blend(mask, color(in_the_dark ? between(draws_, 0.3, 1) : draws_.uniform()), in_the_dark);
}

// Cells, each with a gray and perhaps a texture of its own, and walls between them.
void Canvas::cells() {
  const auto count = static_cast<std::size_t>(between_logs(draws_, 4, 70));
  std::vector<Vector> seeds(count);
  std::vector<Color> colors(count);
  std::vector<float> contrasts(count, 0.0F);
  const double light = draws_.uniform(), spread = between(draws_, 0.1, 1);
  for (std::size_t i = 0; i < count; ++i) {
    seeds[i] = somewhere(3);
    colors[i] = color(light + spread * (draws_.uniform() - 0.5));
    if (chance(draws_, 0.4)) contrasts[i] = static_cast<float>(between(draws_, 0.02, 0.15));
  }
  const double wall = chance(draws_, 0.6) ? between(draws_, 0.8, 3) : 0.0;
  const Color of_wall = color(draws_.uniform());
  for (std::int64_t z = 0; z < n_; ++z)
    for (std::int64_t y = 0; y < n_; ++y)
      for (std::int64_t x = 0; x < n_; ++x) {
        std::array<double, 2> nearest{1e30, 1e30};
        std::array<std::size_t, 2> which{0, 0};
        for (std::size_t i = 0; i < count; ++i) {
          const Vector d{static_cast<double>(z) * slice_ - seeds[i][0], static_cast<double>(y) - seeds[i][1],
                         static_cast<double>(x) - seeds[i][2]};
          const double square = dot(d, d);
          if (square >= nearest[1]) continue;
          nearest[1] = square, which[1] = i;
          if (nearest[1] < nearest[0]) std::swap(nearest[0], nearest[1]), std::swap(which[0], which[1]);
        }
        const Vector &a = seeds[which[0]], &b = seeds[which[1]];
        const Vector apart{b[0] - a[0], b[1] - a[1], b[2] - a[2]};
        const double distance = (nearest[1] - nearest[0]) / (2 * std::sqrt(dot(apart, apart)) + 1e-9);
        const float own = clamp01(static_cast<float>(distance / edge_) + 0.5F);
        const float closed =
            wall > 0 ? clamp01(static_cast<float>((0.5 * wall - distance) / edge_) + 0.5F) : 0.0F;
        const std::int64_t place = at(z, y, x);
        for (std::int64_t c = 0; c < channels_; ++c) {
          const auto value = [&](std::size_t i) {
            return colors[i][c] + contrasts[i] * waves_[1].values[place];
          };
          const float cell = own * value(which[0]) + (1 - own) * value(which[1]);
          values_[c * voxels_ + place] = cell + closed * (of_wall[c] - cell);
        }
      }
}

// Along one axis, sigma in voxels; the ends are continued.
void Canvas::blur(std::size_t axis, double sigma) {
  const auto reach = static_cast<std::int64_t>(std::ceil(3 * sigma));
  std::vector<float> kernel, line(static_cast<std::size_t>(n_ + 2 * reach));
  float sum = 0;
  for (std::int64_t i = -reach; i <= reach; ++i) {
    const double distance = static_cast<double>(i) / sigma;
    kernel.push_back(static_cast<float>(std::exp(-0.5 * distance * distance)));
    sum += kernel.back();
  }
  const std::int64_t stride = axis == 0 ? n_ * n_ : axis == 1 ? n_ : 1;
  for (std::int64_t c = 0; c < channels_; ++c)
    for (std::int64_t i = 0; i < voxels_; ++i) {
      if (i / stride % n_ != 0) continue;  // the first of a line
      float* first = values_.data() + c * voxels_ + i;
      for (std::int64_t p = 0; p < n_ + 2 * reach; ++p)
        line[p] = first[std::clamp<std::int64_t>(p - reach, 0, n_ - 1) * stride];
      for (std::int64_t p = 0; p < n_; ++p) {
        float value = 0;
        for (std::int64_t k = 0; k <= 2 * reach; ++k) value += kernel[k] * line[p + k];
        first[p * stride] = value / sum;
      }
    }
}

void Canvas::develop(float* out) {
  const bool hard = edge_ < 1;
  if (!hard && chance(draws_, 0.65)) {
    const double sigma = between_logs(draws_, 0.4, 2.2);  // from sharp optics to means of many heads
    for (const std::size_t axis : {0, 1, 2}) blur(axis, axis == 0 ? std::max(0.3, sigma / slice_) : sigma);
  }
  if (!hard && chance(draws_, slice_ > 1 ? 0.6 : 0.15)) blur(0, between(draws_, 0.4, slice_ > 1 ? 1.0 : 2.5));
  const bool inverted = chance(draws_, 0.2), reduced = chance(draws_, 0.4);
  const auto low = static_cast<float>(reduced ? between(draws_, 0, 0.4) : 0.0);
  const auto high = static_cast<float>(reduced ? between(draws_, low + 0.2, 1.0) : 1.0);
  const auto power = static_cast<float>(reduced ? between_logs(draws_, 0.6, 1.8) : 1.0);
  for (std::int64_t i = 0; i < channels_ * voxels_; ++i) {
    const float value = std::pow(clamp01(inverted ? 1 - values_[i] : values_[i]), power);
    out[i] = low + (high - low) * value;
  }
}

}  // namespace

void drawn_volume(std::int64_t channels, std::int64_t side, Draws& draws, float* out) {
  const double kind = draws.uniform();
  Canvas canvas(channels, side, draws);
  if (kind < 0.2) {
    canvas.threads(/*in_the_dark=*/true);
  } else if (kind < 0.35) {
    canvas.cells();
  } else {
    canvas.background(chance(draws, 0.6) || kind >= 0.92 ? 1 : 0);
    if (kind < 0.92) canvas.things();
  }
  if (kind >= 0.2 && chance(draws, 0.15)) canvas.threads(/*in_the_dark=*/false);
  canvas.develop(out);
}

}  // namespace tessera::training
