// SPDX-License-Identifier: BSD-3-Clause
// Measured projections: from frames to line integrals.
#include "tessera/samples/scan.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/fft_fftfreq.h>
#include <ATen/ops/fft_irfft2.h>
#include <ATen/ops/fft_rfft2.h>
#include <ATen/ops/fft_rfftfreq.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

#include "scan_specks.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/physics/ramp_filter.hpp"
#include "tessera/physics/transmission.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kFramesHeld = 8 << 20;  // samples of frames that are held at once

// The median of values, in place.
double median_of(std::span<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// The mean of those that are near to their median: within 5 deviations, by what a few of them scatter or as photons do.
double settled_mean(std::span<double> values, std::vector<double>& room) {
  constexpr double kFar = 8, kPhotons = 5, kCounts = 50, kPart = 0.05;
  const auto n = static_cast<double>(values.size());
  if (values.size() < 3) return std::accumulate(values.begin(), values.end(), 0.0) / n;
  const double middle = median_of(values), size = std::abs(middle);
  room.assign(values.begin(), values.end());
  for (double& v : room) v = std::abs(v - middle);
  const double far =
      std::max(kFar * median_of(room), size > kCounts ? kPhotons * std::sqrt(size) : kPart * size);
  double sum = 0, count = 0;
  for (const double v : values) {
    if (!(std::abs(v - middle) <= far)) continue;
    sum += v;
    count += 1;
  }
  return count > 0 ? sum / count : middle;
}

// One frame of all that are meant, of these rows and columns; what is saturated in it is no number. Many frames are
// averaged in some groups first, so that they are read a few times only.
std::vector<double> mean_frame(const FrameStack& stack, const Box& box, double saturated) {
  constexpr std::int64_t kGroups = 16;
  const std::int64_t rows = box.extent(1), columns = box.extent(2), frames = std::ssize(stack.frames),
                     groups = std::min(frames, kGroups);
  std::vector<double> out(static_cast<std::size_t>(rows * columns)), all, frame, pixel, room;
  FrameReader reader(stack);
  const std::int64_t some = std::clamp<std::int64_t>(kFramesHeld / (groups * columns), 1, rows);
  for (std::int64_t row = 0; row < rows; row += some) {
    const std::int64_t end = std::min(row + some, rows), pixels = (end - row) * columns;
    all.assign(static_cast<std::size_t>(groups * pixels), 0);
    frame.resize(static_cast<std::size_t>(pixels));
    for (std::int64_t k = 0; k < frames; ++k) {
      beat();
      reader.read({{k, box.lo()[1] + row, box.lo()[2]}, {k + 1, box.lo()[1] + end, box.hi()[2]}},
                  frame.data());
      const std::int64_t group = k % groups, in_group = (frames - group + groups - 1) / groups;
      double* sum = all.data() + group * pixels;
      for (const double v : frame) *sum++ += v / static_cast<double>(in_group);
    }
    for (std::int64_t i = 0; i < pixels; ++i) {
      pixel.clear();
      for (std::int64_t g = 0; g < groups; ++g)
        if (const double v = all[static_cast<std::size_t>(g * pixels + i)]; std::isfinite(v))
          pixel.push_back(v);
      const double mean = pixel.empty() ? NAN : settled_mean(pixel, room);
      out[static_cast<std::size_t>(row * columns + i)] = mean < saturated ? mean : NAN;
    }
  }
  return out;
}

}  // namespace

Box Scan::samples() const {
  const std::int64_t views = std::ssize(file.views.frames), columns = file.views.columns;
  return rows == 1 ? Box::image2d(views, columns) : Box({0, 0, 0}, {views, rows, columns});
}

Box Scan::image() const {
  const std::int64_t wide = side > 0 ? side : file.views.columns;
  return {{0, 0, 0}, {rows, wide, wide}};
}

Box Scan::in_stack(const Box& samples) const {
  if (samples.empty()) return samples;
  const Index3 &lo = samples.lo(), &hi = samples.hi();
  if (rows == 1) return {{lo[1], first_row, lo[2]}, {hi[1], first_row + 1, hi[2]}};
  return samples.shift({0, first_row, 0});
}

std::vector<FrameStack> flat_groups(const ScanFile& file) {
  std::vector<FrameStack> groups;
  const FrameStack& all = file.flats;
  if (all.empty()) return groups;
  std::vector<std::int64_t> views = file.views.frames;
  std::sort(views.begin(), views.end());
  for (std::size_t k = 0; k < all.frames.size(); ++k) {
    // An array of its own says nothing of when they were taken.
    const bool apart = k == 0 || (all.path == file.views.path &&
                                  std::lower_bound(views.begin(), views.end(), all.frames[k - 1]) !=
                                      std::lower_bound(views.begin(), views.end(), all.frames[k]));
    if (apart) {
      groups.push_back(all);
      groups.back().frames.clear();
    }
    groups.back().frames.push_back(all.frames[k]);
  }
  return groups;
}

