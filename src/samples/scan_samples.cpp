// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/samples/scan_samples.hpp"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <span>
#include <utility>

#include "scan_rings.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/samples/masked_pixels.hpp"

namespace tessera {

double fit_float(Measurement& parts, const Communicator& comm) {
  double largest = 0;
  for (const at::Tensor& t : parts)
    if (t.numel() > 0) largest = std::max(largest, t.max().item().toDouble());
  comm.all_reduce({&largest, 1}, Reduce::max);
  const double unit = std::ldexp(1.0, float_exponent(largest));
  for (at::Tensor& t : parts) {
    if (unit != 1) t.div_(unit);
    const at::Tensor positive = t.gt(0);  // stays so
    t = t.to(at::kFloat);
    t.masked_fill_(t.lt(FLT_MIN).logical_and_(positive), FLT_MIN);
  }
  return unit;
}

void take_weights(Samples& s, const Communicator& comm) {
  comm.together([&] {
    for (std::size_t i = 0; i < s.weights.size(); ++i) {
      at::Tensor& w = s.weights[i];
      const at::Tensor none = w.isfinite().logical_not_();
      s.no_weight += none.sum().item().toLong();
      w.masked_fill_(none, 0);
      TESSERA_VALIDATE(!(w < 0).any().item().toBool(), "weights of part ", i,
                       " are negative (they are inverse variances) correct the file");
    }
  });
  comm.all_reduce(std::span<std::int64_t>(&s.no_weight, 1), Reduce::sum);
  s.weight_unit = fit_float(s.weights, comm);
}

namespace {

// Weights of columns that never change become 0, samples without weights no numbers, all ranks' views together; how many of them had one. The samples of a
// rank are all columns of some views and rows.
std::int64_t leave_out_still(const Scan& scan, const ImageSpace& space, const Box& mine, Samples& s,
                             const Communicator& comm) {
  const std::int64_t rows = scan.rows, columns = scan.file.views.columns;
  const auto n = static_cast<std::size_t>(rows * columns);
  std::vector<double> ends(2 * n, -INFINITY);  // of -least and most
  const std::size_t view = space.volume() ? 0 : 1;
  const std::int64_t first = space.volume() && !mine.empty() ? mine.lo()[1] : 0,
                     high = mine.empty()     ? 0
                            : space.volume() ? mine.extent(1)
                                             : 1,
                     views = mine.empty() ? 0 : mine.extent(view);
  const auto visit = [&](const auto& each) {
    if (mine.empty()) return;
    float* y = s.y[0].data_ptr<float>();
    double* w = s.weights.empty() ? nullptr : s.weights[0].data_ptr<double>();
    for (std::int64_t k = 0; k < views * high * columns; ++k)
      if (std::isfinite(y[k]) && (!w || w[k] > 0))
        each(static_cast<std::size_t>((first + k / columns % high) * columns + k % columns), y[k],
             w ? w + k : nullptr);
  };
  visit([&](std::size_t at, float& y, double*) {
    ends[at] = std::max<double>(ends[at], -y);
    ends[n + at] = std::max<double>(ends[n + at], y);
  });
  comm.all_reduce(ends, Reduce::max);
  for (std::size_t k = 0; k < n; ++k) ends[k] = -ends[k];
  std::vector<bool> still;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto wide = static_cast<std::size_t>(columns), from = static_cast<std::size_t>(r) * wide;
    const std::vector<bool> row =
        still_columns(std::span(ends).subspan(from, wide), std::span(ends).subspan(n + from, wide));
    still.insert(still.end(), row.begin(), row.end());
  }
  std::int64_t out = 0;
  visit([&](std::size_t at, float& y, double* w) {
    if (!still[at]) return;
    if (w)
      *w = 0;
    else
      y = NAN;
    ++out;
  });
  return out;
}

// Takes rings, and says how much that was in line integrals, of which the samples are `unit`.
void take_rings_of(const Scan& scan, const ImageSpace& space, const Box& mine, Samples& s, double unit,
                   std::vector<std::string>& notices, const Communicator& comm) {
  const auto n = static_cast<std::size_t>(mine.pixels());
  RingSamples part;
  part.y = std::span(s.y[0].data_ptr<float>(), n);
  if (!s.weights.empty()) part.weights = std::span<const double>(s.weights[0].data_ptr<double>(), n);
  part.columns = scan.file.views.columns;
  part.all_rows = scan.rows;
  part.all_views = std::ssize(scan.file.views.frames);
  if (!mine.empty()) {
    part.views = mine.extent(space.volume() ? 0 : 1);
    part.rows = space.volume() ? mine.extent(1) : 1;
    part.first_view = mine.lo()[space.volume() ? 0 : 1];
    part.first_row = space.volume() ? mine.lo()[1] : 0;
  }
  const double taken = take_rings(part, scan.round_edges, comm) / unit;
  if (scan.rings_said) return;
  notices.push_back(
      fmt::format("rings: columns of the detector were off their neighbors by {:.2g} of a line "
                  "integral (rms), which is taken from all views",
                  taken));
}

}  // namespace

