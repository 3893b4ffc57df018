// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/full_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <span>

#include "byte_order.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/measurement_file.hpp"
#include "tessera/samples/masked_pixels.hpp"
#include "tessera/samples/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kOneIn = 10'000;  // brightest samples that may lie above 1
constexpr int kNarrow = 2;               // unused bits that make a type wider than its contents
constexpr double kSteps = 0x1p-14;  // of the values' size: float32 has 512 steps in a range that is smaller
constexpr double kWantedSteps = 1000;               // steps that a range should have
constexpr double kDimmest = 0.125, kBrightest = 2;  // floats in between are taken to be in [0, 1]

constexpr int kPowers = 256;  // of two, on both sides of 1

struct Reached {
  double most = 0, bright = 0;  // the largest value; what all but one in kOneIn do not exceed
  double dark = 0;              // what all but one in kOneIn do not fall below
  std::int64_t samples = 0;     // that have a value
  std::vector<std::int64_t> below =
      {};               // of those below 0, by the power of two of their size, from -kPowers on
  double inner = 0;     // the same without the smallest value, where marks and limits pile up
  bool far = false;     // their differences are lost in float32
  MaskedPixels masked;  // which are left out
};

// The largest of the numbers that this rank sees, enough for the quantile of all.
class Top {
 public:
  explicit Top(std::size_t kept) : kept_(kept) {}
  void add(double v) {
    if (v <= least_) return;
    values_.push_back(v);
    if (values_.size() >= 2 * kept_ + 1024) shorten();
  }
  void shorten() {
    if (values_.size() > kept_) {
      std::nth_element(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(kept_), values_.end(),
                       std::greater<>());
      values_.resize(kept_);
    }
    least_ = values_.size() < kept_ ? -INFINITY : *std::min_element(values_.begin(), values_.end());
  }
  const std::vector<double>& values() const { return values_; }

  // Without and with its sign, over all ranks.
  std::array<double, 2> largest(const Communicator& comm) const {
    std::array<double, 2> out{0, -INFINITY};
    for (const double v : values_) out = {std::max(out[0], std::abs(v)), std::max(out[1], v)};
    comm.all_reduce(out, Reduce::max);
    return out;
  }
  // In float32 beyond `base`, which order_statistic takes, by a power of two that is 1 for all but extreme units.
  double place(std::int64_t from_top, double base, const Communicator& comm) const {
    const int exponent = float_exponent(largest(comm)[0]);
    std::vector<float> fitted;
    for (const double v : values_) fitted.push_back(static_cast<float>(std::ldexp(v - base, -exponent)));
    const std::int64_t last = count_values(fitted, comm) - 1;
    const float found = order_statistic(fitted, last - std::min(from_top, last), comm);
    return base + std::ldexp(static_cast<double>(found), exponent);
  }

 private:
  std::size_t kept_;
  double least_ = -INFINITY;
  std::vector<double> values_;
};

// The smallest numbers but for the least of all.
class AboveLeast {
 public:
  explicit AboveLeast(std::size_t kept) : kept_(static_cast<std::int64_t>(kept)), negative_(kept) {}
  void add(double v) {
    if (v == least_)
      ++count_;
    else if (v > least_)
      negative_.add(-v);
    else if (v < least_) {
      put_back();
      least_ = v;
      count_ = 1;
    }
  }
  // What all others but so many do not fall below; NaN where there are no others. Collective.
  double dark(std::int64_t but, const Communicator& comm) {
    double least = least_;
    comm.all_reduce({&least, 1}, Reduce::min);
    if (least_ > least) put_back();
    negative_.shorten();
    std::int64_t others = std::ssize(negative_.values());
    comm.all_reduce(std::span<std::int64_t>(&others, 1), Reduce::sum);
    return others > 0 ? -negative_.place(but, 0, comm) : NAN;
  }

 private:
  void put_back() {
    for (std::int64_t k = 0; k < std::min(count_, kept_); ++k) negative_.add(-least_);
    count_ = 0;
  }

  std::int64_t kept_, count_ = 0;
  double least_ = INFINITY;
  Top negative_;
};