ScanReader::ScanReader(const Scan& scan) : scan_(scan), views_(scan.file.views) {
  if (!scan.file.weights.empty()) weights_.emplace(scan.file.weights);
  std::vector<FrameStack> groups = flat_groups(scan.file);
  if (!scan.beam_changed && groups.size() > 1) groups = {scan.file.flats};
  for (FrameStack& group : groups) {
    const double sum = std::accumulate(group.frames.begin(), group.frames.end(), 0.0);
    flats_.push_back({sum / static_cast<double>(group.frames.size()), std::move(group), {}});
  }
}

namespace {

// Whether a sample lies far below the curve through its neighbors where those rise or fall.
bool dips(std::span<const double> y, std::span<const double> weights, std::int64_t i, double far) {
  constexpr double kStep = 1.5;
  if (i < 2 || i + 2 >= std::ssize(y)) return false;
  const auto at = [&](std::int64_t k) { return y[static_cast<std::size_t>(i + k)]; };
  for (const std::int64_t k : {-2, -1, 1, 2})
    if (!(weights[static_cast<std::size_t>(i + k)] > 0)) return false;
  const bool rises = at(-2) <= at(-1) && at(-1) <= at(1) && at(1) <= at(2),
             falls = at(-2) >= at(-1) && at(-1) >= at(1) && at(1) >= at(2);
  const double low = (4 * (at(-1) + at(1)) - at(-2) - at(2)) / 6 - at(0);
  return (rises || falls) && low > far && low > kStep * std::abs(at(1) - at(-1));
}

// Samples of a row that are far brighter than their neighbors, whose line integrals are far less: by 8 deviations of
// what their weights say, and by 3 times the neighbors' own range without the brightest and the darkest; beside another
// one by twice as much, without the brightest two.
std::int64_t leave_out_zingers(std::span<double> y, std::span<double> weights, double noise) {
  constexpr std::int64_t kNear = 3;
  constexpr double kDeviations = 8, kRanges = 3, kLeast = 0.02, kBrighter = -0.3;
  const std::int64_t n = std::ssize(y);
  std::vector<std::int64_t> found;
  std::vector<double> near;
  near.reserve(2 * kNear);
  for (std::int64_t i = 0; i < n; ++i) {
    near.clear();
    double weight = 0;
    for (std::int64_t k = std::max<std::int64_t>(0, i - kNear); k <= std::min(n - 1, i + kNear); ++k)
      if (const auto at = static_cast<std::size_t>(k); k != i && weights[at] > 0) {
        near.push_back(y[at]);
        weight = weight > 0 ? std::min(weight, weights[at]) : weights[at];
      }
    const auto at = static_cast<std::size_t>(i);
    const std::size_t count = near.size();
    if (count < 5 || !(weights[at] > 0)) continue;
    std::sort(near.begin(), near.end());
    const double low = (near[count / 2] + near[(count - 1) / 2]) / 2 - y[at];
    const double deviation = noise / std::sqrt(weight), high = near[count - 2];
    const bool one = low > kDeviations * deviation && low > kRanges * (high - near[1]),
               some = low > 2 * kDeviations * deviation && low > 2 * kRanges * (high - near[2]);
    // Brighter than the beam itself, and than the air beside it.
    const bool beyond =
        y[at] < kBrighter && near[1] - y[at] > std::max(2 * kDeviations * deviation, -kBrighter);
    if ((low > kLeast && (one || some)) || beyond || dips(y, weights, i, 2 * kDeviations * deviation))
      found.push_back(i);
  }
  for (const std::int64_t i : found)
    y[static_cast<std::size_t>(i)] = weights[static_cast<std::size_t>(i)] = 0;
  return std::ssize(found);
}

}  // namespace

