// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/gray_channels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/core/phase.hpp"
#include "tessera/io/keep_open.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPiece = 1 << 20;  // bytes: most pictures of color differ in the first

// How far the channels of a pixel lie apart.
struct Apart {
  double most = 0, squares = 0;
  double sum = 0, sum_squares = 0, pixels = 0;  // of their means
  double rms() const { return std::sqrt(squares / std::max(1.0, pixels)); }
  double deviation() const {
    const double mean = sum / std::max(1.0, pixels);
    return std::sqrt(std::max(0.0, sum_squares / std::max(1.0, pixels) - mean * mean));
  }
};

// Of 8 bits a compression and a rounding may lie between; other types are equal or they are not.
double most_apart(const std::string& type, double value) {
  constexpr double kSteps = 6, kRounding = 1e-6;
  return type == "uint8" ? kSteps : type.starts_with("float") ? kRounding * std::abs(value) : 0;
}

// Nothing where the channels differ, or there are not three.
std::optional<Apart> apart(const std::string& path) {
  constexpr double kSteps = 1.2, kOfContrast = 0.03;
  const std::shared_ptr<ImageSource> source = shared_image(path);
  const SourceInfo& info = source->info();
  if (info.channels != kColors) return std::nullopt;
  Apart out;
  std::vector<double> values;
  for (const Box& box : source->pieces(info.box, kPiece)) {
    beat();
    const std::int64_t n = box.pixels();
    values.resize(static_cast<std::size_t>(kColors * n));
    source->read(box, values.data());
    for (std::int64_t k = 0; k < n; ++k) {
      const std::array<double, 3> v{values[static_cast<std::size_t>(k)],
                                    values[static_cast<std::size_t>(n + k)],
                                    values[static_cast<std::size_t>(2 * n + k)]};
      const auto missing = std::count_if(v.begin(), v.end(), [](double x) { return !std::isfinite(x); });
      if (missing == kColors) continue;
      const auto [least, most] = std::minmax_element(v.begin(), v.end());
      if (missing > 0 || *most - *least > most_apart(info.type, *most)) return std::nullopt;
      const double mean = (v[0] + v[1] + v[2]) / kColors;
      out.most = std::max(out.most, *most - *least);
      out.squares += (*most - *least) * (*most - *least);
      out.sum += mean;
      out.sum_squares += mean * mean;
      ++out.pixels;
    }
  }
  const bool eight = info.type == "uint8";
  if (eight && (out.rms() > kSteps || out.rms() > kOfContrast * out.deviation())) return std::nullopt;
  return out;
}

}  // namespace

GrayChannels gray_channels(const std::string& path, const Communicator& comm) {
  GrayChannels out;
  comm.together([&] {
    if (comm.rank() != 0) return;
    const std::int64_t stored = shared_image(path)->info().channels;
    out.one = stored == 1;
    if (stored != kColors) return;
    const std::optional<Apart> found = apart(path);
    out.three = out.one = found.has_value();
    out.colors = !found;
    if (found) out.most = found->most;
  });
  comm.broadcast(&out, sizeof(out), 0);
  return out;
}

}  // namespace tessera
