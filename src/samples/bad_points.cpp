// SPDX-License-Identifier: BSD-3-Clause
// Single samples and spots that are no part of a picture.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "bad_samples.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

// By measurement, of 18 photographs and of star fields 1 to 3 samples wide, with noise (docs/your_data.md).
constexpr double kUsual = 0.277;     // median of Stand::size, of white noise of 1
constexpr double kFloor = 0.5;       // of the level of all: the least that a place is taken to have
constexpr double kOut = 5.2;         // noise levels of the place
constexpr double kOverOthers = 2.5;  // times what others stand out there
constexpr std::size_t kOthers = 4;   // the so manieth largest of them
constexpr std::int64_t kNear9 = 4;   // 9 x 9 samples around one
constexpr double kBeside = 0.05, kBesideNoise = 1.5;    // what the four beside it have of its height, at most
constexpr double kAnyBeside = 0.35, kAnyNoise = 3;      // and each of the eight
constexpr double kOverTexture = 8, kMostOthers = 0.75;  // times the sharpness that most around have
constexpr std::size_t kRayOthers = 9;                   // a track has so many of its own
constexpr double kRayOverOthers = 5;
constexpr double kHit = 5, kGrow = 3;  // noise levels of cosmic rays, and of what touches them

// How a sample stands out of the means of two on both sides of it: least over the directions in which both count, up, down
// and either way.
struct Stand {
  double up = 0, down = 0, size = 0;
  bool known = false;
};
Stand stand(const NearPlane& p, std::int64_t r, std::int64_t c) {
  Stand out{.up = INFINITY, .down = INFINITY, .size = INFINITY};
  const auto v = static_cast<double>(p.values[p.at(r, c)]);
  for (const auto& [a, b] :
       {std::pair(p.at(r, c - 1), p.at(r, c + 1)), std::pair(p.at(r - 1, c), p.at(r + 1, c)),
        std::pair(p.at(r - 1, c - 1), p.at(r + 1, c + 1)),
        std::pair(p.at(r - 1, c + 1), p.at(r + 1, c - 1))}) {
    if (p.counted[a] == 0 || p.counted[b] == 0) continue;
    const double d = v - (static_cast<double>(p.values[a]) + static_cast<double>(p.values[b])) / 2;
    out.up = std::min(out.up, d);
    out.down = std::min(out.down, -d);
    out.size = std::min(out.size, std::abs(d));
    out.known = true;
  }
  return out;
}

// visit(row, column, index) of the samples that count from `from` to `to` steps around one, without it.
template <class Visit>
void around(const NearPlane& p, std::int64_t r, std::int64_t c, std::int64_t from, std::int64_t to,
            const Visit& visit) {
  for (std::int64_t y = r - to; y <= r + to; ++y)
    for (std::int64_t x = c - to; x <= c + to; ++x) {
      if (std::max(std::abs(y - r), std::abs(x - c)) < from) continue;
      if (const std::size_t k = p.at(y, x); p.counted[k] != 0) visit(y, x, k);
    }
}

double middle_of(std::vector<double>& v) {
  if (v.empty()) return 0;
  const auto place = v.begin() + std::ssize(v) / 2;
  std::nth_element(v.begin(), place, v.end());
  return *place;
}

// Noise of the 9 x 9 around a place, and what the others there stand out.
struct Around {
  double scale = 0, others = 0;
};
Around around_place(const NearPlane& p, const std::vector<Stand>& stands, std::int64_t r, std::int64_t c,
                    double floor, std::vector<double>& room, std::vector<double>& most,
                    std::size_t rank = kOthers) {
  room.clear();
  most.clear();
  around(p, r, c, 1, kNear9, [&](std::int64_t, std::int64_t, std::size_t k) {
    if (!stands[k].known) return;
    room.push_back(stands[k].size);
    most.push_back(std::max(stands[k].up, stands[k].down));
  });
  Around out{.scale = std::max(middle_of(room) / kUsual, floor)};
  if (most.size() >= rank) {
    const auto place = most.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(most.begin(), place, most.end(), std::greater<>());
    out.others = std::max(0.0, *place);
  }
  return out;
}