void ScanReader::to_line_integrals(const Box& box, ScanSamples& out, SilentSamples& silent) {
  const Box frame({0, box.lo()[1], box.lo()[2]}, {1, box.hi()[1], box.hi()[2]});
  const auto pixels = static_cast<std::size_t>(frame.pixels());
  if (frame != averaged_) {
    for (Flat& flat : flats_) flat.mean = mean_frame(flat.frames, frame, scan_.saturated);
    dark_ = scan_.file.darks.empty() ? std::vector<double>(pixels, 0.0)
                                     : mean_frame(scan_.file.darks, frame, scan_.saturated);
    averaged_ = frame;
  }
  for (double& v : out.y)
    if (v >= scan_.saturated) {
      v = NAN;
      ++silent.saturated;
      --silent.unlit;  // counted once more below
    }
  out.weights.resize(out.y.size());
  std::vector<double> between(flats_.empty() ? pixels : 0, 1.0);
  for (std::int64_t k = box.lo()[0]; k < box.hi()[0]; ++k) {
    const auto place = static_cast<double>(scan_.file.views.frames[static_cast<std::size_t>(k)]);
    const std::vector<double>* flat = flats_.empty() ? &between : &flats_[0].mean;
    for (std::size_t g = 1; g < flats_.size() && place > flats_[g - 1].place; ++g) {
      const Flat &before = flats_[g - 1], &after = flats_[g];
      const double share = std::min(1.0, (place - before.place) / (after.place - before.place));
      between.resize(pixels);
      for (std::size_t i = 0; i < pixels; ++i)
        between[i] = (1 - share) * before.mean[i] + share * after.mean[i];
      flat = &between;
    }
    const std::size_t from = static_cast<std::size_t>(k - box.lo()[0]) * pixels;
    const std::span<double> y = std::span(out.y).subspan(from, pixels),
                            w = std::span(out.weights).subspan(from, pixels);
    silent.unlit += line_integrals(y, *flat, dark_, w);
    const auto columns = static_cast<std::size_t>(box.extent(2));
    if (scan_.noise > 0)
      for (std::size_t row = 0; row < pixels; row += columns)
        silent.zingers += leave_out_zingers(y.subspan(row, columns), w.subspan(row, columns), scan_.noise);
  }
}

namespace {

// Of a frame's line integrals: what its share of the beam is without the rings of Fresnel that phases make. The frame is
// continued by its mirror images.
void without_phase(at::Tensor& y, const std::array<double, 2>& phase) {
  const std::int64_t rows = y.size(0), columns = y.size(1);
  const auto mirrored = [](const at::Tensor& t, std::int64_t axis) {
    return at::cat({t, t.flip({axis})}, axis);
  };
  const at::Tensor share = mirrored(mirrored(y.neg().exp_(), 0), 1);
  const at::Tensor down = at::fft_fftfreq(2 * rows, 1.0, at::kDouble).square_().mul_(phase[0]).unsqueeze(1),
                   across = at::fft_rfftfreq(2 * columns, 1.0, at::kDouble).square_().mul_(phase[1]);
  const at::Tensor clean =
      at::fft_irfft2(at::fft_rfft2(share).div_(down + across + 1), at::IntArrayRef{2 * rows, 2 * columns});
  y.copy_(clean.narrow(0, 0, rows).narrow(1, 0, columns).clamp_min(1e-12).log_().neg_());
}

// Line integrals by a polynomial of those measured, and what each then says.
void straighten(const std::vector<double>& c, ScanSamples& s) {
  for (std::size_t k = 0; k < s.y.size(); ++k) {
    double value = 0, slope = 0;  // by Horner's rule
    for (std::size_t n = c.size(); n-- > 0;) {
      slope = slope * s.y[k] + static_cast<double>(n + 1) * c[n];
      value = (value + c[n]) * s.y[k];
    }
    s.y[k] = value;
    if (k < s.weights.size()) s.weights[k] = slope != 0 ? s.weights[k] / (slope * slope) : 0;
  }
}

}  // namespace

ScanSamples ScanReader::measured(const Box& box, SilentSamples& silent) {
  ScanSamples out;
  out.y.resize(static_cast<std::size_t>(box.pixels()));
  views_.read(box, out.y.data());
  if (scan_.transmission) to_line_integrals(box, out, silent);
  const auto columns = static_cast<std::size_t>(box.extent(2));
  if (scan_.specks)
    for (std::size_t row = 0; row < out.y.size(); row += columns)
      for (const std::int64_t i :
           specks_in(std::span(out.y).subspan(row, columns), scan_.noise, scan_.peak)) {
        out.y[row + static_cast<std::size_t>(i)] = NAN;
        ++silent.specks;
      }
  return out;
}

ScanSamples ScanReader::retrieved(const Box& box, SilentSamples& silent) {
  const std::int64_t rows = scan_.file.views.rows, columns = scan_.file.views.columns;
  ScanSamples out;
  for (std::int64_t k = box.lo()[0]; k < box.hi()[0]; ++k) {
    SilentSamples whole;
    ScanSamples frame = measured({{k, 0, 0}, {k + 1, rows, columns}}, whole);
    const auto shape = {rows, columns};
    at::Tensor y = at::from_blob(frame.y.data(), shape, at::kDouble);
    interpolate_unweighted(y, at::from_blob(frame.weights.data(), shape, at::kDouble));
    without_phase(y, scan_.phase);
    for (std::int64_t row = box.lo()[1]; row < box.hi()[1]; ++row)
      for (std::int64_t column = box.lo()[2]; column < box.hi()[2]; ++column) {
        const auto at = static_cast<std::size_t>(row * columns + column);
        silent.unlit += !(frame.weights[at] > 0);
        out.y.push_back(frame.weights[at] > 0 ? frame.y[at] : 0);
        out.weights.push_back(frame.weights[at]);
      }
  }
  return out;
}