// Of the samples of file `i` of `paths` each to one rank, those of weight 0 or masked as NaN.
void visit_counted(const std::vector<std::string>& paths, std::size_t i, const CountedBy& counted,
                   FileHeaders& headers, const Communicator& comm, const ImageSource::Visit& visit) {
  constexpr std::int64_t kAtOnce = 1 << 24;  // samples of a rank
  const SourceInfo info = headers.image(paths[i], comm);
  const std::size_t along = info.box.extent(0) > 1 ? 0 : 1;
  const std::int64_t lines = info.box.extent(along),
                     each = std::max<std::int64_t>(
                         1, kAtOnce / std::max<std::int64_t>(1, info.values() / lines)),
                     band = std::min(each, (lines + comm.size() - 1) / comm.size());
  for (std::int64_t first = 0; first < lines; first += band * comm.size()) {
    std::vector<Box> boxes;
    for (int r = 0; r < comm.size(); ++r) {
      Index3 lo = info.box.lo(), hi = info.box.hi();
      lo[along] = std::min(first + r * band, lines);
      hi[along] = std::min(lo[along] + band, lines);
      boxes.emplace_back(lo, hi);
    }
    const Layout layout(boxes);
    const Box& mine = layout.box(comm.rank());
    const at::Tensor y = empty_block(info, mine, at::kDouble);
    read_image(paths[i], layout, view(y, mine), comm);
    at::Tensor marks = empty_block(info, mine, at::kDouble);
    if (!counted.marks) {
      std::vector<MeasurementPart> parts;
      for (const std::string& path : paths) {
        const SourceInfo& other = headers.image(path, comm);
        parts.push_back({other.box, Layout(std::vector<Box>(boxes.size())),
                         view(empty_block(other, Box(), at::kDouble), Box())});
      }
      parts[i] = {info.box, layout, view(marks, mine)};
      read_measurements(counted.weights, "weights", parts, comm);
    } else {
      const at::Tensor own = counted.marks(info, layout);
      marks = own.defined() ? own.expand_as(y) : at::ones_like(y);
    }
    if (mine.empty()) continue;
    y.masked_fill_(marks.gt(0).logical_not_(), NAN);
    visit(y.const_data_ptr<double>(), y.numel());
  }
}

std::string name_of(const std::vector<std::string>& paths) {
  const std::size_t part = paths.front().rfind(":/");  // a dataset or a page
  const std::string file = std::filesystem::path(paths.front().substr(0, part)).filename();
  return part == std::string::npos ? file : file + paths.front().substr(part);
}

// Streams the files.
Reached reached(const std::vector<std::string>& paths, const CountedBy& counted, FileHeaders& headers,
                const Communicator& comm) {
  std::int64_t samples = 0;
  std::vector<std::string> types;
  for (const std::string& path : paths) {
    const SourceInfo& info = headers.image(path, comm);
    samples += info.box.pixels() * info.channels;
    types.push_back(info.type);
  }
  const auto kept = static_cast<std::size_t>(samples / kOneIn + 1);
  Reached out;
  Top top(kept), bottom(kept);  // of the values, and of their negatives
  AboveLeast above_least(kept);
  out.below.assign(2 * kPowers + 1, 0);
  MaskedPixels& masked = out.masked = MaskedPixels(types.front());
  ByteOrder order(types.front());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto take = [&](const double* first, std::int64_t n) {
      order.look(first, n);
      for (const double v : std::span(first, static_cast<std::size_t>(n))) {
        if (!masked.count(v)) continue;
        top.add(v);
        bottom.add(-v);
        above_least.add(v);
        if (v < 0)
          ++out.below[static_cast<std::size_t>(std::clamp(std::ilogb(v), -kPowers, kPowers) + kPowers)];
      }
      top.shorten();
      bottom.shorten();
    };
    if (counted.weights.empty() && !counted.marks)
      visit_samples(paths[i], comm, take);
    else
      visit_counted(paths, i, counted, headers, comm, take);
  }
  order.refuse(name_of(paths), "where it is meant so, say problem.scale.factor", comm);
  masked.sum(comm);
  masked.visit_samples([&](double value, std::int64_t n) {
    for (std::int64_t k = 0; k < std::min(n, static_cast<std::int64_t>(kept)); ++k) {
      top.add(value);
      bottom.add(-value);
      above_least.add(value);
    }
  });
  const std::int64_t finite = masked.others() + (masked.found() ? 0 : masked.marked()),
                     above = finite / kOneIn;
  comm.all_reduce(std::span<std::int64_t>(out.below), Reduce::sum);
  out.samples = finite;
  if (finite == 0) return out;
  out.most = top.largest(comm)[1];
  out.bright = top.place(above, 0, comm);
  out.dark = -bottom.place(finite / kOneIn, 0, comm);
  out.inner = above_least.dark(finite / kOneIn, comm);
  const double size = std::max(std::abs(out.bright), std::abs(out.dark));
  out.far = out.bright - out.dark < size * kSteps && out.dark < out.bright + size * 0x1p-20;
  if (!out.far) return out;
  const double base = out.dark;
  out.bright = top.place(above, base, comm);
  out.dark = -bottom.place(finite / kOneIn, -base, comm);
  return out;
}

// Bits that hold a whole number. Files of 25 bits and more may have come through float32, where 2^25 - 1 is
// 2^25: no more than a rounding above a power of two is below it.
int bits_of(double most) {
  return std::max(1,
                  static_cast<int>(std::floor(std::log2(most >= 0x1p24 ? most * (1 - 0x1p-24) : most))) + 1);
}