// Of the samples within `beyond` of the block.
std::vector<Stand> all_stands(const NearPlane& p, std::int64_t beyond) {
  std::vector<Stand> out(p.values.size());
  const Box& b = p.block;
  const Index3 &lo = p.around.lo(), &hi = p.around.hi();
  for (std::int64_t r = std::max(b.lo()[1] - beyond, lo[1] + 1); r < std::min(b.hi()[1] + beyond, hi[1] - 1);
       ++r)
    for (std::int64_t c = std::max(b.lo()[2] - beyond, lo[2] + 1);
         c < std::min(b.hi()[2] + beyond, hi[2] - 1); ++c)
      if (const std::size_t k = p.at(r, c); p.counted[k] != 0) out[k] = stand(p, r, c);
  return out;
}

// Whether those beside it are as if it were not there: of a star they are not. `sign` -1: of a dark one.
bool alone(const NearPlane& p, std::int64_t r, std::int64_t c, double sign, double scale,
           std::vector<double>& room) {
  room.clear();
  const auto value = [&](std::size_t k) { return sign * static_cast<double>(p.values[k]); };
  around(p, r, c, 2, 2, [&](std::int64_t, std::int64_t, std::size_t k) { room.push_back(value(k)); });
  if (room.empty()) return false;
  const double ground = middle_of(room), height = value(p.at(r, c)) - ground;
  double four = 0, n = 0, most = -INFINITY;
  around(p, r, c, 1, 1, [&](std::int64_t y, std::int64_t x, std::size_t k) {
    most = std::max(most, value(k) - ground);
    if (y != r && x != c) return;
    four += value(k) - ground;
    n += 1;
  });
  return height > 0 && n > 0 && four / n < kBeside * height + kBesideNoise * scale &&
         most < kAnyBeside * height + kAnyNoise * scale;
}

// The median of those that count in a square around, with the sample itself.
double median_around(const NearPlane& p, std::int64_t r, std::int64_t c, std::int64_t reach,
                     std::vector<double>& room) {
  room.clear();
  around(p, r, c, 0, reach, [&](std::int64_t, std::int64_t, std::size_t k) {
    room.push_back(static_cast<double>(p.values[k]));
  });
  return middle_of(room);
}

// van Dokkum, Publ. Astron. Soc. Pacific 113 (2001) 1420: the Laplacian of the picture at twice the samples, where it is
// above 0, as means of 2 x 2. A single sample of height 1 has 2.
//
// L = mean over the four corners of max(0, 2 v - a - b)
double sharpness(const NearPlane& p, std::int64_t r, std::int64_t c, std::vector<double>& room) {
  const std::size_t here = p.at(r, c);
  if (p.counted[here] == 0) return 0;
  double ground = NAN;
  const auto beside = [&](std::int64_t y, std::int64_t x) {
    if (const std::size_t k = p.at(y, x); p.counted[k] != 0) return static_cast<double>(p.values[k]);
    if (std::isnan(ground)) ground = median_around(p, r, c, 2, room);
    return ground;
  };
  const double v = static_cast<double>(p.values[here]);
  const std::array<double, 2> rows{beside(r - 1, c), beside(r + 1, c)},
      columns{beside(r, c - 1), beside(r, c + 1)};
  double sum = 0;
  for (const double a : rows)
    for (const double b : columns) sum += std::max(0.0, 2 * v - a - b);
  return sum / 4;
}

// What is as fine as stars: median of 3 x 3 less that median's own of 7 x 7.
double fine_structure(const NearPlane& p, std::int64_t r, std::int64_t c, std::vector<double>& room) {
  std::vector<double> medians;
  around(p, r, c, 0, 3, [&](std::int64_t y, std::int64_t x, std::size_t) {
    medians.push_back(median_around(p, y, x, 1, room));
  });
  return median_around(p, r, c, 1, room) - middle_of(medians);
}

// Whether both sides of a sample are darker by half of `height` in two directions: of an edge one side never is. A side is
// the darker one of two samples, since a ray may be two wide.
bool both_sides_darker(const NearPlane& p, std::int64_t r, std::int64_t c, double height) {
  const auto v = static_cast<double>(p.values[p.at(r, c)]);
  int darker = 0;
  for (const auto& [dr, dc] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 1), std::pair(1, -1)}) {
    double most = -INFINITY;
    for (const std::int64_t sign : {-1, 1}) {
      double side = INFINITY;
      for (const std::int64_t far : {1, 2})
        if (const std::size_t k = p.at(r + sign * far * dr, c + sign * far * dc); p.counted[k] != 0)
          side = std::min(side, static_cast<double>(p.values[k]));
      most = std::max(most, side);  // one that does not count may be anything
    }
    darker += std::isfinite(most) && v - most > height / 2;
  }
  return darker >= 2;
}