ScanSamples ScanReader::read(const Box& samples, SilentSamples& silent) {
  if (samples.empty()) return {};
  const Box box = scan_.in_stack(samples);
  ScanSamples out = scan_.phase[1] > 0 ? retrieved(box, silent) : measured(box, silent);
  if (!scan_.hardening.empty()) straighten(scan_.hardening, out);
  if (weights_) {
    std::vector<double> given(out.y.size());
    weights_->read(box, given.data());
    if (out.weights.empty())
      out.weights = given;
    else
      for (std::size_t i = 0; i < given.size(); ++i) out.weights[i] = out.weights[i] > 0 ? given[i] : 0;
  }
  return out;
}

std::vector<bool> still_columns(std::span<const double> least, std::span<const double> most) {
  constexpr std::size_t kWide = 8;  // more side by side are what a made-up scan has without noise
  std::vector<bool> still(least.size());
  for (std::size_t i = 0, end = 0; i < least.size(); i = end + 1) {
    for (end = i; end < least.size() && least[end] == most[end];) ++end;
    if (i > 0 && end < least.size() && end - i <= kWide)
      std::fill(still.begin() + static_cast<std::ptrdiff_t>(i),
                still.begin() + static_cast<std::ptrdiff_t>(end), true);
  }
  return still;
}

bool may_be_stuck(const Scan& scan) {
  constexpr std::size_t kViews = 8;
  constexpr double kWay = 150;  // degrees
  const std::vector<double>& angles = scan.file.angles;
  if (scan.file.views.frames.size() < kViews) return false;
  if (scan.transmission) return true;  // photons differ
  if (angles.empty() || scan.climbs) return false;
  const auto [least, most] = std::minmax_element(angles.begin(), angles.end());
  return *most - *least > kWay;
}

ScanRows scan_rows(const Scan& scan, std::int64_t first, std::int64_t rows, const Communicator& comm) {
  const std::int64_t views = std::ssize(scan.file.views.frames), columns = scan.file.views.columns;
  ScanRows out{at::zeros({rows, views, columns}, at::kDouble),
               at::zeros({rows, views, columns}, at::kDouble)};
  comm.together([&] {
    const std::int64_t from = views * comm.rank() / comm.size(), to = views * (comm.rank() + 1) / comm.size();
    if (from == to) return;
    ScanReader reader(scan);
    SilentSamples silent;
    const std::int64_t some = std::max<std::int64_t>(1, kFramesHeld / (rows * columns));
    for (std::int64_t v = from; v < to; v += some) {
      const std::int64_t end = std::min(v + some, to);
      ScanSamples s = reader.read(scan.rows == 1 ? Box({0, v, 0}, {1, end, columns})
                                                 : Box({v, first, 0}, {end, first + rows, columns}),
                                  silent);
      if (s.weights.empty()) s.weights.assign(s.y.size(), 1);
      for (std::int64_t k = 0; k < (end - v) * rows; ++k) {
        double *line = s.y.data() + k * columns, *weight = s.weights.data() + k * columns;
        for (std::int64_t i = 0; i < columns; ++i)
          if (!std::isfinite(line[i]) || !(weight[i] > 0)) weight[i] = 0;
        double last = 0;
        for (std::int64_t i = 0, next = 0; i < columns; ++i) {  // between its neighbors
          if (weight[i] > 0) {
            last = line[i];
            continue;
          }
          for (next = std::max(next, i + 1); next < columns && !(weight[next] > 0);) ++next;
          line[i] = next < columns && i > 0 ? (last + line[next]) / 2 : next < columns ? line[next] : last;
        }
        const std::int64_t at = (k % rows * views + v + k / rows) * columns;
        std::copy(line, line + columns, out.y.data_ptr<double>() + at);
        std::copy(weight, weight + columns, out.weights.data_ptr<double>() + at);
      }
    }
  });
  for (const at::Tensor& t : {out.y, out.weights})
    comm.all_reduce(std::span<double>(t.data_ptr<double>(), static_cast<std::size_t>(t.numel())),
                    Reduce::sum);
  return out;
}

double image_level(const at::Tensor& rows) {
  double level = 0;
  const std::int64_t columns = rows.size(2);
  const double* line = rows.const_data_ptr<double>();
  for (std::int64_t k = 0; k < rows.size(0) * rows.size(1); ++k, line += columns) {
    double peak = 0, mass = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      peak = std::max(peak, line[i]);
      mass += std::max(0.0, line[i]);
    }
    if (mass > 0) level = std::max(level, std::numbers::pi / 4 * peak * peak / mass);
  }
  return level;
}

}  // namespace tessera
