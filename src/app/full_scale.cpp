// SPDX-License-Identifier: BSD-3-Clause
#include "full_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "tessera/core/error.hpp"
#include "tessera/domain/order_statistics.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kOneIn = 10'000;        // brightest samples that may lie above 1
constexpr int kNarrow = 2;                     // unused bits that make a type wider than its contents
constexpr double kDimmest = 0.125, kMost = 2;  // floats in between are taken to be in [0, 1]

struct Reached {
  double most = 0, bright = 0;  // the largest value; what all but one in kOneIn do not exceed
};

// Each rank keeps the largest samples that it sees, enough for the quantile of all; streams the files.
Reached reached(const std::vector<std::string>& paths, const Communicator& comm) {
  std::int64_t samples = 0, finite = 0;
  for (const std::string& path : paths) {
    const SourceInfo info = image_source_info(path, comm);
    samples += info.box.pixels() * info.channels;
  }
  const auto kept = static_cast<std::size_t>(samples / kOneIn + 1);
  std::vector<float> top;
  const auto shorten = [&] {
    if (top.size() <= kept) return;
    std::nth_element(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept), top.end(),
                     std::greater<>());
    top.resize(kept);
  };
  for (const std::string& path : paths)
    visit_samples(path, comm, [&](const float* first, std::int64_t n) {
      float least = top.size() < kept ? -INFINITY : *std::min_element(top.begin(), top.end());
      for (const float v : std::span(first, static_cast<std::size_t>(n))) {
        if (!std::isfinite(v)) continue;
        ++finite;
        if (v <= least) continue;
        top.push_back(v);
        if (top.size() < 2 * kept + 1024) continue;
        shorten();
        least = *std::min_element(top.begin(), top.end());
      }
      shorten();
    });
  comm.all_reduce({&finite, 1}, Reduce::sum);
  const std::int64_t n = count_values(top, comm);
  if (n == 0) return {};
  return {order_statistic(top, n - 1, comm), order_statistic(top, n - 1 - finite / kOneIn, comm)};
}

std::string name_of(const std::vector<std::string>& paths) {
  const std::size_t part = paths.front().rfind(":/");  // a dataset or a page
  const std::string file = std::filesystem::path(paths.front().substr(0, part)).filename();
  return part == std::string::npos ? file : file + paths.front().substr(part);
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
    if (real && (r.bright < kDimmest || r.bright > kMost) && r.bright > offset) {
      out.factor = r.bright;
      out.note = fmt::format(
          "full scale: {} ({}, a type without one) reaches {:.6g}, and all but one sample in {} stay below "
          "{:.6g}, which is taken for 1 (scale.factor)",
          name_of(paths), about.type, r.most, kOneIn, r.bright);
    } else if (!real && r.most > 0) {
      const int type_bits = about.type.ends_with("16") ? 16 : about.type.ends_with("8") ? 8 : 32;
      const int bits = std::max(1, static_cast<int>(std::floor(std::log2(r.most))) + 1);
      if (about.full_scale == 1 || bits <= type_bits - kNarrow) {
        out.factor = std::exp2(bits) - 1;
        out.note = fmt::format(
            "full scale: {} ({}) reaches {:.6g}, {} of {} bits: {:.10g} is taken for 1 (scale.factor)",
            name_of(paths), about.type, r.most, bits, type_bits, out.factor);
      }
    }
  }
  TESSERA_VALIDATE(out.factor > offset, "problem.scale.offset is ", offset, " (the full scale of ",
                   name_of(paths), " is ", out.factor, ") write a smaller one, or problem.scale.factor");
  out.factor -= offset;
  return out;
}

}  // namespace tessera