// Whether most of the eight beside it are as dark as what is around: of a star they are not, of a ray's track they are.
bool most_beside_dark(const NearPlane& p, std::int64_t r, std::int64_t c, double scale,
                      std::vector<double>& room) {
  constexpr double kShare = 0.1, kNoises = 2;
  constexpr int kMostLit = 4;
  room.clear();
  around(p, r, c, 2, 2, [&](std::int64_t, std::int64_t, std::size_t k) {
    room.push_back(static_cast<double>(p.values[k]));
  });
  const double ground = middle_of(room), height = static_cast<double>(p.values[p.at(r, c)]) - ground;
  int lit = 0;
  around(p, r, c, 1, 1, [&](std::int64_t, std::int64_t, std::size_t k) {
    lit += static_cast<double>(p.values[k]) - ground > kShare * height + kNoises * scale;
  });
  return lit <= kMostLit;
}

// What most of the 7 x 7 around a place have of it.
double usual_sharpness(const NearPlane& p, const std::vector<float>& sharp, std::int64_t r, std::int64_t c,
                       std::vector<double>& room) {
  room.clear();
  around(p, r, c, 1, 3,
         [&](std::int64_t, std::int64_t, std::size_t k) { room.push_back(static_cast<double>(sharp[k])); });
  if (room.empty()) return INFINITY;
  const auto place =
      room.begin() + static_cast<std::ptrdiff_t>(kMostOthers * static_cast<double>(room.size()));
  std::nth_element(room.begin(), place, room.end());
  return *place;
}

}  // namespace

double detail_level(const NearPlanes& near, const Communicator& comm) {
  constexpr std::int64_t kEvery = 5;
  std::vector<float> sizes;
  for (std::int64_t ch = 0; ch < near.channels(); ++ch)
    for (std::int64_t z = 0; z < near.slices(); ++z) {
      const NearPlane p = near.plane(ch, z);
      for (std::int64_t r = p.block.lo()[1]; r < p.block.hi()[1]; ++r)
        for (std::int64_t c = p.block.lo()[2]; c < p.block.hi()[2]; ++c) {
          if ((r + 2 * c) % kEvery != 0 || p.counted.empty() || p.counted[p.at(r, c)] == 0) continue;
          if (const Stand s = stand(p, r, c); s.known) sizes.push_back(static_cast<float>(s.size));
        }
    }
  return static_cast<double>(median(sizes, comm)) / kUsual;
}

BadPoints bad_points(const NearPlanes& near, double level) {
  BadPoints out;
  const double floor = kFloor * level;
  std::vector<double> room, most;
  for (std::int64_t ch = 0; ch < near.channels(); ++ch)
    for (std::int64_t z = 0; z < near.slices(); ++z) {
      const NearPlane p = near.plane(ch, z);
      if (p.block.empty()) continue;
      const std::vector<Stand> stands = all_stands(p, kNear9);
      for (std::int64_t r = p.block.lo()[1]; r < p.block.hi()[1]; ++r)
        for (std::int64_t c = p.block.lo()[2]; c < p.block.hi()[2]; ++c) {
          const Stand& s = stands[p.at(r, c)];
          const double out_of = std::max(s.up, s.down);
          if (!s.known || out_of <= kOut * floor || out_of <= 0) continue;
          const Around a = around_place(p, stands, r, c, floor, room, most);
          if (out_of <= kOut * a.scale || out_of <= kOverOthers * a.others) continue;
          const bool hot = s.up > s.down;
          if (alone(p, r, c, hot ? 1 : -1, a.scale, room))
            (hot ? out.hot : out.dead).push_back({ch, z, r, c});
        }
    }
  return out;
}

