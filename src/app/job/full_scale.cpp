// SPDX-License-Identifier: BSD-3-Clause
#include "job/full_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>

#include "job/masked_pixels.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kOneIn = 10'000;        // brightest samples that may lie above 1
constexpr int kNarrow = 2;                     // unused bits that make a type wider than its contents
constexpr double kDimmest = 0.125, kMost = 2;  // floats in between are taken to be in [0, 1]

struct Reached {
  double most = 0, bright = 0;  // the largest value; what all but one in kOneIn do not exceed
  MaskedPixels masked;          // which are left out
};

// Each rank keeps the largest samples that it sees, enough for the quantile of all; streams the files.
Reached reached(const std::vector<std::string>& paths, const Communicator& comm) {
  std::int64_t samples = 0;
  std::vector<std::string> types;
  for (const std::string& path : paths) {
    const SourceInfo info = image_source_info(path, comm);
    samples += info.box.pixels() * info.channels;
    types.push_back(info.type);
  }
  const auto kept = static_cast<std::size_t>(samples / kOneIn + 1);
  Reached out;
  std::vector<double> top;
  const auto shorten = [&] {
    if (top.size() <= kept) return;
    std::nth_element(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept), top.end(),
                     std::greater<>());
    top.resize(kept);
  };
  MaskedPixels& masked = out.masked = MaskedPixels(types.front());
  for (const std::string& path : paths)
    visit_samples(path, comm, [&](const double* first, std::int64_t n) {
      double least = top.size() < kept ? -INFINITY : *std::min_element(top.begin(), top.end());
      for (const double v : std::span(first, static_cast<std::size_t>(n))) {
        if (!masked.count(v) || v <= least) continue;
        top.push_back(v);
        if (top.size() < 2 * kept + 1024) continue;
        shorten();
        least = *std::min_element(top.begin(), top.end());
      }
      shorten();
    });
  masked.sum(comm);
  const std::int64_t finite = masked.others() + (masked.found() ? 0 : masked.marked());
  if (finite == 0) return out;
  // Where they are none, all that stand at the end of the type are the largest samples.
  const std::int64_t above = finite / kOneIn - (masked.found() ? 0 : masked.marked());
  if (!masked.found() && masked.marked() > 0) out.most = out.bright = masked.mark();
  if (masked.others() == 0) return out;
  // In float32, which order_statistic takes, by a power of two that is 1 for all but extreme units.
  std::array<double, 2> largest{0, -INFINITY};  // without and with its sign
  for (const double v : top) largest = {std::max(largest[0], std::abs(v)), std::max(largest[1], v)};
  comm.all_reduce(largest, Reduce::max);
  const int exponent = float_exponent(largest[0]);
  std::vector<float> fitted;
  for (const double v : top) fitted.push_back(static_cast<float>(std::ldexp(v, -exponent)));
  const std::int64_t last = count_values(fitted, comm) - 1;
  const auto place = [&](std::int64_t from_top) {
    return std::ldexp(static_cast<double>(order_statistic(fitted, last - from_top, comm)), exponent);
  };
  if (masked.found() || masked.marked() == 0) out.most = largest[1];
  if (above >= 0) out.bright = place(std::min(above, last));
  return out;
}

std::string name_of(const std::vector<std::string>& paths) {
  const std::size_t part = paths.front().rfind(":/");  // a dataset or a page
  const std::string file = std::filesystem::path(paths.front().substr(0, part)).filename();
  return part == std::string::npos ? file : file + paths.front().substr(part);
}

// Bits that hold a whole number. Files of 25 bits and more may have come through float32, where 2^25 - 1 is
// 2^25: no more than a rounding above a power of two is below it.
int bits_of(double most) {
  return std::max(1,
                  static_cast<int>(std::floor(std::log2(most >= 0x1p24 ? most * (1 - 0x1p-24) : most))) + 1);
}

int type_bits(const std::string& type) {
  const std::size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 32 : std::stoi(type.substr(digits));
}

}  // namespace

double brightest_samples(const std::vector<std::string>& paths, double factor, double offset,
                         const Communicator& comm) {
  return reached(paths, comm).bright * factor + offset;
}

FullScale full_scale_of(const SourceInfo& about, const std::vector<std::string>& paths, double offset,
                        const Communicator& comm) {
  if (about.says_scale) return {offset != 0 ? offset : about.offset, about.full_scale};
  const bool real = about.type.starts_with("float");
  FullScale out{offset, about.full_scale};
  if (real || (about.type.find("int") != std::string::npos && about.type != "uint8")) {
    const Reached r = reached(paths, comm);
    const std::string marked = r.masked.found() ? fmt::format(" beside {}", r.masked.text()) : std::string();
    if (real && (r.bright < kDimmest || r.bright > kMost) && r.bright > offset) {
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