Samples scan_samples(const Survey& survey, const Scan& scan, const MeasurementOrigin& origin,
                     const ProductSpace& layout, std::vector<std::string>& notices,
                     const Communicator& comm) {
  constexpr std::int64_t kHeld = 8 << 20;  // samples that are held in float64 at once
  const Box mine = layout.block(0, comm.rank());
  const ImageSpace& space = layout.part(0).space;
  Samples s;
  s.y = {empty_block(1, mine, at::kFloat, space.axes)};
  const bool weighs = scan.transmission || !scan.file.weights.empty();
  if (weighs) s.weights = {empty_block(1, mine, at::kDouble, space.axes)};
  SilentSamples silent;
  comm.together([&] {
    if (mine.empty()) return;
    ScanReader reader(scan);
    const std::size_t view = space.volume() ? 0 : 1;
    const std::int64_t each = mine.pixels() / mine.extent(view),
                       some = std::max<std::int64_t>(1, kHeld / each);
    float* y = s.y[0].data_ptr<float>();
    double* w = weighs ? s.weights[0].data_ptr<double>() : nullptr;
    for (std::int64_t v = mine.lo()[view]; v < mine.hi()[view]; v += some) {
      beat();
      Index3 lo = mine.lo(), hi = mine.hi();
      lo[view] = v;
      hi[view] = std::min(v + some, hi[view]);
      const ScanSamples band = reader.read(Box(lo, hi), silent);
      for (const double value : band.y) {
        const bool as_it_is =
            origin.internal && origin.factor == survey.factor && origin.offset == survey.offset;
        const double file = origin.internal && !as_it_is ? value * origin.factor + origin.offset : value;
        *y++ = static_cast<float>(as_it_is ? value : (file - survey.offset) / survey.factor);
      }
      if (weighs) w = std::copy(band.weights.begin(), band.weights.end(), w);
    }
  });
  if (scan.rings == Rings::remove) {
    const bool as_it_is = origin.internal && origin.factor == survey.factor && origin.offset == survey.offset;
    const double unit = as_it_is ? 1 : (origin.internal ? origin.factor : 1) / survey.factor;
    take_rings_of(scan, space, mine, s, unit, notices, comm);
  }
  const bool own = scan.file.views.path.find(":/measurements/") != std::string::npos;  // of tessera simulate
  const std::int64_t still = may_be_stuck(scan) && !own ? leave_out_still(scan, space, mine, s, comm) : 0;
  std::array<std::int64_t, 5> reasons{silent.unlit, silent.saturated, silent.zingers, still, silent.specks};
  comm.all_reduce(reasons, Reduce::sum);
  take_weights(s, comm);
  if (!scan.transmission) {
    if (reasons[3] > 0)
      notices.push_back(
          fmt::format("{} samples are in columns that never change (dead pixels of the detector) and count 0",
                      reasons[3]));
    if (reasons[4] > 0)
      notices.push_back(fmt::format(
          "{} samples stand far off their neighbors in one view alone (zingers, dead pixels) and count 0",
          reasons[4]));
    return s;
  }
  s.weights_compare = survey.problem.weights.empty();
  s.weightless = "say nothing (";
  for (const auto& [samples, what] :
       {std::pair(reasons[0], "no count above the dark, or no light in the flat or a saturated one"),
        std::pair(reasons[1], "saturated"),
        std::pair(reasons[2], "zingers, far brighter than their neighbors"),
        std::pair(reasons[3], "in columns that never change")})
    if (samples > 0)
      s.weightless += fmt::format("{}{} {}", s.weightless.back() == '(' ? "" : "; ", samples, what);
  s.weightless += ")";
  const auto counted = [](const FrameStack& stack, const char* what) {
    return stack.empty()
               ? fmt::format("no {}s", what)
               : fmt::format("{} {}{}", stack.frames.size(), what, stack.frames.size() == 1 ? "" : "s");
  };
  notices.push_back(
      fmt::format("{}: line integrals are -log((counts - dark) / (flat - dark)), of {} and {}{}",
                  scan.file.kind.empty() ? "transmission" : scan.file.kind, counted(scan.file.flats, "flat"),
                  counted(scan.file.darks, "dark"),
                  scan.file.flats.frames.size() + scan.file.darks.frames.size() > 2 ? ", averaged" : ""));
  return s;
}

}  // namespace tessera