// Whether a good part of the samples lies far below 0, and not a few wild ones.
bool both_signs(const Reached& r, double low) {
  constexpr double kBelow = 0.5;            // of the brightest
  constexpr std::int64_t kOneInBelow = 50;  // by an eighth of it
  if (!(low < r.bright && low < -kBelow * std::max(0.0, r.bright))) return false;
  if (r.bright <= 0) return true;
  const int least = std::clamp(std::ilogb(r.bright) - 3, -kPowers, kPowers) + kPowers;
  return std::accumulate(r.below.begin() + least, r.below.end(), std::int64_t{0}) * kOneInBelow > r.samples;
}

int type_bits(const std::string& type) {
  const std::size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 32 : std::stoi(type.substr(digits));
}

}  // namespace

double brightest_samples(const std::vector<std::string>& paths, double factor, double offset,
                         FileHeaders& headers, const Communicator& comm, const CountedBy& counted) {
  return reached(paths, counted, headers, comm).bright * factor + offset;
}

FullScale full_scale_of(const SourceInfo& about, const std::vector<std::string>& paths, double offset,
                        FileHeaders& headers, const Communicator& comm, const CountedBy& counted,
                        BothSigns signs) {
  if (about.says_scale) return {offset != 0 ? offset : about.offset, about.full_scale};
  const bool real = about.type.starts_with("float");
  FullScale out{offset, about.full_scale};
  if (real || (about.type.find("int") != std::string::npos && about.type != "uint8")) {
    const Reached r = reached(paths, counted, headers, comm);
    const double range = r.bright - r.dark, size = std::max(std::abs(r.bright), std::abs(r.dark));
    // Whole numbers up to 2^24 are what they are in float32, up to 2^53 in float64.
    if (r.far && !real && size > 0x1p53) {
      const double step = std::ldexp(1.0, std::ilogb(size) - 52);
      TESSERA_VALIDATE(range >= kWantedSteps * step, name_of(paths), " (", about.type, ") lies at ", r.dark,
                       " and differs by ", range, " (float64, in which it is read, has steps of ", step,
                       " there) write it less ", fmt::format("{:.0f}", r.dark), ", in a smaller type");
    }
    if (r.far && offset == 0 && range > 0 && (real || size >= 0x1p24))
      return {
          r.dark, range,
          fmt::format(
              "full scale: {} ({}) lies far from 0, between {:.15g} and {:.15g} but for one sample in {}, "
              "and float32 has steps of {:.3g} there: {:.15g} is taken for 0 and {:.6g} above it for 1 "
              "(scale.offset, scale.factor)",
              name_of(paths), about.type, r.dark, r.bright, kOneIn, std::ldexp(1.0, std::ilogb(size) - 23),
              r.dark, range)};
    const bool wraps = about.type == "int16" && r.dark < -0x1p14 && r.bright > 0x1p14;  // uint16, as it seems
    const double low = signs == BothSigns::of_truth ? r.dark : r.inner;
    if (signs != BothSigns::as_others && offset == 0 && both_signs(r, low) && !wraps)
      return {
          low, r.bright - low,
          fmt::format("full scale: {} ({}) lies between {:.6g} and {:.6g} but for one sample in {}: {:.6g} "
                      "is taken for 0 and {:.6g} above it for 1 (scale.offset, scale.factor)",
                      name_of(paths), about.type, low, r.bright, kOneIn, low, r.bright - low)};
    const std::string marked = r.masked.found() ? fmt::format(" beside {}", r.masked.text()) : std::string();
    if (real && (r.bright < kDimmest || r.bright > kBrightest) && r.bright > offset) {
      out.factor = r.bright;
      out.note = fmt::format(
          "full scale: {} ({}, a type without one) reaches {:.6g}{}, and all but one sample in {} stay below "
          "{:.6g}, which is taken for 1 (scale.factor)",
          name_of(paths), about.type, r.most, marked, kOneIn, r.bright);
    } else if (!real && r.most > 0) {
      const int wide = type_bits(about.type), bits = std::min(bits_of(r.most), wide);
      if (about.full_scale == 1 || bits <= wide - kNarrow) {
        out.factor = std::exp2(bits) - 1;
        out.note = fmt::format(
            "full scale: {} ({}) reaches {:.10g}{}, {} of {} bits: {:.10g} is taken for 1 (scale.factor)",
            name_of(paths), about.type, r.most, marked, bits, wide, out.factor);
      }
    }
  }
  TESSERA_VALIDATE(out.factor > offset, "problem.scale.offset is ", offset, " (the full scale of ",
                   name_of(paths), " is ", out.factor, ") write a smaller one, or problem.scale.factor");
  out.factor -= offset;
  return out;
}

}  // namespace tessera