std::vector<BadPlace> cosmic_rays(const NearPlanes& near, double level, double contrast) {
  std::vector<BadPlace> out;
  const double floor = std::max(kFloor * level, 1e-12);
  std::vector<double> room, most;
  for (std::int64_t ch = 0; ch < near.channels(); ++ch)
    for (std::int64_t z = 0; z < near.slices(); ++z) {
      const NearPlane p = near.plane(ch, z);
      if (p.block.empty()) continue;
      const Box& b = p.block;
      const std::vector<Stand> stands = all_stands(p, kNear9 + 1);
      std::vector<float> sharp(p.values.size());
      const auto within = [&](std::int64_t r, std::int64_t c) {
        return r >= p.frame.lo()[1] && c >= p.frame.lo()[2] && r < p.frame.hi()[1] && c < p.frame.hi()[2];
      };
      for (std::int64_t r = b.lo()[1] - 5; r < b.hi()[1] + 5; ++r)
        for (std::int64_t c = b.lo()[2] - 5; c < b.hi()[2] + 5; ++c)
          if (within(r, c)) sharp[p.at(r, c)] = static_cast<float>(sharpness(p, r, c, room) / 2);
      // Above its own median, which a source that is smooth has as well; in noise levels of the place.
      const auto signal = [&](std::int64_t r, std::int64_t c, double scale) {
        room.clear();
        around(p, r, c, 0, 2, [&](std::int64_t, std::int64_t, std::size_t k) {
          room.push_back(static_cast<double>(sharp[k]));
        });
        const double usual = middle_of(room);
        return (static_cast<double>(sharp[p.at(r, c)]) - usual) / scale;
      };
      std::vector<char> hit(p.values.size()), joined(p.values.size());
      const auto each = [&](std::int64_t rim, const auto& look) {
        for (std::int64_t r = b.lo()[1] - rim; r < b.hi()[1] + rim; ++r)
          for (std::int64_t c = b.lo()[2] - rim; c < b.hi()[2] + rim; ++c)
            if (within(r, c) && p.counted[p.at(r, c)] != 0) look(r, c, p.at(r, c));
      };
      each(1, [&](std::int64_t r, std::int64_t c, std::size_t k) {
        if (static_cast<double>(sharp[k]) < kHit * floor) return;
        const Around place = around_place(p, stands, r, c, floor, room, most, kRayOthers);
        const double scale = place.scale;
        if (signal(r, c, scale) < kHit) return;
        const auto here = static_cast<double>(sharp[k]);
        const double usual = usual_sharpness(p, sharp, r, c, room);
        if (here < kOverTexture * usual || here < kRayOverOthers * place.others ||
            !both_sides_darker(p, r, c, here) ||
            (contrast >= kStarContrast && !most_beside_dark(p, r, c, scale, room)))
          return;
        hit[k] = 2 * here > contrast * std::max(fine_structure(p, r, c, room), 0.01 * scale);
      });
      each(0, [&](std::int64_t r, std::int64_t c, std::size_t k) {
        bool take = hit[k] != 0, beside = false;
        if (!take)
          around(p, r, c, 1, 1,
                 [&](std::int64_t, std::int64_t, std::size_t n) { beside = beside || hit[n] != 0; });
        if (beside && static_cast<double>(sharp[k]) >= kGrow * floor)
          take = static_cast<double>(sharp[k]) >= kOverTexture / 2 * usual_sharpness(p, sharp, r, c, room) &&
                 signal(r, c, around_place(p, stands, r, c, floor, room, most).scale) >= kGrow;
        if (take) out.push_back({ch, z, r, c});
      });
    }
  return out;
}

double hit_contrast(const at::Tensor& taps) {
  constexpr double kMargin2 = 1.5, kLeast = 1, kMost = kStarContrast, kBright = 0.1;
  const at::Tensor t = taps.to(at::kCPU, at::kDouble).mean(at::IntArrayRef{0, 1}).contiguous();
  const std::int64_t rows = t.size(0), columns = t.size(1), rim = 5;
  NearPlane p{.frame = Box::image2d(rows + 2 * rim, columns + 2 * rim),
              .block = {},
              .around = {},
              .values = {},
              .counted = {}};
  p.block = p.around = p.frame;
  p.values.assign(static_cast<std::size_t>(p.frame.pixels()), 0.0F);
  p.counted.assign(p.values.size(), 1);
  const double* const v = t.const_data_ptr<double>();
  double largest = 0, out = 0;
  for (std::int64_t k = 0; k < rows * columns; ++k) {
    p.values[p.at(rim + k / columns, rim + k % columns)] = static_cast<float>(v[k]);
    largest = std::max(largest, v[k]);
  }
  std::vector<double> room;
  for (std::int64_t r = rim; r < rim + rows; ++r)
    for (std::int64_t c = rim; c < rim + columns; ++c) {
      if (static_cast<double>(p.values[p.at(r, c)]) < kBright * largest) continue;
      const double fine = std::max(fine_structure(p, r, c, room), 1e-3 * largest);
      out = std::max(out, sharpness(p, r, c, room) / fine);
    }
  return std::clamp(kMargin2 * out, kLeast, kMost);
}

}  // namespace tessera
